"""What must hold of the database after every step: by itself, against the step before, and against the model."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.model.pack import KINDS
from tests.model.shadow import TERMINAL, Place, Shadow
from tests.support.work import Row, query

_ITEMS = (
    "SELECT WorkId, EventId, PackInstallId, EventKind, SourceLane, TargetLane, InputStartOrdinal, LaneOrdinal,"
    " ProjectionKey, ProjectionActiveKey, TargetLaneActiveKey, State, Attempt, MaxAttempts, OwnershipEpoch, LeaseToken,"
    " LeaseUntil, LeaseOwner, CancelRequestedAt, FailureCount, TerminalAt, ReplayedAt, ReplayOfWorkId, BlockedOn"
    " FROM _System_ConnectorWorkItem"
)
_EVENTS = (
    "SELECT EventId, PackInstallId, LaneOrdinal, EventKind, SourceLane, Status, ExecutionOwner, ReplayOfEventId"
    " FROM _System_ConnectorEvent"
)
_ATTEMPTS = "SELECT WorkId, Attempt, OwnershipEpoch, FinishedAt, Outcome FROM _System_ConnectorExecutionAttempt"
_RECEIPTS = "SELECT DeliveryId, State FROM _System_ConnectorIngressReceipt"
_PACKS = "SELECT PackInstallId, NextLaneOrdinal FROM _System_ConnectorPackInstall"


@dataclass(slots=True)
class Rows:
    """What the database holds now."""

    items: dict[str, Row]
    events: dict[str, Row]
    attempts: dict[str, list[Row]]
    receipts: dict[str, str]
    next_ordinals: dict[str, int]


def read() -> Rows:
    """Read all of it; nobody writes between two steps."""
    attempts = defaultdict(list)
    for row in query(_ATTEMPTS):
        attempts[row["WorkId"]].append(row)
    return Rows(
        items={row["WorkId"]: row for row in query(_ITEMS)},
        events={row["EventId"]: row for row in query(_EVENTS)},
        attempts={work_id: sorted(rows, key=lambda row: row["Attempt"]) for work_id, rows in attempts.items()},
        receipts={row["DeliveryId"]: row["State"] for row in query(_RECEIPTS)},
        next_ordinals={row["PackInstallId"]: row["NextLaneOrdinal"] for row in query(_PACKS)},
    )


@dataclass(slots=True)
class History:
    """What was seen of the rows before; it tells what must never change.

    Attributes:
        items: Each generation as it was last seen.
        ordinals: Whose an ordinal is, forever.
        tokens: The lease tokens of each generation, one a claim.
    """

    items: dict[str, Row] = field(default_factory=dict)
    ordinals: dict[tuple[str, int], str] = field(default_factory=dict)
    tokens: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    next_ordinals: dict[str, int] = field(default_factory=dict)

    def check(self, rows: Rows) -> None:
        """Compare with what was seen before, and remember."""
        for work_id, before in self.items.items():
            assert work_id in rows.items, f"a generation is gone: {before}"
            after = rows.items[work_id]
            told = f"{before} -> {after}"
            assert after["InputStartOrdinal"] == before["InputStartOrdinal"], f"a lower bound moved: {told}"
            if before["Attempt"] > 0 or after["Attempt"] > 0:
                bounds = [(row["EventId"], row["LaneOrdinal"]) for row in (before, after)]
                assert bounds[0] == bounds[1], f"a bound of claimed work moved: {told}"
            assert after["LaneOrdinal"] >= before["LaneOrdinal"], f"an upper bound fell: {told}"
            assert after["OwnershipEpoch"] >= before["OwnershipEpoch"], f"an epoch fell: {told}"
            if before["State"] in TERMINAL:
                kept = {**after, "ReplayedAt": before["ReplayedAt"]}
                assert kept == before, f"a terminal row changed: {told}"
        for event in rows.events.values():
            ordinal = (event["PackInstallId"], event["LaneOrdinal"])
            assert self.ordinals.setdefault(ordinal, event["EventId"]) == event["EventId"], f"reused: {event}"
        for pack, ordinal in rows.next_ordinals.items():
            assert ordinal >= self.next_ordinals.get(pack, 1), f"the next ordinal fell: {pack} {ordinal}"
        for work_id, row in rows.items.items():
            if row["LeaseToken"] is not None:
                tokens = self.tokens[work_id]
                known = tokens.setdefault(row["OwnershipEpoch"], row["LeaseToken"])
                assert known == row["LeaseToken"], f"two tokens in one epoch: {row}"
                assert len(set(tokens.values())) == len(tokens), f"a token came back: {row}"
        self.items, self.next_ordinals = rows.items, rows.next_ordinals


def check_alone(rows: Rows) -> None:
    """Check what needs neither the model nor the past."""
    ordinals = [(row["PackInstallId"], row["LaneOrdinal"]) for row in rows.events.values()]
    assert len(set(ordinals)) == len(ordinals)
    assert all(0 < ordinal < rows.next_ordinals[pack] for pack, ordinal in ordinals)
    _check_cover(rows)
    _check_keys(rows)
    lanes = Counter(row["TargetLane"] for row in rows.items.values() if row["State"] == "processing")
    assert all(count == 1 for count in lanes.values()), f"a target lane is not exclusive: {lanes}"
    for work_id, row in rows.items.items():
        is_claimed = row["State"] == "processing"
        assert is_claimed == (row["LeaseToken"] is not None) == (row["LeaseUntil"] is not None), row
        assert is_claimed == (row["TargetLaneActiveKey"] is not None) == (row["LeaseOwner"] is not None), row
        assert (row["TerminalAt"] is not None) == (row["State"] in TERMINAL), row
        assert (row["BlockedOn"] is not None) == (row["State"] == "blocked"), row
        attempts = rows.attempts.get(work_id, [])
        assert [found["Attempt"] for found in attempts] == list(range(1, row["Attempt"] + 1)), (row, attempts)
        assert [found["OwnershipEpoch"] for found in attempts] == list(range(1, row["OwnershipEpoch"] + 1)), row
    assert set(rows.attempts) <= set(rows.items)


def _check_cover(rows: Rows) -> None:
    """Every input is in exactly one generation of its identity, or is its own item's."""
    selected = Counter(row["EventId"] for row in rows.items.values())
    ranges: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows.items.values():
        if row["ProjectionKey"] is not None:
            ranges[row["PackInstallId"], row["EventKind"], row["SourceLane"]].append(row)
            event = rows.events[row["EventId"]]
            assert event["LaneOrdinal"] == row["LaneOrdinal"] >= row["InputStartOrdinal"], row
    for event in rows.events.values():
        if not KINDS[event["EventKind"]].is_projection:
            assert selected[event["EventId"]] == 1, f"not exactly one item: {event}"
            continue
        own = ranges[event["PackInstallId"], event["EventKind"], event["SourceLane"]]
        holders = [row for row in own if row["InputStartOrdinal"] <= event["LaneOrdinal"] <= row["LaneOrdinal"]]
        assert len(holders) == 1, f"an input is in {len(holders)} generations: {event} {holders}"


