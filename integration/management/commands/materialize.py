"""Turn stored receipts into Events and WorkItems."""

from __future__ import annotations

import json
import signal
import sys
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from integration import errors
from integration.ingress.service import materialize_ready


class Command(BaseCommand):
    """Materialize until it is told to stop, or once."""

    help = "Materialize stored webhooks. `work` does this too, in its materialize role."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--once", action="store_true", help="Stop when nothing more can be materialized.")
        parser.add_argument("--poll", type=float, default=0.2, help="Seconds between looks when idle.")
        parser.add_argument("--json", action="store_true", help="Print the count as JSON when it ends.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Loop until SIGTERM or SIGINT; the transaction in flight is finished first."""
        stop = threading.Event()
        if not options["once"]:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stop.set())
        total = 0
        while True:
            try:
                done = materialize_ready()
            except errors.IntegrationError as error:
                # An unknown COMMIT is met again in the next round, which finds what was stored.
                if options["once"] or not (error.retryable or isinstance(error, errors.CommitUnknown)):
                    self.stderr.write(error.operator_message())
                    sys.exit(error.exit_code)
                done = 0
            total += done
            if (options["once"] and not done) or stop.wait(0 if done else options["poll"]):
                break
        self.stdout.write(json.dumps({"receipts": total}) if options["json"] else f"{total} receipts taken")
