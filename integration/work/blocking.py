"""Dependencies between lanes: an item waits until another kind of event has ended well in its target lane.

A route that `waits_for: account.created` keeps its items from their first claim until an item of that kind, whose
source lane is their target lane, has succeeded or was skipped, by a worker or by the Event executor. Whoever would
claim such an item blocks it instead; the resolver gives it back. The dependency never becomes unmet again, so it may be
read before the write.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog

from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.sql import dependencies
from integration.work import metrics
from integration.work.items import Candidate
from integration.work.outage import OUTAGE, Backoff
from integration.work.rules import PackRules, rules_of

#: How many blocked items one round looks at.
BATCH: Final = 200
_IDLE_SECONDS: Final = 0.5
_START: Final = {"run_after": datetime(1970, 1, 2, tzinfo=UTC), "queue_class": "", "work_id": ""}
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """What an item waits for.

    Attributes:
        namespace: The item's namespace.
        event_kind: The kind that must have ended well.
        lane: In which source lane; the item's target lane.
    """

    namespace: str
    event_kind: str
    lane: str

    def is_met(self, reader: Reader | None = None) -> bool:
        """Return whether an item of the kind has ended well in the lane; once yes, it stays so.

        Args:
            reader: Where to read; the default database when none is named.
        """
        params = {"namespace": self.namespace, "event_kind": self.event_kind, "source_lane": self.lane}
        return (reader or db.read()).fetch_one(dependencies.FIND_ENDED_WELL, params) is not None


def dependency_of(item: Candidate) -> Dependency | None:
    """Return what an item waits for before its first claim, or None.

    An item never waits for its own lane: what comes there before it has ended already, and what comes after it
    would wait for it in turn.
    """
    if not item.is_first:
        return None
    return find_dependency(
        rules_of(item.pack_install_id),
        route_id=item.route_id,
        namespace=item.namespace,
        source_lane=item.source_lane,
        target_lane=item.target_lane,
    )


def find_dependency(
    rules: PackRules, *, route_id: str, namespace: str, source_lane: str | None, target_lane: str | None
) -> Dependency | None:
    """Return what an item that was never claimed waits for, or None.

    Args:
        rules: Of its incarnation.
        route_id: Its route.
        namespace: Its namespace.
        source_lane: Its source lane.
        target_lane: Its target lane.
    """
    kind = rules.waits_for.get(route_id)
    if kind is None or target_lane is None or target_lane == source_lane:
        return None
    return Dependency(namespace=namespace, event_kind=kind, lane=target_lane)


def hold_back(items: Sequence[Candidate]) -> list[Candidate]:
    """Block the items whose dependency is not met, and return the others.

    Args:
        items: Candidates, each the head of its lane.

    Returns:
        Those that may be claimed, in the same order.

    Locks: WORK_ITEM, by id, sorted.
    Rule: K-09.
    """
    wanted = {item.work_id: found for item in items if (found := dependency_of(item)) is not None}
    if not wanted:
        return list(items)
    met = {dependency: dependency.is_met() for dependency in sorted(set(wanted.values()), key=repr)}
    waiting: dict[str, list[str]] = defaultdict(list)
    for work_id, dependency in wanted.items():
        if not met[dependency]:
            waiting[dependency.event_kind].append(work_id)
    for kind, work_ids in waiting.items():
        params = {"work_ids": tuple(sorted(work_ids)), "blocked_on": kind}
        blocked = db.execute_alone(items[0].family.statements.block, params)
        metrics.BLOCKED.labels("blocked").inc(blocked)
        log.info("work.blocked", count=blocked, waits_for=kind)
    return [item for item in items if item.work_id not in wanted or met[wanted[item.work_id]]]


class Resolver:
    """Gives blocked items back, a page at a time. Used by one thread."""

    def __init__(self) -> None:
        """Start at the oldest."""
        self._after: Row = dict(_START)

    def run(self, stopping: threading.Event, wake: Callable[[], None]) -> None:
        """Resolve until told to stop; `wake` is called when items were given back."""
        backoff = Backoff("resolve", stopping.wait)
        while not stopping.is_set():
            try:
                given_back = self.resolve()
                backoff.over()
            except OUTAGE as error:
                backoff.met(error)
                continue
            if given_back:
                wake()
            else:
                stopping.wait(_IDLE_SECONDS)

    def is_idle(self) -> bool:
        """Return True: what is blocked is unfinished work, which the claimer looks for."""
        return True

    def resolve(self, *, limit: int = BATCH) -> int:
        """Look at the next page of blocked items and give back those whose dependency is met.

        Args:
            limit: How many items a page has.

        Returns:
            How many were given back.

        Locks: WORK_ITEM, by id, sorted.
        Rule: K-09.
        """
        rows = db.read().fetch_all(dependencies.LIST_BLOCKED_WORK, {**self._after, "limit": limit})
        if len(rows) < limit:
            self._after = dict(_START)
        else:
            last = rows[-1]
            self._after = {
                "run_after": last["RunAfter"],
                "queue_class": last["QueueClass"],
                "work_id": last["WorkId"],
            }
        met: dict[Dependency, bool] = {}
        free: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row["BlockedOn"] is None or row["TargetLane"] is None:
                # Blocked by another build, for a reason that this one does not know.
                continue
            dependency = Dependency(namespace=row["Namespace"], event_kind=row["BlockedOn"], lane=row["TargetLane"])
            if dependency not in met:
                met[dependency] = dependency.is_met()
            if met[dependency]:
                free[dependency.event_kind].append(row["WorkId"])
        given_back = 0
        for kind, work_ids in free.items():
            params = {"work_ids": tuple(sorted(work_ids)), "blocked_on": kind}
            given_back += db.execute_alone(dependencies.UNBLOCK_WORK_ITEMS, params)
        if given_back:
            metrics.BLOCKED.labels("unblocked").inc(given_back)
            log.info("work.unblocked", count=given_back)
        return given_back
