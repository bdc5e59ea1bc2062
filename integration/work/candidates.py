"""Which items to try to claim, in which order. Lock-free: whether one may be claimed is decided by the claim."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from integration.storage import db
from integration.storage.db import Row
from integration.storage.sql import work_items
from integration.storage.sql.work_port import PackStatements
from integration.work import policy
from integration.work.families import CONNECTOR, Family
from integration.work.items import Candidate, candidate_from_row
from integration.work.pages import Slots, Walk
from integration.work.process import WorkerProcess
from integration.work.rules import rules_of
from integration.work.shares import Shares, slot_of

#: How many candidates one look takes from each state.
WINDOW: Final = 256
#: How many looks are made past lanes that are closed, before the claimer waits.
_LOOKS: Final = 3
#: How many pages of everybody's a look at what others leave reads to find something that is open.
_LOOKS_AT_ALL: Final = 12
#: How many pages that hold nothing but closed lanes one look reads.
_CLOSED_PAGES: Final = 4
#: How long closed lanes stay left out of the further looks, and how often these are made and begun anew at least.
_PASSED_SECONDS: Final = 2.0
#: How many lanes are left out at the most; a statement names each of them.
_MOST_PASSED: Final = 20_000
#: With fewer usable ones in the first look, now and then a further one is made all the same.
_FEW: Final = 8
#: How long after a look that found nothing to claim the same due entries are looked at again, at first and at most.
_SOON_SECONDS: Final = 0.05
_LATE_SECONDS: Final = 0.5


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
        self._shares = Shares(clock=clock)
        self._ends: list[Row] | None = None
        self._fruitless: list[Row] | None = None
        self._wait = 0.0
        self._look_at = 0.0
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
        self._fruitless = None

    def has_changed(self) -> bool:
        """Return whether `take` might return something, after it has returned nothing.

        It asks the index alone, by one statement: whether other entries are due than at the last look. What opens
        without that, a lane whose head another process has ended, is looked for now and then.
        """
        if self._found or self._fruitless is None:
            return True
        ends = Walk().find_ends(self._family, limit=self._window)
        if ends == self._fruitless and (not ends or self._clock() < self._look_at):
            return False
        self._ends = ends
        return True

    def _fill(self) -> None:
        ends, self._ends = self._ends, None
        if ends is None:
            ends = Walk().find_ends(self._family, limit=self._window)
        self._look_for_some(ends)
        if self._found:
            self._fruitless, self._wait = None, 0.0
            return
        self._wait = min(max(self._wait * 2, _SOON_SECONDS), _LATE_SECONDS)
        self._look_at = self._clock() + (_SOON_SECONDS if self._shares.has_pending else self._wait)
        self._fruitless = ends

    def _look_for_some(self, ends: list[Row]) -> None:
        self.saw_closed_lane = False
        self._shares.place(*self._process.place_in(self._family.name))
        first = Walk()
        usable = self._look(first, self._shares.slots, ends)
        if not first.is_through and (len(usable) < _FEW and (not usable or self._clock() >= self._further_at)):
            usable += self._look_further(first, usable)
        if self._shares.is_due(has_own=bool(usable)):
            usable += self._shares.left_by_others(self._look_at_all(ends), has_own=bool(usable))
        ordered = policy.take_turns(
            {item.work_id: item for item in usable}.values(), lambda item: (item.pack_install_id, item.queue_class)
        )
        self._found.extend(ordered)

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
            found = self._look(walk, self._shares.slots)
            if found or walk.is_through:
                return found
        return []

    def _look_at_all(self, ends: list[Row]) -> list[Candidate]:
        """Look at every slot, on behind lanes that are closed: whoever owns what is open there may never come."""
        walk = Walk()
        found: list[Candidate] = []
        for number in range(_LOOKS_AT_ALL):
            found = self._look(walk, Slots(), None if number else ends)
            if found or walk.is_through:
                break
        return found

    def _look(self, walk: Walk, slots: Slots, ends: list[Row] | None = None) -> list[Candidate]:
        closed = self._process.closed_pack_ids()
        rows: list[Row] = []
        for _ in range(_CLOSED_PAGES):
            rows = walk.next_rows(self._family, closed_packs=closed, limit=self._window, slots=slots, ends=ends)
            if rows or walk.is_through:
                break
            ends = None
        found = [candidate_from_row(row, self._family) for row in rows]
        if len(rows) >= self._window and self._family.packs is not None:
            found += self._of_hidden_packs(self._family.packs, walk, slots, {row["PackInstallId"] for row in rows})
        return self._open_ones(found, walk.blocked, walk.busy)

    def _of_hidden_packs(self, packs: PackStatements, walk: Walk, slots: Slots, seen: set[str]) -> list[Candidate]:
        closed = self._process.closed_pack_ids()
        hidden = [pack for pack in self._process.pack_ids() if pack not in seen and pack not in closed]
        rows = (row for pack in hidden for row in walk.rows_of_pack(packs, pack))
        found = (candidate_from_row(row, self._family) for row in rows)
        return [item for item in found if slot_of(item, slots.count) in slots.own]

    def _open_ones(self, window: list[Candidate], blocked: set[str], busy: set[str]) -> list[Candidate]:
        """Keep one candidate a lane: the head of its source lane, with a free target lane."""
        taken = _busy_target_keys(window, self._family)
        ahead = self._behind_another(window)
        lanes: set[str] = set()
        usable = []
        for item in sorted(window, key=lambda item: item.position or 0):
            source, target = item.source_lane_name, item.target_lane_name
            fence = self._process.fence_for(item.pack_install_id)
            if fence is None:
                continue
            if item.is_projection and not fence.may_project:
                # Left to a build that executes the old protocol; what follows in its lane waits for it.
                if source is not None:
                    blocked.add(source)
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
