"""Dead rows of the demo pack, as many as are asked for: what pages list, and what a bulk replay has to pass by.

The server makes them itself: an Event and a WorkItem each, in source lanes of some tens, one death every few seconds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from bench.harness import Server

FIRST_DEATH = datetime(2026, 1, 1, tzinfo=UTC)
STEP_SECONDS = 3
_BATCH = 50_000
_LOOK_SECONDS = 0.2
# Ids that sort by time, as the program makes them.
ID = (
    "LOWER(CONCAT(LPAD(HEX(19500000 + n DIV 65536), 8, '0'), '-', LPAD(HEX(MOD(n, 65536)), 4, '0'), '-7',"
    " LPAD(HEX(MOD(n, 4096)), 3, '0'), '-{variant}000-', LPAD(HEX(n), 12, '0')))"
)
_EVENT_ID = ID.format(variant="8")
#: SQL for the WorkId of the row `n` from the oldest, over `bench_numbers`.
WORK_ID = ID.format(variant="9")
#: Room for a table's keys: they are made in the order of the rows, which is not their own.
_WHILE_LOADING = {"innodb_log_file_size": 2 << 30, "innodb_buffer_pool_size": 6 << 30}


def load(server: Server, rows: int) -> None:
    """Make dead rows of the demo pack, which is active in `lockhouse`; its next Event stands behind them."""
    server.run("USE lockhouse")
    _number(server, rows)
    pack, org, route, version, snapshot = server.rows(
        "SELECT p.PackInstallId, p.OrgId, r.RouteId, r.RouteVersion, r.Definition"
        " FROM _System_ConnectorPackInstall p JOIN _System_ConnectorRoute r ON r.PackInstallId = p.PackInstallId"
        " WHERE p.Status = 'active' LIMIT 1"
    )[0]
    values = {"pack": pack, "org": org, "route": route, "version": version, "snapshot": snapshot}
    with _roomy(server), ThreadPoolExecutor() as pool:
        # One connection a table: each is bound by one processor.
        for made in [pool.submit(_insert, server, sql, values, rows) for sql in (_EVENTS, _WORK_ITEMS)]:
            made.result()
    server.run(
        "UPDATE _System_ConnectorPackInstall SET NextLaneOrdinal = %s WHERE PackInstallId = %s", (rows + 1, pack)
    )
    server.run("ANALYZE TABLE _System_ConnectorEvent, _System_ConnectorWorkItem")


def _number(server: Server, rows: int) -> None:
    """Make the table `bench_numbers` of the numbers below a count."""
    server.run("CREATE TABLE bench_digits (d INT PRIMARY KEY)")
    server.run("INSERT INTO bench_digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
    server.run("CREATE TABLE bench_numbers (n INT PRIMARY KEY)")
    digits = " CROSS JOIN ".join(f"bench_digits d{place}" for place in range(6))
    terms = " + ".join(f"d{place}.d * {10**place}" for place in range(6))
    for million in range(0, rows, 10**6):
        sql = f"INSERT INTO bench_numbers SELECT %s + {terms} AS n FROM {digits} HAVING n < %s ORDER BY n"
        server.run(sql, (million, rows))


@contextlib.contextmanager
def _roomy(server: Server) -> Iterator[None]:
    """Give the server memory while the block runs; what is measured afterwards has what it had."""
    if server.is_tidb:
        yield
        return
    before = {name: int(server.value(f"SELECT @@{name}")) for name in _WHILE_LOADING}
    _resize(server, _WHILE_LOADING)
    yield
    _resize(server, before)


def _resize(server: Server, sizes: Mapping[str, int]) -> None:
    """Give the server's log and its pool other sizes, and return when they have them."""
    # A smaller log waits until what stands only in memory is written. Older servers change the pool behind the
    # caller's back, newer ones at once and say nothing.
    for name, value in sizes.items():
        server.run(f"SET GLOBAL {name} = %s", (value,))
    status = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status'"
    while (found := server.rows(status)[0][1]) and not found.startswith("Completed"):
        time.sleep(_LOOK_SECONDS)


def _insert(server: Server, sql: str, values: dict[str, object], rows: int) -> None:
    """Insert on a connection of its own, a batch a transaction."""
    with contextlib.closing(server.connect("lockhouse")) as own, contextlib.closing(own.cursor()) as cursor:
        cursor.execute("SET SESSION unique_checks = 0")
        for first in range(0, rows, _BATCH):
            cursor.execute(sql, {**values, "first": first, "last": first + _BATCH - 1})


_DIED = f"TIMESTAMPADD(SECOND, n * {STEP_SECONDS}, '{FIRST_DEATH:%Y-%m-%d}')"
_KIND = "ELT(1 + MOD(n, 3), 'deal.created', 'deal.updated', 'deal.updated')"
_LANE = "CONCAT('deal:', MOD(n * 7919, 60000))"
_EVENTS = f"""
INSERT INTO _System_ConnectorEvent (EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion, RouteSnapshot,
  Provider, EventKind, WorkType, SourceLane, TargetLane, LaneOrdinal, IdempotencyKey, DeliveryId, ReceiptId,
  ReceiptIndex, Payload, PayloadHash, OccurredAt, ReceivedAt, ExecutionOwner, Status)
SELECT {_EVENT_ID}, %(org)s, 'demo', %(pack)s, %(route)s, %(version)s, %(snapshot)s, 'demo-deals', {_KIND},
  'connector_event', {_LANE}, {_LANE}, n + 1, CONCAT('delivery:', n), CONCAT('delivery-', n), NULL, NULL,
  REPEAT('x', 300), SHA2('payload', 256), {_DIED}, {_DIED}, 'work_item', 'pending'
FROM bench_numbers WHERE n BETWEEN %(first)s AND %(last)s"""
_WORK_ITEMS = f"""
INSERT INTO _System_ConnectorWorkItem (WorkId, WorkFamily, WorkType, SubjectKind, SubjectId, EventId, OrgId,
  Namespace, PackInstallId, RouteId, RouteVersion, FlowName, FlowVersion, EventKind, CatalogDigest, SourceLane,
  TargetLane, LaneOrdinal, State, RunAfter, Attempt, MaxAttempts, OwnershipEpoch, CreatedAt, UpdatedAt, Outcome,
  FailureClass, FailureSummary, FailureCount, FirstFailedAt, LastFailedAt, TerminalAt)
SELECT {WORK_ID}, 'connector', 'connector_event', 'event', {_EVENT_ID}, {_EVENT_ID}, %(org)s, 'demo', %(pack)s,
  %(route)s, %(version)s, 'demo.apply_deal', '1', {_KIND}, REPEAT('c', 64), {_LANE}, {_LANE}, n + 1, 'dead', {_DIED},
  3, 3, 3, {_DIED}, {_DIED}, 'dead', 'flow_error', 'The flow raised an error.', 3, {_DIED}, {_DIED}, {_DIED}
FROM bench_numbers WHERE n BETWEEN %(first)s AND %(last)s"""
