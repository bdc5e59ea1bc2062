"""`manage.py legacy_execute`: execute a pack's Events, before its cutover or after its rollback."""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.checks import Tags
from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError

from integration import errors
from integration.legacy.executor import Executor, Options, Report
from integration.legacy.lease import LEASE_SECONDS
from integration.management.builds import build_version
from integration.management.operators import check_text


class Command(BaseCommand):
    """Claim and execute Events under the pack's scheduler lease, until a signal or until idle."""

    requires_system_checks = (Tags.models,)

    help = (
        "Execute the Events of a pack that no forward cutover receipt has moved to WorkItems. The first SIGTERM or "
        "SIGINT ends it after the Event that it executes. Exit 0 done, 1 error, 2 usage, 3 refused, 4 no such pack."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--pack-install-id", required=True, help="The pack incarnation.")
        parser.add_argument("--until-idle", action="store_true", help="Stop when nothing is left to execute.")
        parser.add_argument(
            "--lease-seconds",
            type=int,
            default=LEASE_SECONDS,
            help=f"How long the scheduler lease and a claim run ({LEASE_SECONDS}).",
        )
        parser.add_argument("--json", action="store_true", help="Print the totals as JSON when it ends.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the executor; print its totals; map an error to its exit code."""
        try:
            report = self._run(options)
        except errors.IntegrationError as error:
            if options["json"]:
                self.stdout.write(json.dumps({"error": error.code, "message": error.operator_message()}))
            else:
                self.stderr.write(f"{error.code}: {error.operator_message()}")
            sys.exit(error.exit_code)
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        "ended": dict(report.ended),
                        "reclaimed": report.reclaimed,
                        "held_back": dict(report.held_back),
                    },
                    sort_keys=True,
                )
            )
            return
        ended = ", ".join(f"{count} {status}" for status, count in sorted(report.ended.items())) or "nothing"
        self.stdout.write(f"executed {ended}; took back {report.reclaimed}")
        for reason, count in sorted(report.held_back.items()):
            self.stderr.write(f"held back: {count} ({reason})")

    def _run(self, options: dict[str, Any]) -> Report:
        check_text(options)
        if options["lease_seconds"] < 1:
            message = "--lease-seconds is at least 1."
            raise errors.InvalidInput(message)
        executor = Executor(
            Options(
                pack_install_id=_pack_id(options["pack_install_id"]),
                lease_seconds=options["lease_seconds"],
                until_idle=options["until_idle"],
                build_version=build_version(),
            )
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: executor.stop())
        try:
            return executor.run()
        except (OperationalError, InterfaceError):
            # Plain reads pass the driver's error on, and its text names the server and the account.
            raise errors.DatabaseUnavailable from None


def _pack_id(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        message = "--pack-install-id is the id of a pack incarnation."
        raise errors.InvalidInput(message) from None
