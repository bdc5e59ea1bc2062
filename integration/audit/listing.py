"""What the audit page, its export and its command show of the trail: filters, entries, pages. Nothing here reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from integration import errors
from integration.audit.policy import AuditOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilters:
    """What the trail is narrowed to; None means everything.

    Attributes:
        namespace: The namespace that an entry is of; entries of none match no namespace.
        ref: The id of what an entry is about.
        actor: Who did it, by name.
        action: An action, `noun.past`.
        outcome: `done`, `refused` or `lost`.
        since: At this time or later, aware UTC.
        until: Before this time, aware UTC.
    """

    namespace: str | None = None
    ref: str | None = None
    actor: str | None = None
    action: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot match or cannot be compared."""
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                message = f"{name} needs a time zone."
                raise errors.InvalidInput(message, field=name)
        for name in ("namespace", "ref", "actor", "action"):
            if any("\ud800" <= character <= "\udfff" for character in getattr(self, name) or ""):
                message = f"{name} holds a character that no entry has."
                raise errors.InvalidInput(message, field=name)
        if self.outcome is not None and self.outcome not in set(AuditOutcome):
            message = f"outcome is {', '.join(AuditOutcome)}."
            raise errors.InvalidInput(message, field="outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the trail, with its place in its chain."""

    id: str
    stream: str
    seq: int
    previous_digest: str
    digest: str
    at: datetime
    actor_id: int | None
    actor_name: str
    via: str
    remote_addr: str | None
    action: str
    outcome: str
    ref_kind: str
    ref_id: str
    org_id: str | None
    namespace: str | None
    pack_install_id: str | None
    event_kind: str | None
    reason: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """One page of the trail.

    Attributes:
        entries: The entries, by time and id, in the order that was asked for.
        newer: The cursor of the page with newer entries, None without one.
        older: The cursor of the page with older entries, None without one.
        searched_to: Set when a search by more than one filter stopped at its bound: the time that it reached. The
            cursor in its direction goes on from there.
    """

    entries: tuple[Entry, ...]
    newer: str | None
    older: str | None
    searched_to: datetime | None
