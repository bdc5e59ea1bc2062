"""B6: the dead-letter pages of a million dead rows or more, over HTTP, signed in.

The peer is Django's own admin changelist on the same table: it counts and skips. Both are served by the same
gunicorn settings, under the same middleware.
"""

from __future__ import annotations

import http.client
import http.cookies
import json
import re
import time
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote, urlencode, urlsplit

from bench import dead_rows
from bench.harness import Server, Workspace, install_lockhouse, workspace
from bench.report import Report
from bench.stats import median, percentile

_PAGE = 50
PASSWORD = "a-password-of-the-benchmark"
_COUNTERS = ("Rows_read", "Com_select", "Com_insert", "Com_update", "Com_delete")


def run(server: Server, *, quick: bool, rounds: int, rows: int | None = None) -> Report:
    """Measure; see the module's docstring."""
    rows = rows or (50_000 if quick else 1_000_000)
    report = Report(bench="b6", engine=server.engine, quick=quick)
    with workspace() as work:
        environment = install_lockhouse(work, server)
        started = time.monotonic()
        dead_rows.load(server, rows)
        report.facts |= {"dead rows": rows, "seconds to load them": round(time.monotonic() - started)}
        work.python(["manage.py", "collectstatic", "--noinput", "--verbosity", "0"], environment)
        password = work.folder / "password"
        password.write_text(PASSWORD)
        # The page is measured for an operator, whose rights are looked up; the admin opens to its own user only.
        for name, rights in (("operator", ("--group", "Replayer")), ("admin", ("--superuser",))):
            command = ["manage.py", "create_operator", "--username", name, "--password-file", str(password), *rights]
            work.python(command, environment)
        peer = {**environment, "DJANGO_SETTINGS_MODULE": "bench.peers.admin.settings"}
        with (
            work.gunicorn("console.wsgi:application", environment) as lockhouse,
            work.gunicorn("console.wsgi:application", peer) as admin,
        ):
            operator = Browser(lockhouse, sign_in(lockhouse, "operator"))
            staff = Browser(admin, sign_in(admin, "admin"))
            pages = _pages(_Cursors(work, environment, server), rows, operator, staff)
            _measure(report, server, pages, rounds, samples=5 if quick else 20)
    _judge(report, server)
    return report


