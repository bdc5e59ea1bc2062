"""What the benchmark of the projection cutover runs in the program: `python -m bench.auditing load|ask|cut ...`.

Each prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import select
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import django

_INPUTS = 3
_BATCH = 1_000


def load(events: str) -> dict[str, Any]:
    """Make an incarnation of the old protocol with so many Events, fenced and ready."""
    from tests.support.old_projections import OldPack
    from tests.support.work import insert

    pack = OldPack(namespace="bench")
    now = datetime.now(UTC) - timedelta(days=1)
    lanes = int(events) // _INPUTS
    for first in range(0, lanes, _BATCH):
        inputs, items = [], []
        for number in range(first, min(first + _BATCH, lanes)):
            lane = pack.lane(number)
            three = [_input(pack, lane.lane, now) for _ in range(_INPUTS)]
            three[-1]["ExecutionOwner"] = "work_item"
            inputs += three
            items.append(_item(pack, lane, three[-1], now))
        insert("_System_ConnectorEvent", inputs)
        insert("_System_ConnectorWorkItem", items)
    return {"id": pack.settle(), "namespace": pack.namespace}


def _input(pack: Any, lane: str, now: datetime) -> dict[str, Any]:
    shape = {"EventKind": pack.kind, "SourceLane": lane, "OccurredAt": now, "ReceivedAt": now}
    return dict(pack.event_values({"n": 1}, **shape, ExecutionOwner="event"))


def _item(pack: Any, lane: Any, event: dict[str, Any], now: datetime) -> dict[str, Any]:
    return dict(
        pack.item_values(
            event["EventId"],
            SubjectKind="projection",
            SubjectId=lane.key,
            EventKind=lane.kind,
            SourceLane=lane.lane,
            LaneOrdinal=event["LaneOrdinal"],
            ProjectionKey=lane.key,
            State="succeeded",
            Attempt=1,
            TerminalAt=now,
            CreatedAt=now,
            UpdatedAt=now,
        )
    )


def ask(namespace: str) -> dict[str, Any]:
    """Lock a namespace and let go, again and again, until standard input ends; return how long it took."""
    from integration.storage import db
    from integration.storage.locks import lock_namespace

    took = []
    print("{}", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        began = time.perf_counter()
        db.run(lambda tx: lock_namespace(tx, namespace), name="bench.ask")
        took.append(time.perf_counter() - began)
    took.sort()
    return {
        "locks of the namespace asked for meanwhile": len(took),
        "their p50, ms": _ms(took[len(took) // 2]),
        "their longest, ms": _ms(took[-1]),
    }


def cut(pack_install_id: str) -> dict[str, Any]:
    """Cut over; return how long the audit and the locked part took, and the memory's peak."""
    from integration.cutover.projection import service
    from integration.cutover.projection.patience import Patience
    from integration.values import Actor

    marks: dict[str, float] = {}
    with mock.patch.object(service, "failpoint", lambda name: marks.setdefault(name, time.perf_counter())):
        began = time.perf_counter()
        checkpoint = service.cut_over(
            pack_install_id,
            actor=Actor(user_id=None, name="bench"),
            patience=Patience(timeout=timedelta(hours=2)),
        )
    locked, ended = marks["projection_cutover.locked"], marks["projection_cutover.after_commit"]
    return {
        "cutoff": checkpoint.legacy_max_ordinal,
        "audit s": round(locked - began, 2),
        "locked ms": _ms(ended - locked),
        "peak RSS MiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _ms(seconds: float) -> float:
    return round(1_000 * seconds, 1)


_COMMANDS = {"load": load, "ask": ask, "cut": cut}

if __name__ == "__main__":
    django.setup()
    print(json.dumps(_COMMANDS[sys.argv[1]](*sys.argv[2:])))
