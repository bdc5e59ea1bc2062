"""`manage.py demo`: post signed webhooks and watch what becomes of them; `demo stages` changes what is accepted."""

from __future__ import annotations

import json
import signal
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.checks import Tags
from django.core.management.base import BaseCommand
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from integration.errors import EXIT_ERROR, IntegrationError
from integration.packs import demo
from integration.packs.stages import change_stages
from integration.work.figures import progress_since

_LINE_SECONDS = 2.0


class Command(BaseCommand):
    """Post, wait until the work is done, print the totals."""

    requires_system_checks = (Tags.database, Tags.models)

    help = "Post signed webhooks to the demo pack over HTTP, or change the deal stages that its flow accepts."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options of both forms."""
        parser.add_argument("--base-url", default="http://127.0.0.1:8000", help="Where the web server listens.")
        parser.add_argument("--count", type=_whole, default=200, help="Deliveries; 0 for no end (200).")
        parser.add_argument("--rate", type=_positive, default=20.0, help="Deliveries a second; 0 for no limit (20).")
        parser.add_argument("--fail-share", type=_share, default=0.15, help="Share with an unknown stage (0.15).")
        parser.add_argument("--flaky-share", type=_share, default=0.05, help="Share that fails once (0.05).")
        parser.add_argument("--duplicate-share", type=_share, default=0.0, help="Share sent a second time (0).")
        parser.add_argument("--forged-share", type=_share, default=0.0, help="Share with a wrong signature (0).")
        parser.add_argument("--contact-share", type=_share, default=0.25, help="Share that changes a contact (0.25).")
        parser.add_argument("--seed", type=int, help="The same seed sends the same deliveries.")
        parser.add_argument("--wait", type=_positive, default=120.0, help="Seconds to wait for the work (120).")
        parser.add_argument("--json", action="store_true", help="Print the totals as JSON.")
        forms = parser.add_subparsers(dest="form", title="other forms")
        stages = forms.add_parser("stages", help="Show or change the deal stages that the demo's flow accepts.")
        stages.add_argument("--allow", action="append", default=[], metavar="STAGE", help="Accept a stage.")
        stages.add_argument("--forbid", action="append", default=[], metavar="STAGE", help="Reject a stage.")
        stages.add_argument("--json", action="store_true", help="Print the stages as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the form that was asked for; map an error to its exit code."""
        try:
            if options["form"] == "stages":
                self._stages(options)
            else:
                self._post(options)
        except IntegrationError as error:
            self.stderr.write(error.operator_message())
            sys.exit(error.exit_code)

    def _stages(self, options: dict[str, Any]) -> None:
        stages = sorted(change_stages(allow=frozenset(options["allow"]), forbid=frozenset(options["forbid"])))
        self.stdout.write(json.dumps(stages) if options["json"] else "\n".join(stages))

    def _post(self, options: dict[str, Any]) -> None:
        stopped = False

        def stop(*_: object) -> None:
            nonlocal stopped
            stopped = True

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        mix = demo.Mix(
            count=options["count"],
            fail_share=options["fail_share"],
            flaky_share=options["flaky_share"],
            duplicate_share=options["duplicate_share"],
            forged_share=options["forged_share"],
            contact_share=options["contact_share"],
            seed=options["seed"],
        )
        # A second of grace: this clock and the one that makes the ids may differ by a little.
        since = datetime.now(UTC) - timedelta(seconds=1)
        with _Reporter(self, total=mix.count or None) as reporter:
            totals = demo.post_all(
                mix,
                base_url=options["base_url"],
                rate=options["rate"],
                stop=lambda: stopped,
                report=lambda totals: reporter.show("posted", totals.sent),
            )
        unfinished = self._await_work(since, options["wait"], lambda: stopped)
        states = {str(state): count for state, count in sorted(progress_since(demo.NAMESPACE, since).states.items())}
        found = {
            "sent": totals.sent,
            "stored": totals.stored,
            "duplicates": totals.duplicates,
            "refused": totals.refused,
            "unexpected": totals.unexpected,
            "work": states,
            "unfinished": unfinished,
        }
        if options["json"]:
            self.stdout.write(json.dumps(found))
        else:
            self.stdout.write(
                f"{totals.sent} sent: {totals.stored} stored, {totals.duplicates} duplicates, "
                f"{totals.refused} refused, {totals.unexpected} answered otherwise"
            )
            self.stdout.write("work: " + (", ".join(f"{count} {state}" for state, count in states.items()) or "none"))
        if unfinished:
            self.stderr.write(f"{unfinished} are not finished; is a worker running (manage.py work)?")
        if unfinished or totals.unexpected:
            sys.exit(EXIT_ERROR)

    def _await_work(self, since: datetime, seconds: float, stopped: Callable[[], bool]) -> int:
        deadline = time.monotonic() + seconds
        first = progress_since(demo.NAMESPACE, since).unfinished
        with _Reporter(self, total=first or None) as reporter:
            while True:
                unfinished = progress_since(demo.NAMESPACE, since).unfinished
                reporter.show("worked on", max(0, first - unfinished))
                if unfinished == 0 or stopped() or time.monotonic() > deadline:
                    return unfinished
                time.sleep(0.1)


class _Reporter:
    """A progress bar on a terminal, a line every two seconds elsewhere."""

    def __init__(self, command: BaseCommand, *, total: int | None) -> None:
        self._command = command
        self._total = total
        self._next_line = time.monotonic() + _LINE_SECONDS
        self._bar: Progress | None = None
        if command.stdout.isatty():
            self._bar = Progress(
                SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=Console()
            )
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> _Reporter:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, what: str, done: int) -> None:
        """Show how much is done."""
        if self._bar is not None:
            self._bar.update(self._task, description=what, completed=done)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            self._command.stdout.write(f"{what}: {done}" + (f" of {self._total}" if self._total else ""))


def _whole(text: str) -> int:
    if not text.isdecimal():
        message = "a whole number"
        raise ArgumentTypeError(message)
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        message = "a number of at least 0"
        raise ArgumentTypeError(message)
    return value


def _share(text: str) -> float:
    value = _positive(text)
    if value > 1:
        message = "a share from 0 to 1"
        raise ArgumentTypeError(message)
    return value
