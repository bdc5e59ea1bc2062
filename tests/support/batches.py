"""Bulk replays for tests: an operator whose rights are in the database, a batch, its ledger, what it made."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.contrib.auth.models import Group

from console.models import User
from integration.authority.listing import DeadFilters
from integration.authority.values import BULK_PERMISSIONS
from integration.batches import service
from integration.batches.reads import get_batch
from integration.batches.runner import Runner
from integration.batches.selection import select
from integration.batches.values import Batch, Totals
from integration.values import Actor
from tests.support.authority import audit_entries, rows_of


def replayer(name: str = "rolf") -> Actor:
    """Make an account that may replay; return it as an actor."""
    user = User.objects.create_user(name)
    user.groups.set(Group.objects.filter(name="Replayer"))
    return Actor(user_id=user.pk, name=name, via="command", permissions=BULK_PERMISSIONS)


def batch_of(actor: Actor, **over: Any) -> Batch:
    """Store a batch of everything that is dead, or of another filter or selection."""
    filters = over.pop("filters", DeadFilters())
    selection = over.pop("selection", None) or select(filters)
    values: dict[str, Any] = {"reason": "Stage names are fixed", **over}
    return service.create(selection, actor=actor, **values)


def run_to_rest(runner: Runner | None = None) -> int:
    """Give batches their turns until no turn ends an item."""
    runner, done = runner or Runner(), 0
    while count := runner.round():
        done += count
    return done


def ledger(batch_id: str) -> list[dict[str, Any]]:
    """Return a batch's items in their order."""
    return sorted(rows_of("console_replaybatchitem", "batch_id = %s", batch_id), key=lambda row: row["position"])


def outcomes(batch_id: str) -> list[str]:
    """Return how each item ended, in order; the code where there is one."""
    return [row["code"] or row["outcome"] or "left" for row in ledger(batch_id)]


def children_by_original() -> Counter[str]:
    """Return how many children each replayed row has."""
    rows = rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId IS NOT NULL")
    return Counter(row["ReplayOfWorkId"] for row in rows)


def entries(action: str) -> list[tuple[str, str, str]]:
    """Return outcome, id and actor of an action's audit entries."""
    found = [entry for entry in audit_entries() if entry["action"] == action]
    return [(entry["outcome"], entry["ref_id"], entry["actor_name"]) for entry in found]


def assert_whole(batch: Batch) -> None:
    """Every row of a finished batch has one child and one entry, and the ledger says so."""
    after = get_batch(batch.id)
    assert (after.state, after.totals) == ("finished", Totals(replayed=batch.total))
    items = ledger(batch.id)
    assert children_by_original() == {item["ref_id"]: 1 for item in items}
    stored = {
        row["WorkId"]: row["ReplayOfWorkId"]
        for row in rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId IS NOT NULL")
    }
    assert {item["child_work_id"]: item["ref_id"] for item in items} == stored
    assert sorted(entries("work_item.replayed")) == sorted(("done", item["ref_id"], "rolf") for item in items)
