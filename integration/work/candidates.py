"""Which items to try to claim, in which order. Lock-free: whether one may be claimed is decided by the claim."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from integration.states import AttemptOutcome, FailureClass, WorkItemState, stored
from integration.storage import db
from integration.storage.db import Row
from integration.storage.sql import work_items
from integration.storage.sql.work_port import PackStatements
from integration.values import digest_text
from integration.work import policy
from integration.work.families import CONNECTOR, Family
from integration.work.pages import Walk
from integration.work.process import WorkerProcess
from integration.work.rules import rules_of

#: How many candidates one look takes from each state.
WINDOW: Final = 256
#: How many looks are made past lanes that are closed, before the claimer waits.
_LOOKS: Final = 3
#: How many pages that hold nothing but closed lanes one look reads.
_CLOSED_PAGES: Final = 4
#: How long closed lanes stay left out of the further looks, and how often these are made and begun anew at least.
_PASSED_SECONDS: Final = 2.0
#: How many lanes are left out at the most; a statement names each of them.
_MOST_PASSED: Final = 20_000
#: With fewer usable ones in the first look, now and then a further one is made all the same.
_FEW: Final = 8
#: How an earlier attempt ended, where the failure's class says more than that it failed.
_OUTCOMES: Final = {
    FailureClass.LEASE_LOST.value: AttemptOutcome.LOST,
    FailureClass.RELEASED.value: AttemptOutcome.RELEASED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A due item as it was read, without a lock; `epoch` makes a claim of anything newer fail."""

    work_id: str
    event_id: str
    org_id: str
    work_type: str
    pack_install_id: str
    route_id: str
    namespace: str
    event_kind: str
    flow_name: str
    flow_version: str
    queue_class: str
    source_lane: str | None
    target_lane: str | None
    position: int | None
    projection_key: str | None
    state: WorkItemState
    attempt: int
    max_attempts: int
    epoch: int
    last_ended_at: datetime | None
    last_outcome: AttemptOutcome
    is_cancel_requested: bool
    family: Family = CONNECTOR

    @property
    def is_projection(self) -> bool:
        """Whether this is a generation of a source projection, with a range of inputs."""
        return self.projection_key is not None

    @property
    def is_first(self) -> bool:
        """Whether this would be the generation's first claim."""
        return self.state is WorkItemState.PENDING

    @property
    def batch(self) -> tuple[object, ...]:
        """What the items of one claim statement have in common."""
        return (self.state, self.pack_install_id, self.attempt, self.epoch)

    @property
    def source_lane_name(self) -> str | None:
        """The source lane within its pack or namespace, as the candidates' statement spells it."""
        return None if self.source_lane is None else f"{self.pack_install_id or self.namespace}/{self.source_lane}"

    @property
    def target_lane_name(self) -> str | None:
        """The target lane within its namespace, as the candidates' statement spells it."""
        return None if self.target_lane is None else f"{self.namespace}/{self.target_lane}"

    @property
    def target_lane_key(self) -> str | None:
        """The unique key that serializes the target lane while an item of it is claimed."""
        if self.target_lane is None:
            return None
        # As the claims' statements spell it; the length keeps a slash in a name from meaning another lane.
        return digest_text(f"target-lane/1/{self.org_id}/{len(self.namespace)}/{self.namespace}/{self.target_lane}")


def candidate_from_row(row: Row, family: Family = CONNECTOR) -> Candidate:
    """Return the candidate that a row of the candidates' statements describes."""
    failure = row["FailureClass"]
    return Candidate(
        work_id=row["WorkId"],
        event_id=row["EventId"],
        org_id=row["OrgId"],
        work_type=row["WorkType"],
        pack_install_id=row["PackInstallId"],
        route_id=row["RouteId"],
        namespace=row["Namespace"],
        event_kind=row["EventKind"],
        flow_name=row["FlowName"],
        flow_version=row["FlowVersion"],
        queue_class=row["QueueClass"],
        source_lane=row["SourceLane"],
        target_lane=row["TargetLane"],
        position=row["LanePosition"],
        projection_key=row["ProjectionKey"],
        state=stored(WorkItemState, row["State"]),
        attempt=row["Attempt"],
        max_attempts=row["MaxAttempts"],
        epoch=row["OwnershipEpoch"],
        # A released item is due at once: from when it was released.
        last_ended_at=row["RunAfter"] if failure == FailureClass.RELEASED else row["LastFailedAt"],
        last_outcome=_OUTCOMES.get(failure, AttemptOutcome.RETRY),
        is_cancel_requested=row["CancelRequestedAt"] is not None,
        family=family,
    )


