"""Plan and replay."""

from __future__ import annotations

from integration.authority.values import Plan, Ref, Refused, Replayed
from integration.values import Actor


def plan(ref: Ref, actor: Actor) -> Plan:
    """Say what a replay would do now; signature only for the moment."""
    raise NotImplementedError


def replay(
    ref: Ref,
    *,
    actor: Actor,
    reason: str,
    route: int | None = None,
    idempotency_key: str | None = None,
) -> Replayed | Refused:
    """Replay one dead row; signature only for the moment."""
    raise NotImplementedError
