"""What a projection cutover reads: the conditions of a moment, and the whole history, page by page, without locks.

The history streams: one page of Events and the projections of one lane are held, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from integration import errors
from integration.cutover.projection.history import FoundRow, GroupKey, Rows, Tally
from integration.cutover.projection.policy import Conditions, FenceFacts, Input, Owners, Reason, decide_alone
from integration.projection.identity import ProjectionIdentity
from integration.states import EventStatus, ExecutionClass, ExecutionOwner, PackStatus, stored
from integration.storage.db import Reader, Row
from integration.storage.sql import cutovers, fences
from integration.storage.sql import projection_audit as sql
from integration.storage.sql.audit import READ_DATABASE_TIME

#: Events of one statement.
PAGE: Final = 1000
#: An IN list must not be empty; no id has this form.
NOTHING: Final = ("-",)
#: The lowest number that the column of the ordinals holds.
_LOWEST: Final = -(2**63)

#: Told after each page how many Events were read; raises what ends the audit.
Step = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """The incarnation that is cut over.

    Attributes:
        pack_install_id: Its id.
        org_id: Its org.
        namespace: Its namespace.
        routes: Every route that it ever had, by id.
    """

    pack_install_id: str
    org_id: str
    namespace: str
    routes: Mapping[str, Row]

    @property
    def projecting_routes(self) -> tuple[str, ...]:
        """The routes whose inputs are projected; at least one value."""
        ids = (
            route_id
            for route_id, row in self.routes.items()
            if row["ExecutionClass"] == ExecutionClass.SOURCE_PROJECTION
        )
        return tuple(sorted(ids)) or NOTHING


def read_pack(reader: Reader, pack_install_id: str) -> Pack:
    """Read an incarnation and its routes.

    Raises:
        PackNotFound: There is no such incarnation.
    """
    row = _read_row(reader, pack_install_id)
    routes = reader.fetch_all(sql.LIST_AUDITED_ROUTES, {"pack_install_id": pack_install_id})
    return Pack(
        pack_install_id=row["PackInstallId"],
        org_id=row["OrgId"],
        namespace=row["Namespace"],
        routes={route["RouteId"]: route for route in routes},
    )


def _read_row(reader: Reader, pack_install_id: str) -> Row:
    row = reader.fetch_one(sql.READ_CUTOVER_PACK, {"pack_install_id": pack_install_id})
    if row is None:
        raise errors.PackNotFound
    return row


def read_time(reader: Reader) -> datetime:
    """Return the database's time, aware UTC."""
    row = reader.fetch_one(READ_DATABASE_TIME)
    if row is None:
        raise errors.InvariantBroken
    moment: datetime = row["Now"]
    return moment


def read_conditions(reader: Reader, pack: Pack, *, since: datetime) -> Conditions:
    """Read what has to hold besides the history.

    Args:
        reader: Where to read; under the namespace's and the pack's locks none of it changes.
        pack: The incarnation.
        since: An override counts that was in force at any time from then on.
    """
    row, by_id = _read_row(reader, pack.pack_install_id), {"pack_install_id": pack.pack_install_id}
    highest = reader.fetch_one(sql.FIND_HIGHEST_ORDINAL, by_id)
    receipt = reader.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, by_id)
    armed = reader.fetch_all(fences.LIST_ARMED_FENCES, {"namespace": pack.namespace})
    params = {"fence_ids": [fence["FenceId"] for fence in armed] or NOTHING, "since": since}
    overridden = {found["FenceId"] for found in reader.fetch_all(sql.LIST_OVERRIDES_SINCE, params)}
    return Conditions(
        status=stored(PackStatus, row["Status"]),
        direction=None if receipt is None else receipt["Direction"],
        fences=tuple(
            FenceFacts(
                fence_id=fence["FenceId"],
                scope=fence["Scope"],
                expires_at=fence["ExpiresAt"],
                is_overridden=fence["FenceId"] in overridden,
            )
            for fence in armed
        ),
        next_ordinal=int(row["NextLaneOrdinal"]),
        highest_ordinal=0 if highest is None else int(highest["LaneOrdinal"] or 0),
    )


