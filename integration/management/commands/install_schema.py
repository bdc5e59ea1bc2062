"""Create or upgrade the system tables."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import DEFAULT_DB_ALIAS, connections

from integration import errors
from integration.storage.install import install_schema
from integration.storage.schema import Vintage


class Command(BaseCommand):
    """Bring the system tables up to a vintage, in place, dropping nothing."""

    help = "Create the system tables, or upgrade them in place. Running it again changes nothing."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--vintage", choices=list(Vintage), default=Vintage.CURRENT, help="Stop at this vintage.")
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS, help="The database alias.")
        parser.add_argument("--dry-run", action="store_true", help="Only say what is missing.")
        parser.add_argument("--json", action="store_true", help="Print the report as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Install, print the report, map an error to its exit code."""
        try:
            report = install_schema(connections[options["database"]], options["vintage"], dry_run=options["dry_run"])
        except errors.IntegrationError as error:
            if options["json"]:
                self.stdout.write(json.dumps({"error": error.code, "message": error.operator_message()}))
            else:
                self.stderr.write(error.operator_message())
            sys.exit(error.exit_code)
        if options["json"]:
            self.stdout.write(json.dumps(report.as_dict()))
            return
        verb = "would create" if report.dry_run else "created"
        for label in report.created:
            self.stdout.write(f"{verb} {label}")
        for label in report.altered:
            self.stdout.write(f"{'would add' if report.dry_run else 'added'} {label}")
        state = report.vintage or "no schema"
        self.stdout.write(
            f"{report.engine} {report.version}: {state}, "
            f"{len(report.created)} tables and {len(report.altered)} columns and keys "
            f"{'missing' if report.dry_run else 'added'}"
        )
