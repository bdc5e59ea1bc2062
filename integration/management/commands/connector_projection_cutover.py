"""`manage.py connector_projection_cutover`, and `bin/connector-projection-cutover`: end an old projection protocol."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from getpass import getuser
from typing import Any, Final

from django.core.management.base import BaseCommand
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from integration import errors
from integration.cutover.projection import service
from integration.cutover.projection.patience import Patience, parse_timeout
from integration.cutover.projection.policy import CutoverRefused
from integration.cutover.projection.service import Checkpoint, Preview
from integration.errors import EXIT_REFUSED
from integration.management.operators import check_text
from integration.storage.dsn import register_dsn
from integration.values import Actor, plain

DSN: Final = "CONNECTOR_CUTOVER_DSN"
_ALIAS: Final = "cutover"
_LINE_SECONDS: Final = 2.0
#: The server's numbers for an account without a right, a database that is not there, a table that is not there.
_NO_RIGHT: Final = frozenset({1044, 1045, 1142, 1143, 1227, 1698})
_NO_DATABASE: Final = 1049
_NO_TABLE: Final = 1146


class AccountRefused(errors.NotAllowed):
    """The database refuses this account: it needs the rights that the application has; nothing was written."""


class Command(BaseCommand):
    """Audit an incarnation's projection history and write, once, where its old protocol ended."""

    help = (
        "Write the last ordinal of the old projection protocol. The database is the one that CONNECTOR_CUTOVER_DSN "
        "names, else the settings'. Exit 0 done or done before, 1 error, 2 usage, 3 refused, 4 not found, 5 no right."
    )
    # The database need not be the settings', and no page is served.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options, each with one dash and with two."""
        parser.add_argument("-pack-install-id", "--pack-install-id", required=True, help="The active incarnation.")
        parser.add_argument("-timeout", "--timeout", default="30s", help="How long it may take: 30s (default), 5m.")
        parser.add_argument("-dry-run", "--dry-run", action="store_true", help="Only list what refuses, by reason.")
        parser.add_argument("-json", "--json", action="store_true", help="Print one JSON document.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run; print; map an error to its exit code."""
        try:
            code = self._run(options)
        except errors.IntegrationError as error:
            self._fail(error, as_json=options["json"])
            code = error.exit_code
        if code:
            sys.exit(code)

    def _run(self, options: dict[str, Any]) -> int:
        check_text(options)
        patience = Patience(timeout=parse_timeout(options["timeout"]))
        dsn, using = os.environ.get(DSN, ""), DEFAULT_DB_ALIAS
        if dsn:
            seconds = patience.timeout.total_seconds()
            using = register_dsn(dsn, name=DSN, alias=_ALIAS, timeout_seconds=seconds)
        pack_install_id = options["pack_install_id"]
        with ExitStack() as stack:
            stack.enter_context(_stopped_by_signals(patience))
            shared: dict[str, Any] = {
                "patience": patience,
                "using": using,
                "progress": stack.enter_context(self._progress()),
            }
            try:
                if options["dry_run"]:
                    found = service.preview(pack_install_id, **shared)
                else:
                    actor = Actor(user_id=None, name=_account(), via="command")
                    written = service.cut_over(pack_install_id, actor=actor, **shared)
            except (DatabaseError, InterfaceError) as error:
                # A statement that outlasted the time ends as a lost connection.
                patience.check()
                raise _error_of(error) from None
        if options["dry_run"]:
            return self._show_preview(found, as_json=options["json"])
        self._show_checkpoint(written, as_json=options["json"])
        return 0

    def _show_checkpoint(self, written: Checkpoint, *, as_json: bool) -> None:
        if as_json:
            self._document({"outcome": "cut_over" if written.is_new else "unchanged", **plain(written)})
            return
        did = "cut over" if written.is_new else f"cut over before, at {written.written_at:%Y-%m-%d %H:%M:%SZ}"
        self.stdout.write(
            f"{written.pack_install_id} {did}: the old protocol ended at ordinal {written.legacy_max_ordinal}"
        )

    def _show_preview(self, found: Preview, *, as_json: bool) -> int:
        code = EXIT_REFUSED if found.findings else 0
        if found.checkpoint is not None:
            self._show_checkpoint(found.checkpoint, as_json=as_json)
        elif as_json:
            findings = [
                {**plain(finding), "sentence": finding.reason.sentence, "next_step": finding.reason.next_step}
                for finding in found.findings
            ]
            self._document({"outcome": "refused" if code else "ready", **plain(found), "findings": findings})
        else:
            self._print_findings(found)
        return code

    def _print_findings(self, found: Preview) -> None:
        for finding in found.findings:
            reason = finding.reason
            count = f" ({finding.count:,})" if finding.count else ""
            self.stdout.write(f"{reason}{count}: {reason.sentence} {reason.next_step}")
            for row in finding.rows:
                self.stdout.write(f"  {row.kind}\t{row.id}\t{row.event_kind}\tordinal {row.ordinal}\t{row.state}")
            if finding.count > len(finding.rows):
                self.stdout.write(f"  and {finding.count - len(finding.rows):,} more")
        self.stdout.write(f"{found.events:,} Events, {found.inputs:,} inputs, {found.indirect:,} without a WorkItem")
        if found.findings:
            self.stdout.write("A cutover would be refused.")
        else:
            self.stdout.write(f"A cutover would end the old protocol at ordinal {found.cutoff}.")

    def _fail(self, error: errors.IntegrationError, *, as_json: bool) -> None:
        code = error.reason.value if isinstance(error, CutoverRefused) else error.code
        if as_json:
            self._document({"error": code, "message": error.operator_message(), **plain(error.data_fields)})
            return
        self.stderr.write(f"{code}: {error.operator_message()}")
        if isinstance(error, CutoverRefused):
            self.stderr.write("What refuses it, row by row: --dry-run")

    def _document(self, document: Any) -> None:
        self.stdout.write(json.dumps(document, ensure_ascii=False, sort_keys=True))

    @contextmanager
    def _progress(self) -> Iterator[Callable[[int, int], None]]:
        """Show how far the audit is: a bar on a terminal, elsewhere a line every few seconds."""
        console = Console(stderr=True)
        if not console.is_terminal:
            yield _Lines(self.stderr.write)
            return
        columns = (TextColumn("audit"), BarColumn(), MofNCompleteColumn(), TextColumn("Events"))
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("audit", total=None)
            yield lambda done, of: bar.update(task, completed=done, total=max(done, of))


class _Lines:
    """Writes a line now and then."""

    def __init__(self, write: Any) -> None:
        self._write = write
        self._next = time.monotonic() + _LINE_SECONDS

    def __call__(self, done: int, of: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            self._write(f"audited {done:,} Events of about {max(done, of):,}")


@contextmanager
def _stopped_by_signals(patience: Patience) -> Iterator[None]:
    """Have SIGINT and SIGTERM stop it where nothing is stored, instead of in the middle of a statement."""
    before = {number: signal.signal(number, lambda *_: patience.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _error_of(error: Exception) -> errors.IntegrationError:
    """Return what a driver's error means; its own text names the server and the account."""
    number = error.args[0] if error.args else 0
    if number in _NO_RIGHT:
        return AccountRefused()
    if number == _NO_DATABASE:
        message = "The server has no database of this name."
        return errors.SetupError(message)
    if number == _NO_TABLE:
        message = "A table is missing: run manage.py install_schema and manage.py migrate."
        return errors.SchemaMismatch(message)
    if isinstance(number, int) and number in range(1000, 2000):
        message = f"The database refused a statement (error {number}); nothing was written."
        return errors.SetupError(message, error_number=number)
    return errors.DatabaseUnavailable()


def _account() -> str:
    try:
        return getuser()
    except (KeyError, OSError):
        return "command"