def read_unended(reader: Reader, pack: Pack, *, limit: int) -> Rows:
    """Return projection work that has not ended, in whichever state.

    Args:
        reader: Where to read.
        pack: The incarnation.
        limit: How many rows are shown; the count is of all.
    """
    params = {"pack_install_id": pack.pack_install_id, "route_ids": pack.projecting_routes}
    first = reader.fetch_all(sql.LIST_UNENDED_PROJECTIONS, {**params, "limit": limit})
    count = len(first)
    if count == limit:
        counted = reader.fetch_one(sql.COUNT_UNENDED_PROJECTIONS, params)
        count = count if counted is None else int(counted["Found"])
    shown = [
        FoundRow(
            kind="work_item",
            id=row["WorkId"],
            event_kind=row["EventKind"],
            ordinal=row["LaneOrdinal"] or 0,
            state=row["State"],
        )
        for row in first
    ]
    return Rows(count=count, first=shown)


def is_executing(reader: Reader, pack: Pack) -> bool:
    """Return whether the Event executor holds a claim of an input."""
    params = {"pack_install_id": pack.pack_install_id, "route_ids": pack.projecting_routes, "limit": 1}
    return bool(reader.fetch_all(sql.LIST_EXECUTING_EVENTS, params))


def audit_history(reader: Reader, pack: Pack, step: Step, *, page: int = PAGE) -> Tally:
    """Read every Event that the incarnation retains, and judge the inputs of its projections.

    Args:
        reader: Where to read, without locks; each page is a statement of its own.
        pack: The incarnation.
        step: Told after each page how many Events were read so far; what it raises ends the audit.
        page: How many Events a statement reads.

    Returns:
        What was counted, and what refuses.

    Rule: P-14, P-15.
    """
    auditor = _Auditor(reader, pack)
    read = 0
    for rows in _pages(reader, pack.pack_install_id, page):
        auditor.take(rows)
        read += len(rows)
        step(read)
    auditor.tally.end_lane()
    return auditor.tally


def _pages(reader: Reader, pack_install_id: str, page: int) -> Iterator[list[Row]]:
    """Yield the Events by kind, within it by lane, within that by ordinal; each time none first."""
    params: dict[str, object] = {"pack_install_id": pack_install_id, "limit": page}
    kind = reader.fetch_one(sql.FIRST_EVENT_KIND, params)
    while kind is not None:
        params["event_kind"] = kind["EventKind"]
        yield from _pages_of_lane(reader, {**params, "source_lane": None})
        rows = reader.fetch_all(sql.LIST_HISTORY_OF_LANES, params)
        while rows:
            yield rows
            if len(rows) < page:
                break
            lane = {**params, "source_lane": rows[-1]["SourceLane"]}
            yield from _pages_of_lane(reader, lane, rows[-1])
            rows = reader.fetch_all(sql.LIST_HISTORY_OF_LATER_LANES, lane)
        kind = reader.fetch_one(sql.NEXT_EVENT_KIND, params)


def _pages_of_lane(reader: Reader, params: Mapping[str, object], after: Row | None = None) -> Iterator[list[Row]]:
    """Yield the rest of one lane behind a row, or all of it."""
    ordinal = None if after is None else after["LaneOrdinal"]
    event_id = "" if after is None else after["EventId"]
    start = _LOWEST if ordinal is None else ordinal + 1
    while ordinal is None:
        rows = reader.fetch_all(sql.LIST_HISTORY_WITHOUT_ORDINAL, {**params, "event_id": event_id})
        if not rows:
            break
        yield rows
        event_id = rows[-1]["EventId"]
    # No ordinal is given twice.
    while rows := reader.fetch_all(sql.LIST_HISTORY_OF_LANE, {**params, "ordinal": start}):
        yield rows
        start = rows[-1]["LaneOrdinal"] + 1


