"""Where the inputs of a batch go: into the generation that waits, into a successor, or into a new one.

All of it happens in the admission's transaction, under the pack's lock. What is nonterminal of a key is read without
locks, locked in rank order (the selected Events, then the generations), and only then decided upon. A claim that
came first has changed the row, which the lock shows; one that comes later finds another selected Event than it read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import structlog

from integration import errors
from integration.failpoints import failpoint
from integration.projection.identity import ProjectionIdentity, SourceScope
from integration.states import TERMINAL_STATES, EventStatus, ExecutionOwner, WorkItemState
from integration.storage.db import Row, Tx
from integration.storage.locks import LockedPack, LockedWorkItem, lock_generations, lock_selected_events
from integration.storage.sql import packs, projections

SUBJECT_KIND: Final = "projection"
#: The greatest value of the columns that hold an ordinal.
LARGEST_ORDINAL: Final = 2**63 - 1
log = structlog.get_logger(__name__)


class OrdinalsExhausted(errors.InvariantBroken):
    """The incarnation has no ordinals left; nothing was admitted, and its receipts stay where they are."""

    code = "ordinals_exhausted"


class Place(StrEnum):
    """Where the inputs of one identity go."""

    #: Into the unclaimed generation, whose upper bound moves.
    EXTENDED = "extended"
    #: Into a new generation behind a claimed one, without the active key.
    QUEUED = "queued"
    #: Into a new generation that has the active key.
    ACTIVATED = "activated"
    #: Nowhere yet: a queued generation exists that may not be extended as it stands.
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What was decided for one identity under the locks.

    Attributes:
        identity: The projection.
        place: Where its inputs go.
        generation: The locked generation that extends; None otherwise.
        is_keyless_head: The generation lost its active key with nobody ahead of it.
    """

    identity: ProjectionIdentity
    place: Place
    generation: LockedWorkItem | None = None
    is_keyless_head: bool = False


def first_ordinal(pack: LockedPack, count: int) -> int:
    """Return the first of the ordinals that a batch takes.

    Args:
        pack: The locked incarnation, which gives them.
        count: How many the batch takes.

    Returns:
        A positive ordinal that was never given; `count` of them follow each other.

    Raises:
        OrdinalsExhausted: The column cannot hold them.

    Rule: P-04.
    """
    first = int(pack.row["NextLaneOrdinal"])
    if first < 1:
        message = "the next ordinal of an incarnation is not positive"
        raise errors.InvariantBroken(message)
    # The next one is stored, too.
    if first + count > LARGEST_ORDINAL:
        raise OrdinalsExhausted(pack_install_id=pack.pack_install_id)
    return first


def advance_ordinals(pack: LockedPack, first: int, count: int) -> None:
    """Store that a batch took `count` ordinals from `first` on.

    Raises:
        UnexpectedRowCount: The counter was moved in spite of the lock.

    Rule: P-04.
    """
    changed = pack.tx.execute(
        packs.ADVANCE_LANE_ORDINAL,
        {
            "pack_install_id": pack.pack_install_id,
            "expected_lane_ordinal": first,
            "next_lane_ordinal": first + count,
        },
    )
    _demand(1, changed)


def place_inputs(pack: LockedPack, identities: Iterable[ProjectionIdentity]) -> dict[str, Placement]:
    """Decide where the inputs of each identity go, and lock what that decision relies on.

    Args:
        pack: The locked incarnation; nobody else admits or replays until it is released.
        identities: The identities of the batch's fresh inputs.

    Returns:
        The placements by `ProjectionKey`.

    Locks: EVENT, WORK_ITEM, under the pack.
    Rule: P-03, P-09, P-22, P-24.
    """
    by_key = {identity.key(): identity for identity in identities}
    if not by_key:
        return {}
    found, newest = _read_generations(pack.tx, sorted(by_key))
    failpoint("admission.before_locks")
    extensible = [row["EventId"] for row in newest.values() if _is_untouched(row)]
    selected: dict[str, Row] = (
        {event.event_id: event.row for event in lock_selected_events(pack, extensible)} if extensible else {}
    )
    generations: dict[str, list[LockedWorkItem]] = defaultdict(list)
    if found:
        for locked in lock_generations(pack, sorted(found)):
            if locked.row["State"] not in TERMINAL_STATES:
                generations[locked.row["ProjectionKey"]].append(locked)
    failpoint("admission.after_locks")
    return {key: _place(identity, generations[key], newest.get(key), selected) for key, identity in by_key.items()}


def _read_generations(tx: Tx, keys: Sequence[str]) -> tuple[set[str], dict[str, Row]]:
    """Read without locks what may be nonterminal of each key, two point reads a key whatever its history.

    While the pack is locked nobody makes or extends a generation, so that the newest one stays the newest.

    Returns:
        The WorkIds to lock: the active one of each key and the newest, where that is not over; and the newest by key.
    """
    active = tx.fetch_all(projections.LIST_ACTIVE_GENERATIONS, {"projection_keys": tuple(keys)})
    newest = {}
    for key in keys:
        row = tx.fetch_one(projections.FIND_NEWEST_OF_PROJECTION, {"projection_key": key})
        if row is not None:
            newest[key] = row
    waiting = {row["WorkId"] for row in newest.values() if row["State"] not in TERMINAL_STATES}
    return {row["WorkId"] for row in active} | waiting, newest


