"""`manage.py localdb start|stop|status`: the embedded database."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from integration.errors import EXIT_ERROR, IntegrationError
from integration.storage.localdb import LocalDatabase, Status


class Command(BaseCommand):
    """Start, stop or look at the private MariaDB server of this installation."""

    help = "Start, stop or look at the embedded database in the var directory."
    # The checks ask the database, which may not run yet.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare what to do and the output form."""
        parser.add_argument("action", choices=["start", "stop", "status"])
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, print the status, map an error to its exit code; `status` exits 1 when nothing runs."""
        server = LocalDatabase(directory=settings.LOCALDB_DIR)
        try:
            if options["action"] == "start":
                server.start()
            elif options["action"] == "stop":
                server.stop()
            status = server.status()
        except IntegrationError as error:
            if options["json"]:
                self.stdout.write(json.dumps({"error": error.code, "message": error.operator_message()}))
            else:
                self.stderr.write(error.operator_message())
            sys.exit(error.exit_code)
        self.stdout.write(_as_json(status) if options["json"] else _as_text(status))
        if options["action"] == "status" and not status.running:
            sys.exit(EXIT_ERROR)


def _as_json(status: Status) -> str:
    return json.dumps(asdict(status), default=str, sort_keys=True)


def _as_text(status: Status) -> str:
    if not status.running:
        return f"The embedded database in {status.directory} does not run."
    return f"The embedded database runs: MariaDB {status.version}, process {status.pid}, socket {status.socket}"
