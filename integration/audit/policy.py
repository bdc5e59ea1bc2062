"""What an audit entry is and how its digest is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from integration.values import Actor, canonical_json, digest_text

#: The digest that the first entry of a stream names as its predecessor.
GENESIS_DIGEST: Final = "0" * 64
#: What a digest covers, besides the predecessor; the order does not matter, canonical JSON sorts.
DIGESTED_COLUMNS: Final = (
    "id",
    "stream",
    "seq",
    "previous_digest",
    "at",
    "actor_id",
    "actor_name",
    "via",
    "remote_addr",
    "action",
    "outcome",
    "ref_kind",
    "ref_id",
    "org_id",
    "namespace",
    "pack_install_id",
    "event_kind",
    "reason",
    "facts",
)


class AuditOutcome(StrEnum):
    """How the attempt ended."""

    DONE = "done"
    REFUSED = "refused"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFact:
    """One attempt, as it is written to the trail.

    Attributes:
        action: `noun.past`, for instance `work_item.replayed`.
        outcome: Done, refused or lost.
        actor: Who, from where.
        ref_kind: What it was about: `work_item`, `event`, `pack`, `user`, ...
        ref_id: Its id.
        reason: The actor's own sentence; empty when none is asked for.
        facts: Ids, codes, counts and times, before and after. Never payload, secrets or failure text.
    """

    action: str
    outcome: AuditOutcome
    actor: Actor
    ref_kind: str
    ref_id: str
    org_id: str | None = None
    namespace: str | None = None
    pack_install_id: str | None = None
    event_kind: str | None = None
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def entry_digest(row: Mapping[str, Any]) -> str:
    """Return the digest of an entry.

    Args:
        row: The entry's columns; `at` as an aware or UTC time, `facts` as its canonical JSON text.

    Returns:
        64 lowercase hex characters that cover every other column, the predecessor's digest included.
    """
    covered = {column: row[column] for column in DIGESTED_COLUMNS}
    covered["at"] = _instant(covered["at"])
    return digest_text(canonical_json(covered))


def _instant(at: datetime) -> str:
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return aware.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
