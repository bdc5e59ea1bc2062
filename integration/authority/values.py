"""The frozen values that the authority reads, decides and answers with. Nothing here reads or writes.

No value carries a payload, a token, a worker's name or what a caller wrote about a failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from integration import errors

VIEW_PERMISSION: Final = "integration.view_connector_event"
REPLAY_PERMISSION: Final = "integration.replay_connector_event"
#: Given by grants alone; who may view and replay everywhere by Django's permissions has it everywhere.
BULK_PERMISSION: Final = "integration.replay_in_bulk"

#: What an operator needs to replay.
BOTH_PERMISSIONS: Final = frozenset({VIEW_PERMISSION, REPLAY_PERMISSION})
BULK_PERMISSIONS: Final = BOTH_PERMISSIONS | {BULK_PERMISSION}

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class OwnerAmbiguous(errors.Refused):
    """More than one WorkItem claims this Event; it cannot be shown, reserved or replayed."""

    code = "ambiguous_owner"


class OwnerKind(StrEnum):
    """Who has authority over a row's state, terminal time and replay."""

    WORK_ITEM = "work_item"
    EVENT = "event"
    AMBIGUOUS = "ambiguous"


class RefKind(StrEnum):
    """What an id was said to name."""

    ANY = "any"
    WORK_ITEM = "work_item"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """What an operator points at: a WorkId, or an EventId where no WorkItem has authority.

    Attributes:
        id: The id, 36 lowercase characters.
        kind: What it was said to be; ANY is looked up as a WorkId first.
    """

    id: str
    kind: RefKind = RefKind.ANY

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `<id>`, `work_item:<id>` or `event:<id>`.

        Raises:
            InvalidInput: It is none of these.
        """
        prefix, separator, rest = text.strip().rpartition(":")
        identity = rest.lower()
        if not _UUID.fullmatch(identity) or (separator and prefix not in {RefKind.WORK_ITEM, RefKind.EVENT}):
            message = "A reference is a WorkId or an EventId: 36 characters, optionally after work_item: or event:."
            raise errors.InvalidInput(message, field="ref")
        return cls(id=identity, kind=RefKind(prefix) if separator else RefKind.ANY)

    def __str__(self) -> str:
        """Return the form that `parse` reads."""
        return self.id if self.kind is RefKind.ANY else f"{self.kind}:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The gate's rule that decided an owner, and the facts that it read.

    Attributes:
        rule: The rule's number in the ownership gate, 1 to 5.
        code: Its stable name.
        sentence: What it says, for the operator.
        facts: What was read, by name.
    """

    rule: int
    code: str
    sentence: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who owns an Event's work.

    Attributes:
        kind: The owner.
        work_id: The WorkItem that owns it or mirrors it; None without one, or when ambiguous.
        why: The rule and the facts.
    """

    kind: OwnerKind
    work_id: str | None
    why: Why


class Ruling(StrEnum):
    """What a rule says of the facts."""

    OK = "ok"
    REFUSED = "refused"
    #: A fact that the rule needs was not there to read, since an earlier rule refuses.
    NOT_REACHED = "not_reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One rule's answer.

    Attributes:
        code: The refusal's stable code, the rule's name as well.
        ruling: Whether it lets the replay through.
        sentence: What was found, for the operator.
        facts: What the rule read, by name.
        next_step: What the operator can do about a refusal; empty otherwise.
    """

    code: str
    ruling: Ruling
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    next_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """Whose replay was first.

    Attributes:
        actor_name: Who asked for it; None if the audit does not know.
        at: When the row was reserved, aware UTC.
        child_work_id: The generation that it made, None if it made none that can be found.
        child_event_id: The replay Event of that generation.
    """

    actor_name: str | None
    at: datetime | None
    child_work_id: str | None
    child_event_id: str | None


_HTTP_STATUS: Final = {"not_found": 404, "permission_denied": 403}
_EXIT_CODE: Final = {"not_found": errors.EXIT_NOT_FOUND, "permission_denied": errors.EXIT_NOT_ALLOWED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A replay that did not happen; nothing but an audit entry was written.

    Attributes:
        code: The stable code.
        sentence: Why, for the operator.
        next_step: What to do about it.
        winner: Whose replay was first, for `already_replayed` and `lost_race`.
        facts: What the refusing rule read.
    """

    code: str
    sentence: str
    next_step: str
    winner: Winner | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def http_status(self) -> int:
        """The HTTP status that says this."""
        return _HTTP_STATUS.get(self.code, 409)

    @property
    def exit_code(self) -> int:
        """The exit code that says this."""
        return _EXIT_CODE.get(self.code, errors.EXIT_REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A replay that happened.

    Attributes:
        original: The row that was replayed.
        original_event_id: Its Event.
        child_work_id: The new generation; None where the schema holds no WorkItem for it.
        child_event_id: The new Event.
        pack_install_id: The incarnation that admitted the child.
        route_id: The route that it follows.
        route_version: That route's version.
        lane_ordinal: The child's place in its incarnation's order.
        replayed_at: When the original was reserved, aware UTC.
        is_repeat: The same request was answered before; this call wrote nothing.
    """

    original: Ref
    original_event_id: str
    child_work_id: str | None
    child_event_id: str
    pack_install_id: str
    route_id: str
    route_version: int
    lane_ordinal: int | None
    replayed_at: datetime
    is_repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a replay goes: the active incarnation and its live route, as far as they were found."""

    pack_install_id: str | None
    pack_name: str | None
    pack_version: str | None
    incarnation: int | None
    route_id: str | None
    route_version: int | None
    execution_class: str | None
    flow: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The dry run of a replay: every rule with its verdict, from the replay's own list.

    Attributes:
        ref: What was asked about.
        owner: The owner and why; None if the row was not read.
        verdicts: Every rule, in the order in which the replay asks them.
        refusal: What the replay would answer now; None if it would go through.
        target: Where it would go.
        lock_order: The ranks that the replay locks, in order.
        notes: What the operator should know besides, one sentence each.
    """

    ref: Ref
    owner: Owner | None
    verdicts: tuple[Verdict, ...]
    refusal: Refused | None
    target: Target | None
    lock_order: tuple[str, ...]
    notes: tuple[str, ...] = ()
