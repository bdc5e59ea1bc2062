"""Every list page of the console over tables of a million rows, over HTTP, signed in: time, queries, rows read.

There is no peer: what is asked of a page is that its cost does not grow with its tables. Each page is opened over
`--rows` dead rows, receipts and entries of the trail, and a hundredth of that in bulk replays and fences.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass

from bench import dead_letters, dead_rows
from bench.dead_letters import Browser
from bench.harness import Server, install_lockhouse, workspace
from bench.report import Report
from bench.stats import median, percentile

_BATCH = 50_000
_MOST_QUERIES = 8
_SELECTS = ("Com_select",)
_WRITES = ("Com_insert", "Com_update", "Com_delete")

_MOMENT = "TIMESTAMPADD(SECOND, n * 3, '2026-01-01')"
_ID = dead_rows.ID
_RECEIPTS = f"""
INSERT INTO _System_ConnectorIngressReceipt (ReceiptId, PackInstallId, Namespace, RouteKey, Provider, DeliveryId,
  IdempotencyKey, BodyHash, Body, State, QuarantineCode, ReceivedAt, MaterializedAt, MaterializedPackInstallId)
SELECT {_ID.format(variant="a")}, %(pack)s, 'demo', 'deals', 'demo-deals', CONCAT('delivery-', n), SHA2(n, 256),
  SHA2('body', 256), REPEAT('x', 300), IF(MOD(n, 10), 'materialized', 'quarantined'),
  IF(MOD(n, 10), NULL, 'route_not_live'), {_MOMENT}, IF(MOD(n, 10), {_MOMENT}, NULL), IF(MOD(n, 10), %(pack)s, NULL)
FROM bench_numbers WHERE n BETWEEN %(first)s AND %(last)s"""
_ENTRIES = f"""
INSERT INTO console_auditentry (id, stream, seq, previous_digest, digest, at, actor_id, actor_name, via, action,
  outcome, ref_kind, ref_id, namespace, reason, facts)
SELECT {_ID.format(variant="b")}, CONCAT('user:', MOD(n, 40)), n, SHA2(n, 256), SHA2(n + 1, 256), {_MOMENT},
  MOD(n, 40), CONCAT('operator-', MOD(n, 40)), 'console', IF(MOD(n, 3), 'work_item.replayed', 'work_item.viewed'),
  IF(MOD(n, 7), 'done', 'refused'), 'work_item', {_ID.format(variant="9")}, 'demo', 'Stage names are fixed', '{{}}'
FROM bench_numbers WHERE n BETWEEN %(first)s AND %(last)s"""
_BATCHES = f"""
INSERT INTO console_replaybatch (id, state, created_at, created_by_id, created_by_name, reason, selection,
  selection_digest, total, is_capped, left_out, canary, is_past_canary, halt_after, per_minute, resumed_at, ended_at,
  halt_code)
SELECT {_ID.format(variant="c")}, 'finished', {_MOMENT}, 1, 'ana', 'Stage names are fixed', '{{}}', SHA2(n, 256), 0, 0,
  0, 0, 0, 5, 0, {_MOMENT}, {_MOMENT}, ''