class CandidateQueue:
    """The candidates that one claimer has read and not tried yet. Used by one thread."""

    def __init__(
        self,
        process: WorkerProcess,
        *,
        family: Family = CONNECTOR,
        window: int = WINDOW,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start empty.

        Args:
            process: Whose claims these will be.
            family: Which family's items are taken.
            window: How many rows one look takes from each state.
            clock: The monotonic clock, in seconds.
        """
        self._clock = clock
        self._process = process
        self._family = family
        self._window = window
        self._found: deque[Candidate] = deque()
        self._further: Walk | None = None
        self._anew_at = self._lanes_until = self._further_at = 0.0
        self._ended_packs: set[str] = set()
        #: The last look met items that only a lane keeps waiting.
        self.saw_closed_lane = False

    def take(self, limit: int) -> list[Candidate]:
        """Return candidates that one transaction can claim.

        Args:
            limit: How many at most.

        Returns:
            The next candidate and others of its pack, class (first or later), attempt and epoch; no two of one
            lane. Nothing when nothing is due that this process could claim.
        """
        if not self._found:
            self._fill()
        if not self._found:
            return []
        head = self._found[0]
        taken: list[Candidate] = []
        left: deque[Candidate] = deque()
        for item in self._found:
            (taken if len(taken) < limit and item.batch == head.batch else left).append(item)
        self._found = left
        return taken

    def forget(self) -> None:
        """Drop what was read, so that the next candidate is read anew."""
        self._found.clear()

    def _fill(self) -> None:
        self.saw_closed_lane = False
        first = Walk()
        usable = self._look(first)
        if not first.is_through and (len(usable) < _FEW and (not usable or self._clock() >= self._further_at)):
            usable += self._look_further(first, usable)
        ordered = policy.take_turns(
            {item.work_id: item for item in usable}.values(), lambda item: (item.pack_install_id, item.queue_class)
        )
        self._found.extend(
            policy.take_share(
                ordered, lambda item: item.work_id, place=self._process.place, places=self._process.places
            )
        )

    def _look_further(self, first: Walk, usable: list[Candidate]) -> list[Candidate]:
        """Go on behind the first look, from where the fill before this one came to.

        However many lanes are closed, and however many rows they have, what is open behind them has its turn: a walk
        begins anew only when it has come through. Each fill looks at the beginning besides.
        """
        now = self._clock()
        self._further_at = now + _PASSED_SECONDS
        walk = self._further
        if walk is None or (walk.is_through and now >= self._anew_at):
            walk = self._further = first
            self._anew_at = self._lanes_until = now + _PASSED_SECONDS
        if now >= self._lanes_until or len(walk.blocked) + len(walk.busy) > _MOST_PASSED:
            walk.blocked.clear()
            walk.busy.clear()
            self._lanes_until = now + _PASSED_SECONDS
        walk.blocked.update(item.source_lane_name for item in usable if item.source_lane_name is not None)
        walk.busy.update(item.target_lane_name for item in usable if item.target_lane_name is not None)
        for _ in range(_LOOKS):
            found = self._look(walk)
            if found or walk.is_through:
                return found
        return []

    def _look(self, walk: Walk) -> list[Candidate]:
        closed = self._process.closed_pack_ids()
        rows: list[Row] = []
        for _ in range(_CLOSED_PAGES):
            rows = walk.next_rows(self._family, closed_packs=closed, limit=self._window)
            if rows or walk.is_through:
                break
        if len(rows) >= self._window and self._family.packs is not None:
            rows += self._rows_of_hidden_packs(self._family.packs, walk, {row["PackInstallId"] for row in rows})
        return self._open_ones([candidate_from_row(row, self._family) for row in rows], walk.blocked, walk.busy)

    def _rows_of_hidden_packs(self, packs: PackStatements, walk: Walk, seen: set[str]) -> list[Row]:
        closed = self._process.closed_pack_ids()
        hidden = [pack for pack in self._process.pack_ids() if pack not in seen and pack not in closed]
        return [row for pack in hidden for row in walk.rows_of_pack(packs, pack)]

    def _open_ones(self, window: list[Candidate], blocked: set[str], busy: set[str]) -> list[Candidate]:
        """Keep one candidate a lane: the head of its source lane, with a free target lane."""
        taken = _busy_target_keys(window, self._family)
        ahead = self._behind_another(window)
        lanes: set[str] = set()
        usable = []
        for item in sorted(window, key=lambda item: item.position or 0):
            source, target = item.source_lane_name, item.target_lane_name
            if self._process.fence_for(item.pack_install_id) is None:
                continue
            if target is not None and item.target_lane_key in taken:
                busy.add(target)
                continue
            if source is not None and (source in lanes or item.work_id in ahead):
                blocked.add(source)
                continue
            if source is not None:
                lanes.add(source)
            if target is not None:
                taken.add(str(item.target_lane_key))
            usable.append(item)
        self.saw_closed_lane |= bool(blocked or busy)
        order = {item.work_id: index for index, item in enumerate(window)}
        return sorted(usable, key=lambda item: order[item.work_id])

    def _behind_another(self, window: list[Candidate]) -> set[str]:
        """Return the items that an earlier, unfinished one of their source lane keeps waiting.

        It needs no lock: a lane's positions never change and are given under the pack's lock in commit order, so
        whoever sees an item sees every earlier one, and an item that ended never comes back.
        """
        laned = {item.work_id: item for item in window if item.source_lane is not None}
        if not laned:
            return set()
        reader = db.read()
        heads = reader.fetch_all(self._family.statements.list_head_positions, {"work_ids": tuple(sorted(laned))})
        behind = {
            row["WorkId"]
            for row in heads
            if row["HeadPosition"] is not None and row["HeadPosition"] < (laned[row["WorkId"]].position or 0)
        }
        packs = self._family.packs
        if packs is None:
            return behind
        unfinished = self._unfinished_older(laned.values())
        for work_id, item in laned.items():
            older = unfinished[item.pack_install_id]
            if work_id in behind or not older:
                continue
            params = {
                "namespace": item.namespace,
                "source_lane": item.source_lane,
                "older_pack_install_ids": older,
            }
            if reader.fetch_all(packs.find_unfinished_in_older, params):
                behind.add(work_id)
        return behind | self._stopped(packs, [item for item in laned.values() if item.work_id not in behind])

    def _unfinished_older(self, items: Iterable[Candidate]) -> dict[str, tuple[str, ...]]:
        """Return the earlier incarnations that still have work, by incarnation; what has none never has again."""
        found: dict[str, tuple[str, ...]] = {}
        for pack in {item.pack_install_id for item in items}:
            fence = self._process.fence_for(pack)
            older = () if fence is None else fence.older_pack_install_ids
            for earlier in set(older) - self._ended_packs:
                if db.read().fetch_one(work_items.FIND_UNFINISHED_OF_PACK, {"pack_install_id": earlier}) is None:
                    self._ended_packs.add(earlier)
            found[pack] = tuple(earlier for earlier in older if earlier not in self._ended_packs)
        return found

    def _stopped(self, statements: PackStatements, items: Iterable[Candidate]) -> set[str]:
        """Return the items ahead of which a dead one, not replayed, stops the lane: `on_dead: block`."""
        stopped: set[str] = set()
        lines: dict[tuple[str, ...], list[str]] = {}
        for item in items:
            fence = self._process.fence_for(item.pack_install_id)
            older = () if fence is None else fence.older_pack_install_ids
            lines.setdefault((item.pack_install_id, *older), []).append(item.work_id)
        for packs, work_ids in lines.items():
            routes = frozenset[str]().union(*(rules_of(pack).stopping_routes for pack in packs))
            if routes:
                params = {"work_ids": tuple(sorted(work_ids)), "pack_install_ids": packs, "route_ids": routes}
                rows = db.read().fetch_all(statements.list_stopped, params)
                stopped |= {row["WorkId"] for row in rows if row["StoppedBy"] is not None}
        return stopped


def _busy_target_keys(window: Iterable[Candidate], family: Family) -> set[str]:
    keys = {item.target_lane_key for item in window if item.target_lane is not None}
    if not keys:
        return set()
    rows = db.read().fetch_all(family.statements.list_busy_target_lanes, {"target_lane_keys": keys})
    return {row["TargetLaneActiveKey"] for row in rows}