class _Auditor:
    """Puts together what the tally needs of each page. Used by one thread."""

    def __init__(self, reader: Reader, pack: Pack) -> None:
        self.tally = Tally()
        self._reader = reader
        self._pack = pack
        self._lane: tuple[str, str | None] | None = None
        self._owners: dict[str, Owners] = {}
        self._keys: dict[tuple[str, str, int, str, str], str] = {}

    def take(self, rows: Sequence[Row]) -> None:
        inputs = [row for row in rows if self._class_of(row) is not ExecutionClass.PER_EVENT]
        tasks = self._count_tasks(inputs)
        known = [row for row in inputs if self._class_of(row) is not None and row["SourceLane"] is not None]
        self._judge_unknown([row for row in inputs if self._class_of(row) is None or row["SourceLane"] is None], tasks)
        found = [(row, _input_of(row, tasks.get(row["EventId"], 0))) for row in known]
        self._read_owners([row for row, one in found if one.is_indirect])
        for row, one in found:
            # The database takes a lane with blanks at its end for the same one, and mixes their rows.
            lane = (row["EventKind"], row["SourceLane"].rstrip(" "))
            if lane != self._lane:
                self.tally.end_lane()
                self._lane = lane
            owners = self._owners.get(self._key_of(row)) if one.is_indirect else None
            self.tally.add(_group_of(row), one, owners)

    def _class_of(self, row: Row) -> ExecutionClass | None:
        route = self._pack.routes.get(row["RouteId"])
        return None if route is None else stored(ExecutionClass, route["ExecutionClass"])

    def _count_tasks(self, rows: Sequence[Row]) -> dict[str, int]:
        counts: dict[str, int] = {}
        if rows:
            params = {"event_ids": [row["EventId"] for row in rows]}
            for found in self._reader.fetch_all(sql.LIST_DIRECT_TASKS, params):
                counts[found["EventId"]] = counts.get(found["EventId"], 0) + 1
        return counts

    def _key_of(self, row: Row) -> str:
        """Return the key of an input's projection, made once a page for all of its inputs."""
        place = (row["RouteId"], row["EventKind"], *_group_of(row))
        if place not in self._keys:
            self._keys[place] = self._identity_of(row).key()
        return self._keys[place]

    def _identity_of(self, row: Row) -> ProjectionIdentity:
        route = self._pack.routes[row["RouteId"]]
        return ProjectionIdentity(
            pack_install_id=self._pack.pack_install_id,
            event_kind=row["EventKind"],
            route_version=row["RouteVersion"],
            companion_pack_name=route["CompanionPackName"],
            companion_pack_version=route["CompanionPackVersion"],
            flow_name=route["FlowName"],
            flow_version=route["FlowVersion"],
            work_type=row["WorkType"],
            source_lane=row["SourceLane"],
        )

    def _read_owners(self, rows: Sequence[Row]) -> None:
        """Read the owners of the page's projections, those of the lane under way excepted, which are known."""
        self._keys.clear()
        keys = {self._key_of(row) for row in rows}
        kept = {key: owners for key, owners in self._owners.items() if key in keys}
        missing = keys - kept.keys()
        found = self._reader.fetch_all(sql.LIST_COMPLETED_BOUNDARIES, {"projection_keys": missing}) if missing else []
        self._owners = kept | {row["ProjectionKey"]: _owners_of(row) for row in found}
        self._owners |= {key: Owners() for key in missing - self._owners.keys()}

    def _judge_unknown(self, rows: Sequence[Row], tasks: Mapping[str, int]) -> None:
        """Judge Events whose projection nothing names: of no route that is still there, or without a lane."""
        routeless = [row["EventId"] for row in rows if self._class_of(row) is None]
        kept: dict[str, str | None] = {}
        if routeless:
            for found in self._reader.fetch_all(sql.LIST_KEPT_CLASSES, {"event_ids": routeless}):
                kept[found["EventId"]] = found["ExecutionClass"]
        for row in rows:
            is_per_event = kept.get(row["EventId"]) == ExecutionClass.PER_EVENT
            if is_per_event or (self._class_of(row) is None and row["SourceLane"] is None):
                continue
            one = _input_of(row, tasks.get(row["EventId"], 0))
            reason = decide_alone(one) or (Reason.IDENTITY_UNRESOLVED if one.is_indirect else None)
            if reason is not None:
                self.tally.refuse(reason, FoundRow.of_input(one))


def _input_of(row: Row, task_count: int) -> Input:
    return Input(
        event_id=row["EventId"],
        event_kind=row["EventKind"],
        ordinal=row["LaneOrdinal"] or 0,
        owner=stored(ExecutionOwner, row["ExecutionOwner"]),
        status=stored(EventStatus, row["Status"]),
        task_count=task_count,
    )


def _group_of(row: Row) -> GroupKey:
    return row["RouteVersion"], row["WorkType"], row["SourceLane"]


def _owners_of(row: Row) -> Owners:
    boundary = row["Boundary"]
    return Owners(
        boundary=None if boundary is None else int(boundary),
        has_zero=int(row["Lowest"]) <= 0,
        has_positive=int(row["Highest"]) > 0,
    )
