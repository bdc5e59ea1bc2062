"""B6 without the page around it: the service that lists and counts dead rows, in process.

The peer is the ORM on the same table, as the Django admin asks it: OFFSET for a page, COUNT for its head. Filters match
three rows that lie far apart, and nine tenths of the rows (900,000 of a million; more of a larger table). The plan of
every statement is printed, and a plan that reads a table or an index as a whole is an error of the program.
`python -m bench.dead_list ROWS ROUNDS SAMPLES` is the process that measures.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import django

from bench import dead_rows
from bench.harness import Server, Workspace, install_lockhouse, workspace
from bench.report import Report
from bench.stats import median, percentile

_PAGE = 50
_FEW_LANE = "deal:rare"
_MANY_ATTEMPTS = 5
_UPDATED = 100_000
#: They are spread evenly: so many of each fifty rows.
_SPREAD = 50
#: A walk over a filter that matches next to nothing looks at some ten thousand keys a page.
_MOST_PAGES = 1_000


def run(server: Server, *, quick: bool, rounds: int, rows: int | None = None) -> Report:
    """Measure; see the module's docstring."""
    rows = rows or (50_000 if quick else 200_000 if server.is_tidb else 1_000_000)
    with workspace() as work:
        return measure(work, server, load(work, server, rows), rows, quick=quick, rounds=rounds)


