"""Packs of the Event executor: without a cutover receipt, Events with and without WorkItems, of any vintage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from integration.legacy.claim import EventClaim, claim_event
from integration.legacy.executor import Executor, Options
from integration.legacy.lease import SchedulerLease, acquire
from integration.legacy.process import EventProcess, register_executor
from integration.work.flows import discover_flows
from tests.support.work import Pack, Row, change, insert, query


@dataclass(kw_only=True)
class LegacyPack(Pack):
    """An incarnation whose Events are executed as Events: it has no cutover receipt."""

    direction: str | None = None
    flow: str = "tests.end"

    def events(self, count: int = 1, *, payload: Row | None = None, **over: Any) -> list[str]:
        """Insert Events without WorkItems, due now; return their ids."""
        rows = [self.event_values({"end": "well"} if payload is None else payload, **over) for _ in range(count)]
        insert("_System_ConnectorEvent", rows)
        return [str(row["EventId"]) for row in rows]

    def mirror(self, event_id: str, **over: Any) -> str:
        """Insert an Event's zero-attempt WorkItem, with the columns that the first vintage has; return its id."""
        (event,) = query("SELECT * FROM _System_ConnectorEvent WHERE EventId = %s", event_id)
        of_event = {"SourceLane": event["SourceLane"], "LaneOrdinal": event["LaneOrdinal"]}
        item = self.item_values(event_id, **{**of_event, **over})
        insert("_System_ConnectorWorkItem", [item])
        return str(item["WorkId"])

    def executor(self, **options: Any) -> Executor:
        """Return an executor of this pack, registered and without its keeper."""
        executor = Executor(Options(pack_install_id=self.pack_id, build_version="tests", **options))
        executor.start()
        return executor

    def hold(self) -> tuple[EventProcess, SchedulerLease]:
        """Register an executor and take the pack's scheduler lease."""
        discover_flows()
        process = register_executor(self.pack_id, build_version="tests")
        lease = acquire(self.pack_id, owner=process.process_id)
        assert lease is not None
        return process, lease

    def claim(self, event_id: str) -> EventClaim:
        """Claim one of its Events."""
        claimed = claim_event(event_id, *self.hold())
        assert isinstance(claimed, EventClaim), claimed
        return claimed


def expire_claim(event_id: str, *, seconds: int = 60) -> None:
    """Move the end of an Event's claim into the past, by the database's clock."""
    change(
        "UPDATE _System_ConnectorEvent SET ClaimedUntil = UTC_TIMESTAMP(6) - INTERVAL %s SECOND WHERE EventId = %s",
        seconds,
        event_id,
    )


def expire_scheduler_lease(*, seconds: int = 60) -> None:
    """Move the end of every scheduler lease into the past."""
    change("UPDATE _System_ConnectorSchedulerLease SET LeaseUntil = UTC_TIMESTAMP(6) - INTERVAL %s SECOND", seconds)


def make_event_due(event_id: str) -> None:
    """Move the next try of a failed Event into the past."""
    change(
        "UPDATE _System_ConnectorEvent SET NextRetryAt = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE EventId = %s",
        event_id,
    )