FROM bench_numbers WHERE n BETWEEN %(first)s AND %(last)s"""
_FENCES = f"""
INSERT INTO _System_ConnectorAdmissionFence (FenceId, Namespace, Scope, ArmedAt, ArmedBy, Reason, LiftedAt, LiftedBy)
SELECT {_ID.format(variant="d")}, 'demo', 'deal.created', {_MOMENT}, 'ana', 'A release', {_MOMENT}, 'ana'
FROM bench_numbers WHERE n BETWEEN %(first)s AND %(last)s"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that is measured.

    Attributes:
        name: As the report calls it.
        path: Its address.
        contains: What proves that it is the page that was meant.
        is_list: A list, which has a goal; the overview puts many figures together, and is read seldom.
    """

    name: str
    path: str
    contains: str
    is_list: bool = True


PAGES = (
    Page(name="overview", path="/", contains="<h1>", is_list=False),
    Page(name="dead letters", path="/dlq/", contains="deal."),
    Page(name="dead letters, oldest first", path="/dlq/?sort=oldest", contains="deal."),
    Page(name="dead letters, one kind", path="/dlq/?event_kind=deal.created", contains="deal.created"),
    Page(name="failure groups, 30 days", path="/dlq/groups/?hours=720", contains="<h1>"),
    Page(name="work items", path="/work/", contains="deal."),
    Page(name="work items, dead", path="/work/?state=dead", contains="deal."),
    Page(name="lanes", path="/lanes/", contains="<h1>Lanes"),
    Page(name="receipts", path="/receipts/", contains="demo"),
    Page(name="receipts, quarantined", path="/receipts/?state=quarantined", contains="demo"),
    Page(name="bulk replays", path="/batches/", contains="Stage names"),
    Page(name="fences", path="/fences/", contains="A release"),
    Page(name="cutovers", path="/cutovers/", contains="demo"),
    Page(name="audit", path="/audit/", contains="operator-"),
    Page(name="audit, one actor, oldest first", path="/audit/?actor=operator-7&sort=oldest", contains="operator-7"),
    Page(name="audit, one outcome", path="/audit/?outcome=refused", contains="operator-"),
    Page(name="access", path="/access/", contains="<h1>Access"),
    Page(name="account", path="/account/", contains="API tokens"),
)


def run(server: Server, *, quick: bool, rounds: int, rows: int | None = None) -> Report:
    """Measure; see the module's docstring."""
    rows = rows or (20_000 if quick else 200_000 if server.is_tidb else 1_000_000)
    report = Report(bench="pages", engine=server.engine, quick=quick)
    with workspace() as work:
        environment = install_lockhouse(work, server)
        started = time.monotonic()
        dead_rows.load(server, rows)
        _load_the_rest(server, rows)
        report.facts |= {"rows of each table": rows, "seconds to load them": round(time.monotonic() - started)}
        work.python(["manage.py", "collectstatic", "--noinput", "--verbosity", "0"], environment)
        password = work.folder / "password"
        password.write_text(dead_letters.PASSWORD)
        # An operator with every right, whose rights are looked up as everybody's are.
        command = ["manage.py", "create_operator", "--username", "ana", "--password-file", str(password)]
        work.python([*command, "--group", "Admin"], environment)
        with work.gunicorn("console.wsgi:application", environment) as base:
            _measure(report, server, Browser(base, dead_letters.sign_in(base, "ana")), rounds, 5 if quick else 20)
    return report


def _load_the_rest(server: Server, rows: int) -> None:
    pack = server.value("SELECT PackInstallId FROM _System_ConnectorPackInstall WHERE Status = 'active' LIMIT 1")
    for sql, count in ((_RECEIPTS, rows), (_ENTRIES, rows), (_BATCHES, rows // 100), (_FENCES, rows // 100)):
        for first in range(0, count, _BATCH):
            last = min(first + _BATCH, count) - 1
            with contextlib.closing(server.connection.cursor()) as cursor:
                cursor.execute(sql, {"pack": pack, "first": first, "last": last})
    server.run("ANALYZE TABLE _System_ConnectorIngressReceipt, console_auditentry, console_replaybatch")


def _measure(report: Report, server: Server, browser: Browser, rounds: int, samples: int) -> None:
    every: dict[str, list[float]] = {page.name: [] for page in PAGES}
    for page in PAGES:
        browser.reconnect()
        _, content = browser.get(page.path)
        if page.contains not in content:
            message = f"{page.name} is not the page that was meant"
            raise RuntimeError(message)
        for _ in range(4):
            browser.get(page.path)
    for _ in range(rounds):
        for page in PAGES:
            browser.reconnect()
            before = None if server.is_tidb else server.status("Rows_read", *_SELECTS, *_WRITES)
            every[page.name] += [browser.get(page.path)[0] for _ in range(samples)]
            if before is not None:
                spent = {
                    name: value - before[name]
                    for name, value in server.status("Rows_read", *_SELECTS, *_WRITES).items()
                }
                report.add(f"{page.name}: queries", sum(spent[name] for name in (*_SELECTS, *_WRITES)) / samples)
                report.add(f"{page.name}: rows read", spent["Rows_read"] / samples)
    for name, took in every.items():
        report.facts[f"{name}: p50, p99 ms"] = json.dumps([round(percentile(took, share), 1) for share in (0.5, 0.99)])
    if not server.is_tidb:
        most = max(median(report.series[f"{page.name}: queries"]) for page in PAGES if page.is_list)
        report.facts["queries of a list, most"] = round(most, 1)
        report.demand(f"<= {_MOST_QUERIES} queries a list", most <= _MOST_QUERIES)
