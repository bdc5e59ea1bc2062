"""What a replay may change, by owner; whatever else changed is a finding. From the contract, not from the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Any, Final

from integration.authority.values import Replayed
from tests.matrix.rows import EVENTS, ITEMS, LANE, Case
from tests.matrix.snapshots import Change, Row

PACKS: Final = "_System_ConnectorPackInstall"
#: What may be written to a mirror to end it, by the contract's "records its `TerminalAt` and `ReplayedAt`, clears projection-active
#: and lease fields"; the rest is what a terminal row has.
_MIRROR_ENDS: Final = frozenset(
    {
        "State",
        "Outcome",
        "TerminalAt",
        "ReplayedAt",
        "UpdatedAt",
        "LeaseOwner",
        "LeaseToken",
        "LeaseUntil",
        "ProjectionActiveKey",
        "TargetLaneActiveKey",
        "BlockedOn",
        "BlockedSince",
    }
)
_CHILD: Final = {EVENTS: "child event", ITEMS: "child item"}
#: Which of the original's rows are marked, by owner.
_MARKED: Final = {"work_item": {"item"}, "mirror": {"event", "item"}, "event_only": {"event"}}
_GONE: Final = ("LeaseOwner", "LeaseToken", "LeaseUntil", "ProjectionActiveKey", "TargetLaneActiveKey", "BlockedOn")


def faults(case: Case, owner: str, answer: Replayed, changed: Iterable[Change], original: Row | None) -> Iterator[str]:
    """Yield what a replay did beside or short of what it must do.

    Args:
        case: The cell's rows.
        owner: `work_item`, `mirror` or `event_only`.
        answer: What the replay returned.
        changed: The rows of the case's namespace that changed.
        original: The original's WorkItem before, or None.
    """
    now = answer.replayed_at.astimezone(UTC).replace(tzinfo=None)
    listed = list(changed)
    names = sorted(_name(change, case) for change in listed)
    wanted = sorted({"pack", "child event", "child item", *_MARKED[owner]})
    if names != wanted:
        yield f"changed {', '.join(names)} instead of {', '.join(wanted)}"
        return
    named = {_name(change, case): change for change in listed}
    ordinal, following = named["pack"].columns().get("NextLaneOrdinal", (0, 0))
    if (set(named["pack"].columns()), following) != ({"NextLaneOrdinal"}, ordinal + 1):
        yield f"the pack: {named['pack'].columns()}"
    if "event" in wanted and named["event"].columns() != {"ReplayedAt": (None, now)}:
        yield f"the Event: {named['event'].columns()}"
    if owner == "work_item" and named["item"].columns() != {"ReplayedAt": (None, now)}:
        yield f"the WorkItem: {named['item'].columns()}"
    if owner == "mirror":
        yield from _mirror_faults(named["item"], now)
    yield from _answer_faults(case, owner, answer)
    yield from _child_faults(case, named["child event"].after or {}, named["child item"].after or {}, answer, original)


def _name(change: Change, case: Case) -> str:
    row = change.after or {}
    if change.after is None:
        return f"a row that is gone from {change.table}"
    if change.before is None:
        return _CHILD.get(change.table, f"a new row of {change.table}")
    if change.table == PACKS:
        return "pack"
    if (change.table, row.get("EventId")) == (EVENTS, case.event_id):
        return "event"
    if (change.table, row.get("WorkId")) == (ITEMS, case.work_id):
        return "item"
    return f"another row of {change.table}"


def _mirror_faults(change: Change, now: Any) -> Iterator[str]:
    row = change.after or {}
    was_dead = (change.before or {})["State"] == "dead"
    if not set(change.columns()) <= _MIRROR_ENDS - ({"TerminalAt"} if was_dead else set()):
        yield f"the mirror: {change.columns()}"
    if (row["State"], row["ReplayedAt"], row["TerminalAt"] is None, row["Attempt"]) != ("dead", now, False, 0):
        yield f"the mirror is {row['State']}, ended {row['TerminalAt']}, replayed {row['ReplayedAt']}"
    if left := [name for name in _GONE if row[name] is not None]:
        yield f"the mirror keeps {', '.join(left)}"


def _answer_faults(case: Case, owner: str, answer: Replayed) -> Iterator[str]:
    reserved = ("work_item", case.work_id) if owner == "work_item" else ("event", case.event_id)
    if (answer.original.kind.value, answer.original.id) != reserved or answer.is_repeat:
        yield f"the answer names {answer.original}"


def _child_faults(case: Case, event: Row, item: Row, answer: Replayed, original: Row | None) -> Iterator[str]:
    told = {
        "the child's Event": (event["EventId"], answer.child_event_id),
        "the child's WorkId": (item["WorkId"], answer.child_work_id),
        "the child's own Event": (item["EventId"], event["EventId"]),
        "the Event's lineage": (event["ReplayOfEventId"], case.event_id),
        "the WorkItem's lineage": (item["ReplayOfWorkId"], case.work_id),
        "the child's state": (
            (item["State"], item["Attempt"], event["Status"], event["ExecutionOwner"], event["ReplayedAt"]),
            ("pending", 0, "pending", "event", None),
        ),
        "the child's lane": ((event["SourceLane"], item["SourceLane"]), (LANE, LANE)),
        "the child's ordinal": (
            (event["LaneOrdinal"], item["LaneOrdinal"]),
            (answer.lane_ordinal, answer.lane_ordinal),
        ),
        "the child's marks": ((item["ReplayedAt"], item["TerminalAt"], item["LeaseToken"]), (None, None, None)),
    }
    if case.cell.execution == "per_event":
        told["the child's projection"] = ((item["ProjectionKey"], item["ProjectionActiveKey"]), (None, None))
    else:
        # The identity is the same, so that the key is.
        key = item["ProjectionKey"] if original is None else original["ProjectionKey"]
        told["the child's projection"] = (
            (item["ProjectionKey"], item["ProjectionActiveKey"], item["InputStartOrdinal"]),
            (key, key, answer.lane_ordinal),
        )
        if key is None:
            yield "the child has no projection"
    for what, (found, wanted) in told.items():
        if found != wanted:
            yield f"{what} is {found}, not {wanted}"
