"""`manage.py work`: a worker process."""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from typing import Any

from django.core.checks import Tags
from django.core.management.base import BaseCommand
from prometheus_client import start_http_server

from integration.batches.runner import Runner
from integration.errors import EXIT_ERROR, IntegrationError
from integration.management.builds import build_version
from integration.work.families import FAMILIES, Family
from integration.work.options import BATCHES, ROLES, Options
from integration.work.supervisor import Supervisor


class Command(BaseCommand):
    """Claim and run work, materialize receipts, reap, give back what waited, replay in bulk, until a signal."""

    requires_system_checks = (Tags.database, Tags.models)

    help = "Run a worker. The first SIGTERM or SIGINT drains it; a second one ends it at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--concurrency", type=_count, default=8, help="Flows that run at once (8).")
        parser.add_argument(
            "--roles",
            type=_roles,
            default=ROLES,
            help="Of batches, claim, materialize, reap, resolve, joined by commas.",
        )
        parser.add_argument(
            "--families",
            type=_families,
            default=(FAMILIES["connector"],),
            help="Whose work: connector, effect, subscription, reconcile, token, joined by commas (connector).",
        )
        parser.add_argument(
            "--drain-timeout", type=float, default=30.0, metavar="S", help="Seconds that running flows may take (30)."
        )
        parser.add_argument("--poll-ms", type=_count, default=50, help="How often an idle worker looks, in ms (50).")
        parser.add_argument("--lease-seconds", type=_count, default=60, help="How long a claim's lease runs (60).")
        parser.add_argument("--per-event-only", action="store_true", help="Claim no source projection.")
        parser.add_argument("--until-idle", action="store_true", help="Stop when no work waits or runs.")
        parser.add_argument("--metrics-port", type=_count, help="Serve metrics on this loopback port.")
        parser.add_argument("--json", action="store_true", help="Print the totals as JSON when it ends.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the supervisor; print its totals; map an error to its exit code."""
        supervisor = Supervisor(
            Options(
                roles=options["roles"],
                families=options["families"],
                concurrency=options["concurrency"],
                drain_seconds=options["drain_timeout"],
                poll_seconds=options["poll_ms"] / 1000,
                lease_seconds=options["lease_seconds"],
                per_event_only=options["per_event_only"],
                until_idle=options["until_idle"],
                build_version=build_version(),
            ),
            {BATCHES: Runner(lease_seconds=options["lease_seconds"])},
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: supervisor.stop())
        if options["metrics_port"]:
            _serve_metrics(options["metrics_port"])
        try:
            report = supervisor.run()
        except IntegrationError as error:
            self.stderr.write(error.operator_message())
            sys.exit(error.exit_code)
        if options["json"]:
            self.stdout.write(json.dumps(asdict(report)))
        else:
            self.stdout.write(f"{report.executed} executed, {report.materialized} receipts materialized")
        if not report.drained:
            self.stderr.write("some flows were still running; their leases will run out")
            sys.exit(EXIT_ERROR)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        message = "a whole number of at least 1"
        raise ArgumentTypeError(message)
    return int(text)


def _families(text: str) -> tuple[Family, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names or not set(names) <= FAMILIES.keys():
        message = f"one or more of {', '.join(FAMILIES)}"
        raise ArgumentTypeError(message)
    return tuple(FAMILIES[name] for name in names)


def _roles(text: str) -> frozenset[str]:
    roles = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not roles or roles - ROLES:
        message = f"one or more of {', '.join(sorted(ROLES))}"
        raise ArgumentTypeError(message)
    return roles


def _serve_metrics(port: int) -> None:
    start_http_server(port, addr="127.0.0.1")
