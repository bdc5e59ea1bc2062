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
from integration.work.process import WorkerProcess
from integration.work.rules import rules_of

#: How many candidates one look takes from each state.
WINDOW: Final = 256
#: How many looks are made past lanes that are closed, before the claimer waits.
_LOOKS: Final = 3
#: How long lanes stay left out after looks that found nothing else, so that the next ones come further.
_PASSED_SECONDS: Final = 2.0
#: How many lanes are left out at the most; a statement names each of them.
_MOST_PASSED: Final = 20_000
#: An IN list must not be empty; no id, lane or key has this form.
_NOTHING: Final = ("-",)
_PACK_SHARE: Final = 8
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
        self._passed: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
        self._passed_until = 0.0
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
        blocked, busy = map(set, self._passed if self._clock() < self._passed_until else ((), ()))
        for _ in range(_LOOKS):
            window = self._look(blocked, busy)
            usable = self._open_ones(window, blocked, busy)
            if usable:
                ordered = policy.take_turns(usable, lambda item: (item.pack_install_id, item.queue_class))
                self._found.extend(
                    policy.take_share(
                        ordered, lambda item: item.work_id, place=self._process.place, places=self._process.places
                    )
                )
                return
            if len(window) < self._window:
                self._passed_until = 0.0
                return
        # However many lanes are closed, what is open behind them has its turn.
        if len(blocked) + len(busy) < _MOST_PASSED:
            self._passed = (frozenset(blocked), frozenset(busy))
            self._passed_until = self._clock() + _PASSED_SECONDS
        else:
            self._passed_until = 0.0

    def _look(self, blocked: set[str], busy: set[str]) -> list[Candidate]:
        reader = db.read()
        lanes = {"blocked_lanes": blocked or _NOTHING, "busy_targets": busy or _NOTHING, "limit": self._window}
        closed = self._process.closed_pack_ids() or _NOTHING
        params = {"closed_packs": closed, "family": self._family.name, **lanes}
        rows = reader.fetch_all(self._family.statements.list_candidates, params)
        packs = self._family.packs
        if len(rows) >= self._window and packs is not None:
            seen = {row["PackInstallId"] for row in rows}
            for pack in self._process.pack_ids():
                if pack not in seen and pack not in closed:
                    rows += reader.fetch_all(
                        packs.list_candidates,
                        {**lanes, "pack_install_id": pack, "limit": _PACK_SHARE},
                    )
        return [candidate_from_row(row, self._family) for row in rows]

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
        self.saw_closed_lane = bool(blocked or busy)
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
