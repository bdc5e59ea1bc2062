"""What the service adds to a replay: its time against that of its own statements, sent bare.

One replay's statements are written down as they are sent. Then equal rows are replayed in turn, some by the service,
some by a loop that sends those statements through the driver's cursor, with the row's own ids, in a transaction of
the same shape, and does nothing else. `python -m bench.replay_cost ROUNDS BLOCKS` is the process that does so.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import django

from bench.harness import Server, install_lockhouse, workspace
from bench.payload import PAYLOAD
from bench.report import Report
from bench.stats import percentile

#: Rows of one side before the other has its turn: what else the machine does hits both.
_BLOCK = 20
_ADMITTED = 500
_LANES = 2000
_REASON = "Stage names are fixed"


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; see the module's docstring."""
    blocks = 2 if quick else 15
    report = Report(bench="replay", engine=server.engine, quick=quick)
    with workspace() as work:
        environment = {**install_lockhouse(work, server), "LOCKHOUSE_LOG_LEVEL": "WARNING"}
        found = json.loads(work.python(["-m", "bench.replay_cost", str(rounds), str(blocks)], environment))
    for one in found["rounds"]:
        report.add("service: ms a replay", one["service"])
        report.add("bare statements: ms", one["bare"])
    report.facts |= {"rows of each side in a round": blocks * _BLOCK, **found["facts"]}
    ratio = report.compare("service / bare statements", "service: ms a replay", "bare statements: ms")
    report.demand("a replay costs at most 4 times its bare statements", ratio.median <= 4)
    report.demand("both sides made one child and one audit entry for each row", found["is_whole"])
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """A dead row: the ids of its WorkItem and its Event."""

    work_id: str
    event_id: str


def make_dead(pack: Any, count: int) -> list[Dead]:
    """Admit work with sealed payloads and let it die, some ten rows a lane.

    Args:
        pack: A pack of the tests' support.
        count: How many rows.

    Returns:
        The rows in the order in which they were admitted.
    """
    from tests.support.work import change, query

    first = _take_ordinals(pack.pack_id, count)
    pack.ordinal = first - 1
    for start in range(0, count, _ADMITTED):
        pack.admit(min(_ADMITTED, count - start), payload=PAYLOAD)
    lane = "CONCAT('deal:', MOD(LaneOrdinal, %s))"
    mine, bounds = "PackInstallId = %s AND LaneOrdinal BETWEEN %s AND %s", (pack.pack_id, first, first + count - 1)
    change(
        f"UPDATE _System_ConnectorEvent SET SourceLane = {lane}, TargetLane = {lane} WHERE {mine}",
        *(_LANES, _LANES, *bounds),
    )
    change(
        f"UPDATE _System_ConnectorWorkItem SET SourceLane = {lane}, TargetLane = {lane}, State = 'dead',"
        " Outcome = 'dead', Attempt = 3, OwnershipEpoch = 3, FailureClass = 'flow_error', FailureCount = 3,"
        " TerminalAt = UTC_TIMESTAMP(6), FirstFailedAt = UTC_TIMESTAMP(6), LastFailedAt = UTC_TIMESTAMP(6)"
        f" WHERE State = 'pending' AND {mine}",
        *(_LANES, _LANES, *bounds),
    )
    rows = query(
        f"SELECT WorkId, EventId FROM _System_ConnectorWorkItem WHERE State = 'dead' AND {mine} ORDER BY LaneOrdinal",
        *bounds,
    )
    return [Dead(work_id=row["WorkId"], event_id=row["EventId"]) for row in rows]


def _take_ordinals(pack_id: str, count: int) -> int:
    """Take ordinals as an admission does, since one may run beside; return the first."""
    from django.db import transaction

    from tests.support.work import change, query

    where = "_System_ConnectorPackInstall WHERE PackInstallId = %s"
    with transaction.atomic():
        first = int(query(f"SELECT NextLaneOrdinal AS n FROM {where} FOR UPDATE", pack_id)[0]["n"])
        change(
            "UPDATE _System_ConnectorPackInstall SET NextLaneOrdinal = %s WHERE PackInstallId = %s",
            *(first + count, pack_id),
        )
    return first