def _is_untouched(row: Row) -> bool:
    return bool(row["State"] == WorkItemState.PENDING and row["Attempt"] == 0)


def _is_free(event: Row | None) -> bool:
    """Whether neither executor has begun with a selected Event."""
    return (
        event is not None
        and event["ExecutionOwner"] == ExecutionOwner.EVENT
        and event["Status"] in {EventStatus.PENDING, EventStatus.FAILED}
        and event["ClaimToken"] is None
        and event["ReplayedAt"] is None
    )


def _place(
    identity: ProjectionIdentity,
    generations: Sequence[LockedWorkItem],
    newest: Row | None,
    selected: Mapping[str, Row],
) -> Placement:
    """Decide by the locked, nonterminal generations of one key.

    Only its newest generation extends. One that others were queued behind may wait unclaimed again, after a
    dependency or the Event executor let it go; its upper bound would run over their intervals, ended or not.
    """
    if not generations:
        return Placement(identity=identity, place=Place.ACTIVATED)
    last = max(generations, key=lambda locked: int(locked.row["LaneOrdinal"]))
    is_newest = newest is not None and newest["WorkId"] == last.work_id
    is_keyless = last.row["ProjectionActiveKey"] is None
    is_unclaimed = _is_untouched(last.row) and last.row["LeaseToken"] is None
    if is_newest and is_unclaimed and _is_free(selected.get(last.row["EventId"])):
        is_head = is_keyless and len(generations) == 1
        return Placement(identity=identity, place=Place.EXTENDED, generation=last, is_keyless_head=is_head)
    if is_keyless:
        log.warning("projection.held", work_id=last.work_id, state=last.row["State"])
        return Placement(identity=identity, place=Place.HELD)
    return Placement(identity=identity, place=Place.QUEUED)


@dataclass(slots=True, kw_only=True)
class RangeChanges:
    """What one batch changes in the ranges, gathered and then stored in few statements.

    Attributes:
        inserted: New generations as INSERT_GENERATIONS takes them.
        extended: Swaps as EXTEND_GENERATION takes them.
        superseded: The selected Events that lose their place.
        placed: How many identities went where.
    """

    inserted: list[Row] = field(default_factory=list)
    extended: list[Row] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    placed: Counter[Place] = field(default_factory=Counter)

    def add(self, placement: Placement, inputs: Sequence[Row], work_item: Row) -> None:
        """Put the inputs of one identity into their generation.

        Args:
            placement: What was decided for the identity; not HELD.
            inputs: Parameters of INSERT_EVENTS in ordinal order, at least one; all but the last are skipped at once.
            work_item: What a new generation of the last input would be, but for what makes it a projection's.

        Rule: P-01, P-02.
        """
        key, last = placement.identity.key(), inputs[-1]
        for row in inputs[:-1]:
            row["status"], row["terminal_at"] = EventStatus.SKIPPED.value, work_item["now"]
        self.placed[placement.place] += 1
        if placement.generation is not None:
            superseded = placement.generation.row["EventId"]
            self.superseded.append(superseded)
            self.extended.append(
                {
                    "work_id": placement.generation.work_id,
                    "projection_key": key,
                    "superseded_event_id": superseded,
                    "event_id": last["event_id"],
                    "lane_ordinal": last["lane_ordinal"],
                    "target_lane": last["target_lane"],
                    "missing_active_key": key if placement.is_keyless_head else None,
                }
            )
            return
        scope = SourceScope(
            namespace=work_item["namespace"],
            event_kind=work_item["event_kind"],
            source_lane=placement.identity.source_lane,
        )
        self.inserted.append(
            {
                **work_item,
                "subject_kind": SUBJECT_KIND,
                "subject_id": key,
                "projection_key": key,
                "projection_active_key": key if placement.place is Place.ACTIVATED else None,
                "source_scope_key": scope.key(),
                "input_start_ordinal": inputs[0]["lane_ordinal"],
            }
        )

    def store(self, pack: LockedPack) -> None:
        """Store the generations and the swaps; their Events are stored already, in the same transaction.

        Raises:
            UnexpectedRowCount: A locked row is not what was read under its lock; nothing is kept.

        Rule: P-01, P-09.
        """
        tx = pack.tx
        if self.inserted:
            tx.execute_many(projections.INSERT_GENERATIONS, self.inserted)
        for swap in self.extended:
            _demand(1, tx.execute(projections.EXTEND_GENERATION, swap))
        if self.superseded:
            changed = tx.execute(projections.SKIP_SUPERSEDED_EVENTS, {"event_ids": tuple(sorted(self.superseded))})
            _demand(len(self.superseded), changed)
        failpoint("admission.after_inserts")


def _demand(expected: int, found: int) -> None:
    if found != expected:
        message = f"{expected} rows must change, {found} did"
        raise errors.UnexpectedRowCount(message)
