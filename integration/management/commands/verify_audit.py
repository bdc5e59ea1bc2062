"""`manage.py verify_audit`: recompute the audit chain."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.audit.reads import verify_chain
from integration.errors import EXIT_REFUSED


class Command(BaseCommand):
    """Recompute every digest of the audit trail and name the first break of each stream."""

    help = "Recompute the audit chain; exit 0 when it holds, 3 when it does not."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the output form."""
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        """Verify and report."""
        report = verify_chain()
        if options["json"]:
            self.stdout.write(json.dumps(asdict(report), sort_keys=True))
        else:
            for found in report.breaks:
                self.stdout.write(f"broken\t{found.stream}\t{found.seq}\t{found.what}")
            self.stdout.write(
                f"{report.entry_count} entries in {len(report.heads)} streams, {len(report.breaks)} broken"
            )
        if report.breaks:
            message = "the audit chain does not hold"
            raise CommandError(message, returncode=EXIT_REFUSED)
