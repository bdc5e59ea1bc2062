"""What an audit entry is, which reason it may hold, and how its digest is made. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from integration import errors
from integration.values import Actor, canonical_json, digest_text

REASON_CHARACTERS: Final = 500
#: Line and paragraph separators, and what turns the direction of the text that follows.
_MISLEADING: Final = frozenset("\u2028\u2029\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
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


def check_reason(reason: str) -> str:
    """Return the reason without the space around it.

    Args:
        reason: What the operator wrote.

    Returns:
        1 to 500 characters, on one line.

    Raises:
        InvalidInput: It is empty, too long, or holds a character that an audit page could not show as it is.
    """
    text = reason.strip()
    # Characters without a shape of their own say nothing either.
    if all(unicodedata.category(character)[0] in "CZ" for character in text):
        message = "A reason is required: say why in 1 to 500 characters."
        raise errors.InvalidInput(message, field="reason", found="nothing")
    if len(text) > REASON_CHARACTERS:
        message = f"The reason has {len(text)} characters: shorten it to {REASON_CHARACTERS}."
        raise errors.InvalidInput(message, field="reason", found=f"{len(text)} characters")
    check_printable("reason", text)
    return text


def check_printable(field: str, text: str) -> None:
    """Refuse a text that would not stand on one line as it is.

    Args:
        field: What it is called where it was handed in.
        text: The text.

    Raises:
        InvalidInput: It holds a control character, or one that turns the direction of what follows.
    """
    for character in text:
        if unicodedata.category(character) in {"Cc", "Cs"} or character in _MISLEADING:
            name = f"U+{ord(character):04X}"
            message = f"The {field} holds the control character {name}: write it on one line, in plain characters."
            raise errors.InvalidInput(message, field=field, found=name)