class Browser:
    """One connection to one server, signed in."""

    def __init__(self, base: str, cookie: str) -> None:
        """Keep the address and the session's cookie."""
        parts = urlsplit(base)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port or 80, timeout=120)
        self._cookie = cookie

    def reconnect(self) -> None:
        """Connect anew with the next page: the server ends connections that rest for a few seconds."""
        self._connection.close()

    def get(self, path: str) -> tuple[float, str]:
        """Return how long a page took, in ms, and the page; anything but a 200 is an error."""
        started = time.perf_counter()
        self._connection.request("GET", path, headers={"Cookie": self._cookie})
        response = self._connection.getresponse()
        content = response.read().decode()
        took = (time.perf_counter() - started) * 1000
        if response.status != 200:
            message = f"{path} was answered {response.status}"
            raise RuntimeError(message)
        return took, content


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that is measured.

    Attributes:
        name: As the report calls it.
        path: Its address.
        browser: Who opens it.
        contains: What proves that it is the page that was meant.
        is_slow: Opened only a few times a round.
    """

    name: str
    path: str
    browser: Browser
    contains: str
    is_slow: bool = False


def sign_in(base: str, name: str) -> str:
    """Sign in over HTTP and return the session's cookie."""
    parts = urlsplit(base)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port or 80, timeout=30)
    connection.request("GET", "/sign-in/")
    page = connection.getresponse()
    form = page.read().decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    cookies = http.cookies.SimpleCookie("; ".join(page.headers.get_all("Set-Cookie") or []))
    if page.status != 200 or token is None:
        message = f"the sign-in page was answered {page.status}"
        raise RuntimeError(message)
    fields = {"username": name, "password": PASSWORD, "csrfmiddlewaretoken": token.group(1)}
    cookie = "; ".join(f"{key}={morsel.value}" for key, morsel in cookies.items())
    connection.request(
        "POST",
        "/sign-in/",
        urlencode(fields),
        {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded", "Origin": base},
    )
    answer = connection.getresponse()
    answer.read()
    session = [
        header.split(";", 1)[0]
        for header in answer.headers.get_all("Set-Cookie") or []
        if "session" in header.split("=", 1)[0]
    ]
    if answer.status != 302 or not session:
        message = f"signing in was answered {answer.status}"
        raise RuntimeError(message)
    return session[0]


@dataclass(frozen=True, slots=True, kw_only=False)
class _Cursors:
    """Makes the cursors of deep pages, as the program would."""

    work: Workspace
    environment: dict[str, str]
    server: Server

    def id_of(self, number: int) -> str:
        """Return the id of a row, by its place from the oldest."""
        sql = f"SELECT {dead_rows.WORK_ID} FROM lockhouse.bench_numbers WHERE n = %s"
        return str(self.server.value(sql, (number,)))

    def below(self, number: int) -> str:
        """Return the cursor of the page that begins under a row."""
        died = dead_rows.FIRST_DEATH + timedelta(seconds=number * dead_rows.STEP_SECONDS)
        script = (
            "import sys, django; django.setup(); from datetime import datetime;"
            " from integration.authority.cursors import Cursor, Place;"
            " place = Place(at=datetime.fromisoformat(sys.argv[1]), id=sys.argv[2]);"
            " print(Cursor(place=place, is_older=True).encode())"
        )
        made = self.work.python(["-c", script, died.isoformat(), self.id_of(number)], self.environment)
        return quote(made.strip())


def _pages(cursors: _Cursors, rows: int, lockhouse: Browser, admin: Browser) -> list[Page]:
    """Return the pages: where the deep ones begin is known from how the rows were made."""
    newest = cursors.id_of(rows - 1)
    half, half_first = cursors.below(rows // 2), cursors.id_of(rows // 2 - 1)
    deepest, deepest_first = cursors.below(_PAGE), cursors.id_of(_PAGE - 1)
    list_path = "/admin/admin_peer/deadwork/?state__exact=dead"
    # The admin's pages start at 1; it counts, and then skips this many.
    admin_half = rows // 2 // _PAGE
    admin_first = cursors.id_of(rows - 1 - (admin_half - 1) * _PAGE)
    return [
        Page(name="first page", path="/dlq/", browser=lockhouse, contains=newest),
        Page(name="page at half depth", path=f"/dlq/?cursor={half}", browser=lockhouse, contains=half_first),
        Page(name="deepest page", path=f"/dlq/?cursor={deepest}", browser=lockhouse, contains=deepest_first),
        Page(
            name="filtered page",
            path=f"/dlq/?event_kind=deal.created&cursor={half}",
            browser=lockhouse,
            contains="deal.created",
        ),
        Page(name="detail", path=f"/dlq/{half_first}/", browser=lockhouse, contains=half_first),
        Page(name="admin, first page", path=list_path, browser=admin, contains=newest, is_slow=True),
        Page(
            name="admin, half depth",
            path=f"{list_path}&p={admin_half}",
            browser=admin,
            contains=admin_first,
            is_slow=True,
        ),
    ]


def _measure(report: Report, server: Server, pages: list[Page], rounds: int, *, samples: int) -> None:
    every: dict[str, list[float]] = {page.name: [] for page in pages}
    for page in pages:
        page.browser.reconnect()
        _, content = page.browser.get(page.path)
        if page.contains not in content:
            message = f"{page.name} is not the page that was meant"
            raise RuntimeError(message)
        for _ in range(3 if page.is_slow else 8):
            page.browser.get(page.path)
    for _ in range(rounds):
        for page in pages:
            count = max(2, samples // 7) if page.is_slow else samples
            page.browser.reconnect()
            before = None if server.is_tidb else server.status(*_COUNTERS)
            took = [page.browser.get(page.path)[0] for _ in range(count)]
            if before is not None:
                spent = {name: value - before[name] for name, value in server.status(*_COUNTERS).items()}
                report.add(f"{page.name}: queries", (sum(spent.values()) - spent["Rows_read"]) / count)
                report.add(f"{page.name}: rows read", spent["Rows_read"] / count)
            every[page.name] += took
            report.add(f"{page.name}: ms", median(took))
    for name, took in every.items():
        report.facts[f"{name}: p50, p99 ms"] = json.dumps([round(percentile(took, share), 1) for share in (0.5, 0.99)])
    report.facts["p99 of first and deepest page, ms"] = round(
        max(percentile(every["first page"], 0.99), percentile(every["deepest page"], 0.99)), 1
    )


def _judge(report: Report, server: Server) -> None:
    deep = report.compare("deepest / first page", "deepest page: ms", "first page: ms")
    half = report.compare("admin / lockhouse, half depth", "admin, half depth: ms", "page at half depth: ms")
    report.compare("admin / lockhouse, first page", "admin, first page: ms", "first page: ms")
    report.demand("deepest page <= 2 x the first", deep.median <= 2)
    report.demand("p99 <= 60 ms", report.facts["p99 of first and deepest page, ms"] <= 60)
    report.demand(">= 50 x faster than the admin at half depth", half.median >= 50)
    if not server.is_tidb:
        names = ("first page", "deepest page", "filtered page")
        # The median: once a minute a page also notes that its session is in use.
        most = max(median(report.series[f"{name}: queries"]) for name in names)
        report.facts["queries of a page, most"] = round(most, 1)
        report.demand("<= 8 queries a page", most <= 8)
