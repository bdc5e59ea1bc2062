"""A connector-events service as it was before WorkItems: the published interface and nothing else.

It imports nothing of this project: what serves it must serve it as it stands.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

EVENT_ID = "00000000-0000-7000-8000-000000000001"
CHILD_ID = "00000000-0000-7000-8000-000000000002"


class LegacyService:
    """Two attributes more than the published shape has: what an old service read, it handed on."""

    calls: list[tuple[Any, ...]] = []

    def list(self, *, namespace, event_kind, provider, replayed, cursor, limit):
        self.calls.append(("list", namespace, event_kind, provider, replayed, cursor, limit))
        return SimpleNamespace(events=[_event()], newer=None, older="next")

    def get(self, event_id):
        self.calls.append(("get", event_id))
        return _event()

    def replay(self, event_id, *, actor, reason, idempotency_key):
        self.calls.append(("replay", event_id, actor.name, reason, idempotency_key))
        return SimpleNamespace(
            original_event_id=event_id, child_event_id=CHILD_ID, replayed_at="2026-01-01T00:00:00Z", is_repeat=False
        )


def _event() -> SimpleNamespace:
    return SimpleNamespace(
        event_id=EVENT_ID,
        status="dead",
        namespace="acme-sales",
        retry_count=5,
        payload="canary-of-the-legacy-service",
        last_error="canary-of-the-legacy-service",
    )
