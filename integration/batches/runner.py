"""Run bulk replays: one row after the other, each by the single replay, each noted in the ledger by itself.

A batch has one runner at a time, by a lease. Where two meet all the same, after a stall or a kill, nothing is done
twice: an item's request is named by the batch and its place, so that the replay gives its first answer again, and
the ledger's row is written once. Whatever happens in between, the items' outcomes add up to the batch's total.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from integration import errors
from integration.authority import service as authority
from integration.authority.values import Ref, RefKind, Refused, Replayed
from integration.batches import service
from integration.batches.accounts import actor_of
from integration.batches.reads import get_batch, list_places
from integration.batches.repetition import CHILD_DEAD, dead_children, repeated_code
from integration.batches.rights import bulk_reach, covers, in_bulk
from integration.batches.values import Batch, BatchNotFound, BatchState, ItemOutcome
from integration.failpoints import failpoint
from integration.storage import db
from integration.storage.db import Row
from integration.storage.probe import capabilities
from integration.storage.sql import replay_batches as sql
from integration.values import Actor, new_id
from integration.work.outage import OUTAGE, Backoff

LEASE_SECONDS: Final = 30
_IDLE_SECONDS: Final = 0.5
_BATCHES: Final = 20
#: Items of one batch before another one has its turn.
_SLICE: Final = 25
#: How many ended items are looked at for what repeats.
_WINDOW: Final = 100
_TAKEN: Final = frozenset({"already_replayed", "lost_race"})
_OUTCOMES: Final = dict.fromkeys(_TAKEN, ItemOutcome.LOST_RACE) | {"not_found": ItemOutcome.VANISHED}
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stop:
    """Why a batch does not go on."""

    state: BatchState
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """What became of an item."""

    outcome: ItemOutcome
    code: str = ""
    child_work_id: str | None = None
    child_event_id: str | None = None


class Runner:
    """Runs whatever bulk replay may run. Used by one thread."""

    def __init__(self, *, lease_seconds: int = LEASE_SECONDS) -> None:
        """Start with no batch.

        Args:
            lease_seconds: After so long a batch whose runner died is taken over.
        """
        self._id = new_id()
        self._lease_seconds = lease_seconds
        #: Batch -> when its rate lets the next item go, by this process's clock.
        self._due: dict[str, float] = {}

    def run(self, stopping: threading.Event, wake: Callable[[], None]) -> None:
        """Run until told to stop.

        Args:
            stopping: Set when it is to end; the item under way is ended first.
            wake: Called when there are new children to claim.
        """
        backoff = Backoff("batches", stopping.wait)
        while not stopping.is_set():
            try:
                done = self.round(stopping.is_set)
                backoff.over()
            except OUTAGE as error:
                backoff.met(error)
                continue
            if done:
                wake()
            else:
                stopping.wait(_IDLE_SECONDS)

    def is_idle(self) -> bool:
        """Return whether no batch is running, here or elsewhere."""
        return db.read().fetch_one(sql.FIND_RUNNING_BATCH) is None

    def round(self, is_stopping: Callable[[], bool] = lambda: False) -> int:
        """Give every batch that may run a turn.

        Args:
            is_stopping: Asked before each item.

        Returns:
            How many items were ended.

        Locks: as the single replay; LEAF, the batch or one item, each by itself.
        """
        done = 0
        rows = db.read().fetch_all(sql.LIST_RUNNABLE_BATCHES, {"runner_id": self._id, "limit": _BATCHES})
        for row in rows:
            if is_stopping():
                break
            if time.monotonic() >= self._due.get(row["id"], 0.0) and self._take(row["id"]):
                done += self._turn(get_batch(row["id"]), is_stopping)
                self._leave(row["id"])
        return done

    def _take(self, batch_id: str) -> bool:
        params = {"id": batch_id, "runner_id": self._id, "lease_seconds": self._lease_seconds}
        return db.execute_alone(sql.TAKE_BATCH, params) == 1

    def _leave(self, batch_id: str) -> None:
        db.execute_alone(sql.LEAVE_BATCH, {"id": batch_id, "runner_id": self._id})

    def _turn(self, batch: Batch, is_stopping: Callable[[], bool]) -> int:
        places = list_places(batch.id)
        items = db.read().fetch_all(sql.LIST_LEFT_ITEMS, {"id": batch.id, "limit": _SLICE})
        window = max(_WINDOW, batch.halt_after)
        params = {"id": batch.id, "since": batch.resumed_at, "limit": window}
        # Whoever holds the lease ends the items, so that what he ended himself need not be read again.
        last: deque[Row] = deque(db.read().fetch_all(sql.LIST_LAST_ENDED_ITEMS, params), maxlen=window)
        until = time.monotonic() + self._lease_seconds / 3
        for done, item in enumerate(items):
            if is_stopping() or time.monotonic() >= until:
                return done
            now = self._may_go_on(batch, item, last)
            stop = now if isinstance(now, _Stop) else self._do(batch, item, places, last, now)
            if stop is not None:
                if stop.state is not BatchState.RUNNING:
                    self._stop(batch, stop)
                return done
        if not items:
            self._stop(batch, _Stop(state=BatchState.FINISHED))
        return len(items)

    def _may_go_on(self, batch: Batch, item: Row, last: Collection[Row]) -> _Stop | datetime:
        """Say what keeps the next item from being replayed, or what time it is; RUNNING means: not now, or not by us.

        `last` are the items that ended, the last one first.
        """
        reader = db.read()
        turn = reader.fetch_one(sql.READ_BATCH_TURN, {"id": batch.id})
        if turn is None:
            raise BatchNotFound
        if turn["state"] != BatchState.RUNNING or turn["runner_id"] != self._id or not turn["IsLeased"]:
            return _Stop(state=BatchState.RUNNING)
        if batch.canary and not batch.is_past_canary and item["position"] > batch.canary:
            return _Stop(state=BatchState.WAITING)
        ended = list(last)
        code = repeated_code(ended, batch.halt_after)
        if code is None and self._children_die(ended, batch.halt_after):
            code = CHILD_DEAD
        if code is not None:
            return _Stop(state=BatchState.HALTED, code=code)
        if batch.per_minute and ended:
            wait = ended[0]["ended_at"] + timedelta(minutes=1) / batch.per_minute - turn["Now"]
            if wait > timedelta():
                self._due[batch.id] = time.monotonic() + wait.total_seconds()
                return _Stop(state=BatchState.RUNNING)
        now: datetime = turn["Now"]
        return now

    def _children_die(self, ended: Sequence[Row], halt_after: int) -> bool:
        work_ids = tuple(sorted(row["child_work_id"] for row in ended if row["child_work_id"] is not None))
        if len(work_ids) < halt_after or not capabilities().has_additive:
            return False
        params = {"work_ids": work_ids, "limit": halt_after}
        return dead_children(db.read().fetch_all(sql.LIST_LAST_ENDED_CHILDREN, params), halt_after)

    def _do(self, batch: Batch, item: Row, places: Collection[str], last: deque[Row], now: datetime) -> _Stop | None:
        """Replay one row and note what became of it, in the ledger and in front of `last`."""
        actor = actor_of(batch.created_by_id, batch.created_by_name)
        reach = bulk_reach(actor)
        if not reach or not covers(reach, places):
            return _Stop(state=BatchState.HALTED, code=errors.NotAllowed.code)
        try:
            ended = _replay(batch, item, in_bulk(actor))
        except OUTAGE:
            # The item is left; its request has a name, so that asking again changes nothing.
            raise
        except errors.IntegrationError as error:
            return _Stop(state=BatchState.HALTED, code=error.code)
        failpoint("batch.replayed")
        params = {
            "id": item["id"],
            "outcome": ended.outcome.value,
            "code": ended.code,
            "child_work_id": ended.child_work_id,
            "child_event_id": ended.child_event_id,
        }
        db.execute_alone(sql.END_BATCH_ITEM, params)
        last.appendleft({**params, "ended_at": now})
        failpoint("batch.noted")
        return None

    def _stop(self, batch: Batch, stop: _Stop) -> None:
        params = {
            "id": batch.id,
            "runner_id": self._id,
            "state": stop.state.value,
            "halt_code": stop.code,
            "is_end": stop.state is BatchState.FINISHED,
        }
        fact = service.stop_fact(
            batch, stop.state.value, actor_of(batch.created_by_id, batch.created_by_name), stop.code
        )
        stopped = service.run_audited(lambda tx: tx.execute(sql.STOP_BATCH, params) == 1, fact)
        self._due.pop(batch.id, None)
        log.info("batch.stopped", batch_id=batch.id, state=stop.state.value, code=stop.code, stopped=stopped)


def _replay(batch: Batch, item: Row, actor: Actor) -> _Ended:
    outcome: Replayed | Refused
    try:
        outcome = authority.replay(
            Ref(id=item["ref_id"], kind=RefKind(item["ref_kind"])),
            actor=actor,
            reason=batch.reason,
            idempotency_key=f"batch {batch.id} {item['position']}",
        )
    except errors.Refused as error:
        return _Ended(outcome=ItemOutcome.REFUSED, code=error.code)
    if isinstance(outcome, Refused):
        return _Ended(outcome=_OUTCOMES.get(outcome.code, ItemOutcome.REFUSED), code=outcome.code)
    return _Ended(
        outcome=ItemOutcome.REPLAYED,
        child_work_id=outcome.child_work_id,
        child_event_id=outcome.child_event_id,
    )