def load(work: Workspace, server: Server, rows: int) -> dict[str, str]:
    """Make the dead rows, and what the filters find among them; return the program's environment."""
    environment = install_lockhouse(work, server)
    dead_rows.load(server, rows)
    share = _SPREAD * _many_of(rows) // rows
    for first in range(0, rows, _UPDATED):
        server.run(
            "UPDATE _System_ConnectorWorkItem SET Attempt = %s"
            " WHERE WorkId BETWEEN %s AND %s AND MOD(LaneOrdinal, %s) < %s",
            (_MANY_ATTEMPTS, _id_of(server, first), _id_of(server, min(first + _UPDATED, rows) - 1), _SPREAD, share),
        )
    for place in (1, 5, 9):
        server.run(
            "UPDATE _System_ConnectorWorkItem SET SourceLane = %s WHERE WorkId = %s",
            (_FEW_LANE, _id_of(server, rows * place // 10)),
        )
    server.run("ANALYZE TABLE _System_ConnectorWorkItem")
    return {**environment, "DJANGO_SETTINGS_MODULE": "bench.peers.admin.settings", "LOCKHOUSE_LOG_LEVEL": "WARNING"}


def _many_of(rows: int) -> int:
    """Return how many rows the filter finds that matches many."""
    return min(900_000, rows * 9 // 10)


def _id_of(server: Server, number: int) -> str:
    return str(server.value(f"SELECT {dead_rows.WORK_ID} FROM bench_numbers WHERE n = %s", (number,)))


def measure(
    work: Workspace, server: Server, environment: dict[str, str], rows: int, *, quick: bool, rounds: int
) -> Report:
    """Measure over rows that are there; judge."""
    report = Report(bench="b6-service", engine=server.engine, quick=quick)
    samples = 5 if quick else 20
    found = json.loads(work.python(["-m", "bench.dead_list", str(rows), str(rounds), str(samples)], environment))
    report.series |= found["series"]
    report.facts |= {"dead rows": rows, **found["facts"]}
    for name in ("", "many, "):
        deep = report.compare(f"{name}deepest / first page", f"{name}deepest page: ms", f"{name}first page: ms")
        report.demand(f"{name}deepest page <= 2 x the first", deep.median <= 2)
    for name in ("page at half depth", "many, page at half depth", "few, first page"):
        # A page is shown with its count.
        count = f"{name.rpartition(', ')[0]}, count: ms".removeprefix(", ")
        for side in ("", "ORM, "):
            pairs = zip(report.series[f"{side}{name}: ms"], report.series[f"{side}{count}"], strict=True)
            report.series[f"{side}{name} and count: ms"] = [sum(pair) for pair in pairs]
        ratio = report.compare(f"ORM / service, {name}", f"ORM, {name} and count: ms", f"{name} and count: ms")
        if name == "page at half depth":
            report.demand(">= 50 x faster than the ORM at half depth", ratio.median >= 50)
    for kind, slowest in found["slowest_p99"].items():
        report.demand(f"p99 <= 60 ms, {kind}", slowest <= 60)
    report.demand("the walk finds the three rows", found["rare"] == 3)
    for line in found["scans"]:
        report.facts[f"scan: {line}"] = "not allowed"
    report.demand("every plan is of index ranges", not found["scans"])
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Something that is asked of the service or of its peer.

    Attributes:
        name: As the report calls it.
        ask: Asks it once.
        kind: What p99 it is judged by; a peer's is not judged.
        is_slow: Asked once a round.
    """

    name: str
    ask: Callable[[], Any]
    kind: str | None = None
    is_slow: bool = False


def _cases(rows: int) -> list[Case]:
    from integration.authority.listing import DeadFilters

    every, many, few = DeadFilters(), DeadFilters(min_attempts=_MANY_ATTEMPTS), DeadFilters(source_lane=_FEW_LANE)
    half, deepest, deepest_of_many = _below(rows // 2), _below(_PAGE), _below(_PAGE * rows // _many_of(rows) + 50)
    dead: dict[str, Any] = {"state": "dead"}
    dead_many, dead_few = {**dead, "attempt__gte": _MANY_ATTEMPTS}, {**dead, "source_lane": _FEW_LANE}
    return [
        *_listed("", every, half, deepest),
        *_listed("many, ", many, half, deepest_of_many),
        *_listed("few, ", few, half, None),
        Case(name="ORM, first page", ask=lambda: _orm(dead, 0)),
        Case(name="ORM, page at half depth", ask=lambda: _orm(dead, rows // 2), is_slow=True),
        Case(name="ORM, deepest page", ask=lambda: _orm(dead, rows - _PAGE), is_slow=True),
        Case(name="ORM, count", ask=lambda: _orm_count(dead), is_slow=True),
        Case(name="ORM, many, page at half depth", ask=lambda: _orm(dead_many, _many_of(rows) // 2), is_slow=True),
        Case(name="ORM, many, count", ask=lambda: _orm_count(dead_many), is_slow=True),
        Case(name="ORM, few, first page", ask=lambda: _orm(dead_few, 0), is_slow=True),
        Case(name="ORM, few, count", ask=lambda: _orm_count(dead_few), is_slow=True),
    ]


def _listed(name: str, filters: Any, half: str, deepest: str | None) -> Iterator[Case]:
    """Yield the pages of a filter, and its count."""
    from integration.authority.reads import count_dead, list_dead

    kind = f"{name}pages"
    yield Case(name=f"{name}first page", kind=kind, ask=lambda: list_dead(filters))
    yield Case(name=f"{name}page at half depth", kind=kind, ask=lambda: list_dead(filters, half))
    if deepest is not None:
        yield Case(name=f"{name}deepest page", kind=kind, ask=lambda: list_dead(filters, deepest))
    yield Case(name=f"{name}count", kind=f"{name}count", ask=lambda: count_dead(filters))


def _below(number: int) -> str:
    """Return the cursor of the page that begins under a row, counted from the oldest."""
    from integration.authority.cursors import Cursor, Place

    died = dead_rows.FIRST_DEATH + timedelta(seconds=number * dead_rows.STEP_SECONDS)
    from tests.support.work import query

    (row,) = query(f"SELECT {dead_rows.WORK_ID} AS Id FROM bench_numbers WHERE n = %s", number)
    return Cursor(place=Place(at=died, id=str(row["Id"])), is_older=True).encode()


def _orm(where: dict[str, Any], skipped: int) -> list[Any]:
    from bench.peers.admin.models import DeadWork

    # The admin adds the key, so that pages do not overlap.
    return list(
        DeadWork._default_manager.filter(**where).order_by("-terminal_at", "-work_id")[skipped : skipped + _PAGE]
    )


def _orm_count(where: dict[str, Any]) -> int:
    from bench.peers.admin.models import DeadWork

    return DeadWork._default_manager.filter(**where).count()


def _walk() -> dict[str, Any]:
    """Look for the three rows as an operator would: page after page, until there is none."""
    from integration.authority.listing import DeadFilters
    from integration.authority.reads import list_dead

    cursor, found, took = None, 0, []
    for _ in range(_MOST_PAGES):
        started = time.perf_counter()
        page = list_dead(DeadFilters(source_lane=_FEW_LANE), cursor)
        took.append(1000 * (time.perf_counter() - started))
        found, cursor = found + len(page.rows), page.older
        if cursor is None:
            break
    said = json.dumps([len(took), round(sum(took)), round(max(took))])
    return {"rare": found, "said": said}


@contextmanager
def _noted(sent: dict[str, Any]) -> Iterator[None]:
    """Keep the first parameters of every statement that is sent."""
    from django.db import connection

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        sent.setdefault(sql, params)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield


def _plans(sent: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield name, plan and whether it reads something as a whole, for each of the program's statements."""
    from django.db import connection

    from integration.storage.statements import all_statements

    is_tidb = connection.settings_dict["ENGINE"] == "django_tidb"
    names = {statement.text: name for _, name, statement in all_statements()}
    for sql, params in sent.items():
        if not sql.lstrip(" (\n").startswith("SELECT") or "_System_" not in sql:
            continue
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN " + sql, params)
            columns = [column[0] for column in cursor.description]
            steps = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        name = names.get(sql, "ORM: " + sql[sql.index(" WHERE ") :] if " WHERE " in sql else sql)
        if is_tidb:
            reads = [
                f"{step['id'].strip('│├└─ ').rpartition('_')[0]} {step['access object']}"
                for step in steps
                if step["access object"]
            ]
            yield name, "; ".join(reads), any("FullScan" in one for one in reads)
        else:
            # A derived table is what a range gave.
            own = [step for step in steps if step["table"] and not step["table"].startswith("<")]
            reads = [f"{step['table']} {step['type']} {step['key']} {step['rows']}" for step in own]
            yield name, "; ".join(reads), any(step["type"] in {"ALL", "index"} for step in own)


def _rows_read() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(row[1]) for row in cursor.fetchall())


def main(rows: int, rounds: int, samples: int) -> None:
    """Ask everything in rounds, and print what it took."""
    django.setup()
    from django.db import connection

    is_tidb = connection.settings_dict["ENGINE"] == "django_tidb"
    cases = _cases(rows)
    series: dict[str, list[float]] = {}
    facts: dict[str, Any] = {}
    every: dict[str, list[float]] = {case.name: [] for case in cases}
    sent: dict[str, Any] = {}
    for case in cases:
        before = 0 if is_tidb else _rows_read()
        with _noted(sent):
            case.ask()
        if not is_tidb:
            facts[f"{case.name}: rows read"] = _rows_read() - before
    for _ in range(rounds):
        for case in cases:
            took = []
            for _ in range(1 if case.is_slow else samples):
                started = time.perf_counter()
                case.ask()
                took.append(1000 * (time.perf_counter() - started))
            every[case.name] += took
            series.setdefault(f"{case.name}: ms", []).append(median(took))
    slowest: dict[str, float] = {}
    for case in cases:
        p99 = percentile(every[case.name], 0.99)
        facts[f"{case.name}: p99, ms"] = round(p99, 1)
        if case.kind is not None:
            slowest[case.kind] = max(slowest.get(case.kind, 0.0), p99)
    walk = _walk()
    facts["walk to 3 rows: pages, ms, slowest ms"] = walk["said"]
    scans = []
    for name, plan, is_scan in _plans(sent):
        facts[f"plan, {name}"] = plan
        # The peer may read what it likes.
        if is_scan and not name.startswith("ORM"):
            scans.append(name)
    answer = {"series": series, "facts": facts, "scans": scans, "rare": walk["rare"], "slowest_p99": slowest}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
