"""A process of the program that lets work die and replays it: `python -m bench.bulk_driver`.

It reads commands as lines of JSON and answers each with one, as `bench.probe` does.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from datetime import UTC
from typing import Any

import django

_CHUNK = 500
_NAMESPACE = "demo"
_KIND = "deal.updated"


class Driver:
    """The demo pack that is installed, and an operator who may replay its work."""

    def __init__(self) -> None:
        """Load the program."""
        from bench.replay_cost import make_actor
        from tests.support.work import Pack, query

        (row,) = query(
            "SELECT p.PackInstallId, p.OrgId, p.PackName, r.RouteId, r.FlowName, r.FlowVersion"
            " FROM _System_ConnectorPackInstall p JOIN _System_ConnectorRoute r ON r.PackInstallId = p.PackInstallId"
            " WHERE p.Namespace = %s AND p.Status = 'active' AND r.EventKind = %s AND r.Status = 'live'",
            *(_NAMESPACE, _KIND),
        )
        # It is there already: nothing of it is inserted.
        pack = Pack.__new__(Pack)
        pack.namespace, pack.name, pack.kind = _NAMESPACE, row["PackName"], _KIND
        pack.pack_id, pack.org_id, pack.route_id = row["PackInstallId"], row["OrgId"], row["RouteId"]
        pack.flow, pack.flow_version, pack.ordinal = row["FlowName"], row["FlowVersion"], 0
        self._pack, self._actor = pack, make_actor("bulk")

    def loop(self, command: dict[str, Any]) -> dict[str, Any]:
        """Replay rows one by one by the service, without a ledger; return rows a second."""
        from bench.replay_cost import make_dead, replay

        rows = make_dead(self._pack, command["count"])
        started = time.perf_counter()
        for row in rows:
            replay(row, self._actor)
        return {"rate": len(rows) / (time.perf_counter() - started)}

    def operators(self, command: dict[str, Any]) -> dict[str, Any]:
        """Make accounts, `operator-0` and so on, that may replay and sign in by one password."""
        from django.contrib.auth.hashers import make_password
        from django.contrib.auth.models import Group

        from console.models import User

        password, group = make_password(command["password"]), Group.objects.get(name="Replayer")
        for number in range(command["count"]):
            User.objects.create(username=f"operator-{number}", password=password).groups.add(group)
        return {"count": User.objects.filter(groups=group).count()}

    def dead(self, command: dict[str, Any]) -> dict[str, Any]:
        """Let rows die; return their ids."""
        from bench.replay_cost import make_dead

        return {"ids": [row.work_id for row in make_dead(self._pack, command["count"])]}

    def replays(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return how many of some rows were replayed, by how many children and entries of the trail."""
        from tests.support.work import query

        items = "_System_ConnectorWorkItem WHERE ReplayOfWorkId IN %s"
        entries = "console_auditentry WHERE action = 'work_item.replayed' AND outcome = 'done' AND ref_id IN %s"
        (children,) = query(
            f"SELECT COUNT(DISTINCT ReplayOfWorkId) AS parents, COUNT(*) AS made FROM {items}", command["ids"]
        )
        (told,) = query(f"SELECT COUNT(*) AS entries FROM {entries}", command["ids"])
        return {"rows with a child": children["parents"], "children": children["made"], "entries": told["entries"]}

    def raw(self, command: dict[str, Any]) -> dict[str, Any]:
        """Let dead rows wait again by UPDATEs of five hundred keys, each a transaction; return rows a second."""
        from django.db import connection

        from bench.replay_cost import make_dead

        ids = [row.work_id for row in make_dead(self._pack, command["count"])]
        other = connection.copy()
        other.ensure_connection()
        started = time.perf_counter()
        with contextlib.closing(other.connection.cursor()) as cursor:
            for start in range(0, len(ids), _CHUNK):
                other.connection.begin()
                cursor.execute(
                    "UPDATE _System_ConnectorWorkItem SET State = 'pending', Outcome = NULL, TerminalAt = NULL,"
                    " RunAfter = UTC_TIMESTAMP(6), Attempt = 0, UpdatedAt = UTC_TIMESTAMP(6)"
                    " WHERE WorkId IN %s AND State = 'dead'",
                    (ids[start : start + _CHUNK],),
                )
                other.connection.commit()
        rate = len(ids) / (time.perf_counter() - started)
        other.close()
        return {"rate": rate}

    def batch(self, command: dict[str, Any]) -> dict[str, Any]:
        """Let rows die and store a bulk replay of them; the worker begins at once."""
        from bench.replay_cost import make_dead
        from integration.authority.listing import DeadFilters
        from integration.batches import service
        from integration.batches.selection import select
        from tests.support.work import query

        # The table may hold others, which died before.
        now = query("SELECT UTC_TIMESTAMP(6) AS now")[0]["now"].replace(tzinfo=UTC)
        make_dead(self._pack, command["count"])
        filters = DeadFilters(namespace=_NAMESPACE, died_after=now)
        batch = service.create(select(filters), actor=self._actor, reason="Stage names are fixed")
        if batch.total != command["count"]:
            message = f"the bulk replay takes {batch.total} rows, not {command['count']}"
            raise RuntimeError(message)
        return {"id": batch.id}

    def state(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return a bulk replay's totals, and its rate between its first row and its last one."""
        from integration.batches.reads import get_batch
        from tests.support.work import query

        batch = get_batch(command["id"])
        (ended,) = query(
            "SELECT TIMESTAMPDIFF(MICROSECOND, MIN(ended_at), MAX(ended_at)) AS took"
            " FROM console_replaybatchitem WHERE batch_id = %s AND ended_at IS NOT NULL",
            batch.id,
        )
        totals = batch.totals
        return {
            "state": batch.state.value,
            "done": totals.done,
            "left": totals.left,
            "replayed": totals.replayed,
            "adds_up": totals.done + totals.left == batch.total,
            "rate": 1e6 * (totals.done - 1) / int(ended["took"]) if ended["took"] else 0.0,
        }

    def whole(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return whether every row of a bulk replay has one child and one audit entry, and the ledger names it."""
        from tests.support.work import query

        named = {
            row["ref_id"]: row["child_work_id"]
            for row in query(
                "SELECT ref_id, child_work_id FROM console_replaybatchitem WHERE batch_id = %s", command["id"]
            )
        }
        made = [
            (row["ReplayOfWorkId"], row["WorkId"])
            for row in query(
                "SELECT WorkId, ReplayOfWorkId FROM _System_ConnectorWorkItem WHERE ReplayOfWorkId IS NOT NULL"
            )
            if row["ReplayOfWorkId"] in named
        ]
        told = [
            row["ref_id"]
            for row in query(
                "SELECT ref_id FROM console_auditentry WHERE action = 'work_item.replayed' AND outcome = 'done'"
            )
            if row["ref_id"] in named
        ]
        return {"whole": sorted(made) == sorted(named.items()) and sorted(told) == sorted(named)}


def main() -> None:
    """Answer commands until there are no more."""
    django.setup()
    driver = Driver()
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(driver, command["do"])(command)), flush=True)


if __name__ == "__main__":
    main()