def make_actor(name: str) -> Any:
    """Make an account that may replay, and return it as an actor."""
    from tests.support.batches import replayer

    return replayer(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A statement as it went to the database."""

    sql: str
    params: Any
    is_inside: bool


class Recording:
    """One replay's statements, to be sent again for other rows.

    Attributes:
        statements: In the order in which they were sent.
    """

    def __init__(self, row: Dead, actor: Any) -> None:
        """Replay a row and write down what is sent."""
        from django.db import connection

        self.statements: list[Sent] = []
        with connection.execute_wrapper(self._note):
            made = replay(row, actor)
        self._own = (row.work_id, row.event_id, made.child_work_id, made.child_event_id, self._entry_id())
        self._since = 0

    def _note(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements.append(Sent(sql=sql, params=params, is_inside=context["connection"].in_atomic_block))
        return execute(sql, params, many, context)

    def _entry_id(self) -> str:
        (entry,) = [sent for sent in self.statements if "INTO console_auditentry" in sent.sql]
        return str(entry.params["id"])

    def went_on(self, count: int) -> None:
        """Note that so many more rows were replayed: each has the next ordinal and the next place in the trail."""
        self._since += count

    def of(self, row: Dead) -> list[Sent]:
        """Return the statements with another row's ids, new ones for what they insert, and the places that are next."""
        from integration.values import new_id

        self._since += 1
        names = dict(zip(self._own, (row.work_id, row.event_id, new_id(), new_id(), new_id()), strict=True))
        return [
            Sent(sql=sent.sql, params=self._moved(sent.params, names), is_inside=sent.is_inside)
            for sent in self.statements
        ]

    def _moved(self, params: Any, names: dict[str, str]) -> Any:
        if isinstance(params, dict):
            return {
                name: value + self._since
                if (name == "seq" or name.endswith("lane_ordinal")) and value is not None
                else self._moved(value, names)
                for name, value in params.items()
            }
        if isinstance(params, (tuple, list)):
            return tuple(self._moved(value, names) for value in params)
        if isinstance(params, str):
            for old, new in names.items():
                params = params.replace(old, new)
        return params


def replay(row: Dead, actor: Any) -> Any:
    """Replay a row by the service; anything but a child is an error."""
    from integration.authority import service
    from integration.authority.values import Ref, RefKind, Replayed

    made = service.replay(Ref(id=row.work_id, kind=RefKind.WORK_ITEM), actor=actor, reason=_REASON)
    if not isinstance(made, Replayed):
        message = f"a row was not replayed: {made}"
        raise TypeError(message)
    return made


def _send(raw: Any, statements: list[Sent]) -> None:
    """Send a replay's statements: what came before its transaction outside of one, the rest within."""
    is_open = False
    with contextlib.closing(raw.cursor()) as cursor:
        for sent in statements:
            if sent.is_inside and not is_open:
                raw.begin()
                is_open = True
            cursor.execute(sent.sql, sent.params or None)
            if cursor.description is not None:
                cursor.fetchall()
            elif cursor.rowcount != 1:
                message = f"a bare statement matched {cursor.rowcount} rows: {sent.sql}"
                raise RuntimeError(message)
        raw.commit()


def main(rounds: int, blocks: int) -> None:
    """Let both sides take turns, and print what they took."""
    django.setup()
    from django.db import connection

    from tests.support.work import Pack, query

    actor, pack = make_actor("replayer"), Pack(namespace="bench", flow="bench.noop")
    pack.route()
    count = rounds * (1 + 2 * blocks * _BLOCK) + _BLOCK
    rows = iter(make_dead(pack, count))
    for _ in range(_BLOCK):
        replay(next(rows), actor)
    other = connection.copy()
    other.ensure_connection()
    measured, every = [], []
    for _ in range(rounds):
        recording = Recording(next(rows), actor)
        served: list[float] = []
        bare: list[float] = []
        for _ in range(blocks):
            ready = [recording.of(next(rows)) for _ in range(_BLOCK)]
            for statements in ready:
                started = time.perf_counter()
                _send(other.connection, statements)
                bare.append(time.perf_counter() - started)
            for row in [next(rows) for _ in range(_BLOCK)]:
                started = time.perf_counter()
                replay(row, actor)
                served.append(time.perf_counter() - started)
            recording.went_on(_BLOCK)
        measured.append({"service": 1000 * sum(served) / len(served), "bare": 1000 * sum(bare) / len(bare)})
        every += served
    other.close()
    children = query("SELECT COUNT(DISTINCT ReplayOfWorkId) AS n FROM _System_ConnectorWorkItem")[0]["n"]
    entries = query("SELECT COUNT(DISTINCT ref_id) AS n FROM console_auditentry WHERE action = 'work_item.replayed'")
    facts = {
        "statements of a replay": len(recording.statements),
        "of them in its transaction": sum(sent.is_inside for sent in recording.statements),
        "service: p50 and p99, ms": json.dumps([round(1000 * percentile(every, share), 2) for share in (0.5, 0.99)]),
    }
    print(json.dumps({"rounds": measured, "facts": facts, "is_whole": children == entries[0]["n"] == count}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
