"""`manage.py cancel`: cancel one WorkItem under a named operator's rights."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError

from integration import errors
from integration.authority.cancellation import Cancellation, CancelOutcome, cancel
from integration.authority.values import Ref
from integration.management.operators import check_text, find_operator
from integration.values import plain


class Command(BaseCommand):
    """End work that waits, or ask the process that runs it to stop."""

    help = "Cancel one WorkItem. Exit 0 done or asked, 1 error, 2 usage, 3 refused, 4 not found, 5 permission denied."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("ref", help="A WorkId or an EventId.")
        parser.add_argument("--reason", required=True, help="Why, 1 to 500 characters on one line.")
        parser.add_argument("--as", dest="operator", required=True, help="Whose rights count, by user name.")
        parser.add_argument("--json", action="store_true", help="Print one JSON document.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Cancel; print; map an error to its exit code."""
        try:
            done = self._cancel(options)
        except errors.IntegrationError as error:
            if options["json"]:
                self._document({"error": error.code, "message": error.operator_message(), **plain(error.data_fields)})
            else:
                self.stderr.write(f"{error.code}: {error.operator_message()}")
            sys.exit(error.exit_code)
        if options["json"]:
            self._document(plain(done))
        elif done.outcome is CancelOutcome.CANCELLED:
            self.stdout.write(f"cancelled {done.work_id}, which was {done.was}")
        else:
            self.stdout.write(f"asked the process that runs {done.work_id} to stop; it may finish first")

    def _cancel(self, options: dict[str, Any]) -> Cancellation:
        check_text(options)
        try:
            actor = find_operator(options["operator"])
            return cancel(Ref.parse(options["ref"]), actor=actor, reason=options["reason"])
        except (OperationalError, InterfaceError):
            # Plain reads pass the driver's error on, and its text names the server and the account.
            raise errors.DatabaseUnavailable from None

    def _document(self, document: Any) -> None:
        self.stdout.write(json.dumps(document, ensure_ascii=False, sort_keys=True))