def _check_keys(rows: Rows) -> None:
    """At most one active and one queued generation a key, and no queued one without an active one."""
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows.items.values():
        if row["ProjectionKey"] is not None:
            assert row["ProjectionActiveKey"] in {None, row["ProjectionKey"]}, row
            if row["State"] in TERMINAL:
                assert row["ProjectionActiveKey"] is None, f"an ended generation kept its key: {row}"
            else:
                by_key[row["ProjectionKey"]].append(row)
    for live in by_key.values():
        active = [row for row in live if row["ProjectionActiveKey"] is not None]
        queued = [row for row in live if row["ProjectionActiveKey"] is None]
        assert len(active) == 1, f"{len(active)} generations have the key: {live}"
        assert len(queued) <= 1, f"more than one is queued: {live}"
        assert all(row["State"] == "pending" and row["Attempt"] == 0 for row in queued), live
        assert all(active[0]["LaneOrdinal"] < row["InputStartOrdinal"] for row in queued), live


def compare(shadow: Shadow, rows: Rows, packs: list[str]) -> list[str]:
    """Return how the database differs from the model; empty when it does not."""
    numbers = {pack: number for number, pack in enumerate(packs)}
    places: dict[str, Place] = {
        work_id: (numbers[row["PackInstallId"]], row["LaneOrdinal"]) for work_id, row in rows.items.items()
    }
    event_places = {key: (numbers[row["PackInstallId"]], row["LaneOrdinal"]) for key, row in rows.events.items()}
    found_items = {places[work_id]: _item(row, rows, places) for work_id, row in rows.items.items()}
    wanted_items = {
        item.place: (
            item.kind,
            item.lane,
            item.target,
            item.start,
            item.state,
            item.attempt,
            item.attempt,
            item.max_attempts,
            item.is_active,
            item.is_cancel_requested,
            item.is_replayed,
            item.failures,
            item.parent,
            tuple(item.closed),
        )
        for item in shadow.items
    }
    found_facts = {
        place: (
            row["EventKind"],
            row["SourceLane"],
            row["Status"],
            row["ExecutionOwner"],
            event_places.get(row["ReplayOfEventId"]),
        )
        for place, row in zip(event_places.values(), rows.events.values(), strict=True)
    }
    wanted_facts = {
        place: (fact.kind, fact.lane, fact.status, fact.owner, fact.replay_of) for place, fact in shadow.facts.items()
    }
    found_receipts: dict[str, Any] = dict(rows.receipts)
    wanted_receipts = {
        receipt.delivery_id: "materialized" if receipt.is_materialized else "received" for receipt in shadow.receipts
    }
    found_ordinals: dict[Any, Any] = {numbers[pack]: ordinal for pack, ordinal in rows.next_ordinals.items()}
    return [
        *_differences("item", wanted_items, found_items),
        *_differences("Event", wanted_facts, found_facts),
        *_differences("receipt", wanted_receipts, found_receipts),
        *_differences("next ordinal", dict(enumerate(shadow.next_ordinals)), found_ordinals),
    ]


def _item(row: Row, rows: Rows, places: dict[str, Place]) -> tuple[Any, ...]:
    attempts = rows.attempts.get(row["WorkId"], [])
    start = row["LaneOrdinal"] if row["ProjectionKey"] is None else row["InputStartOrdinal"]
    return (
        row["EventKind"],
        row["SourceLane"],
        row["TargetLane"],
        start,
        row["State"],
        row["Attempt"],
        row["OwnershipEpoch"],
        row["MaxAttempts"],
        row["ProjectionActiveKey"] is not None,
        row["CancelRequestedAt"] is not None,
        row["ReplayedAt"] is not None,
        row["FailureCount"],
        places.get(row["ReplayOfWorkId"]),
        tuple(found["Outcome"] for found in attempts[:-1]),
    )


def _differences(what: str, wanted: dict[Any, Any], found: dict[Any, Any]) -> list[str]:
    return [
        f"{what} {key}: the model has {wanted.get(key)}, the database {found.get(key)}"
        for key in sorted({*wanted, *found})
        if wanted.get(key) != found.get(key)
    ]
