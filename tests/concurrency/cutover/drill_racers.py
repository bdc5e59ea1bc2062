"""What the processes of the mixed-version drill run: builds of before, a provider, a build without a guard."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from django.db import OperationalError, transaction

from integration.storage.sql import cutovers
from integration.work.options import Options
from integration.work.supervisor import Supervisor
from tests.support import commands, webhooks
from tests.support.legacy import LegacyPack
from tests.support.work import change, query

_PACE_SECONDS = 0.05
#: How far whoever puts work in may be ahead of who executes it: how much there is to do then depends on no machine.
_AHEAD = 6
_LONGEST_SECONDS = 240.0
Row = dict[str, Any]


def runs_in(record: Path) -> list[Row]:
    """Return what executions wrote down, in order."""
    text = record.read_text(encoding="ascii") if record.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def ended_in(record: Path) -> list[int]:
    """Return the numbers of what was executed to its end, in order; each Event once, however often it was executed."""
    return list({run["event"]: run["n"] for run in runs_in(record) if run["at"] == "end"}.values())


def _is_ahead(record: str, numbers: Iterable[int]) -> bool:
    return len(set(numbers) - set(ended_in(Path(record)))) >= _AHEAD


def command(name: str, *arguments: str) -> Row:
    """Run a management command to its end; return its exit code and what it said."""
    return asdict(commands.run(name, *arguments))


def deliver(
    base: str, record: str, number: int, *, event: str = "deal.created", lane: int | None = None, gate: str = ""
) -> None:
    """Post one signed delivery, again and again until it is acknowledged."""
    deal = number % 3 if lane is None else lane
    body = webhooks.deal(deal, event=event, n=number, file=record, **({"gate": gate} if gate else {}))
    if event == "contact.changed":
        body = json.dumps({**json.loads(body), "contact": {"id": deal}}).encode()
    pause, deadline = threading.Event(), time.monotonic() + _LONGEST_SECONDS
    while webhooks.send(base, body, f"d-{number}") != 200:
        assert time.monotonic() < deadline, "the web server does not answer"
        pause.wait(_PACE_SECONDS)


def post(base: str, record: str, over: str) -> list[int]:
    """Post deliveries at an even pace until it is over; return the numbers of what was acknowledged."""
    acknowledged: list[int] = []
    pause = threading.Event()
    while not Path(over).exists():
        if not _is_ahead(record, acknowledged):
            deliver(base, record, len(acknowledged) + 1)
            acknowledged.append(len(acknowledged) + 1)
        pause.wait(_PACE_SECONDS)
    return acknowledged


def write_as_an_old_build(pack_id: str, record: str, first: int) -> list[int]:
    """Admit deals as builds without receipts of their own do, until a fence is armed; return their numbers.

    Under the pack's lock: the fence, the ordinal, the Event, and a mirror for every other one.
    """
    (row,) = query("SELECT * FROM _System_ConnectorPackInstall WHERE PackInstallId = %s", pack_id)
    (route,) = query(
        "SELECT RouteId FROM _System_ConnectorRoute WHERE PackInstallId = %s AND EventKind = 'deal.created'", pack_id
    )
    pack: LegacyPack = LegacyPack.__new__(LegacyPack)
    pack.pack_id, pack.namespace, pack.org_id = pack_id, row["Namespace"], row["OrgId"]
    pack.kind, pack.flow, pack.flow_version, pack.route_id = "deal.created", "tests.drill", "1", route["RouteId"]
    written: list[int] = []
    pause = threading.Event()
    is_open = True
    while is_open:
        # The schema may change under a transaction, which the database then undoes.
        with contextlib.suppress(OperationalError):
            if _is_ahead(record, written):
                is_open = not _is_fenced()
            else:
                is_open = _admit_one(pack, {"n": first + len(written), "file": record})
                written += [first + len(written)] * is_open
        pause.wait(_PACE_SECONDS)
    return written


def _admit_one(pack: LegacyPack, payload: dict[str, Any]) -> bool:
    """Admit one deal; return False, and admit nothing, behind a fence."""
    with transaction.atomic():
        (locked,) = query(
            "SELECT NextLaneOrdinal FROM _System_ConnectorPackInstall WHERE PackInstallId = %s FOR UPDATE", pack.pack_id
        )
        if _is_fenced():
            return False
        pack.ordinal = locked["NextLaneOrdinal"] - 1
        lanes = dict.fromkeys(("SourceLane", "TargetLane"), f"deal:{payload['n'] % 3}")
        (event_id,) = pack.events(payload=payload, **lanes)
        if payload["n"] % 2:
            pack.mirror(event_id, TargetLane=lanes["TargetLane"])
        change(
            "UPDATE _System_ConnectorPackInstall SET NextLaneOrdinal = %s WHERE PackInstallId = %s",
            pack.ordinal + 1,
            pack.pack_id,
        )
    return True


def _is_fenced() -> bool:
    return bool(query("SELECT 1 FROM _System_ConnectorAdmissionFence WHERE LiftedAt IS NULL"))


def work_without_receipt() -> int:
    """Work as a build that takes it for granted that every pack is the WorkItems'; return how much it executed."""
    believed = (
        "SELECT %(pack_install_id)s AS ReceiptId, 'forward' AS Direction, 1 AS OwnerGeneration,"
        " '' AS ProofDigest, UTC_TIMESTAMP(6) AS WrittenAt"
    )
    cutovers.NEWEST_CUTOVER_RECEIPT = replace(cutovers.NEWEST_CUTOVER_RECEIPT, text=believed)  # type: ignore[misc]
    supervisor = Supervisor(Options(roles=frozenset({"claim"}), concurrency=2, poll_seconds=0.02, per_event_only=True))
    signal.signal(signal.SIGTERM, lambda *_: supervisor.stop())
    return supervisor.run().executed
