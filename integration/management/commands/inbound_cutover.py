"""`manage.py inbound_cutover`: hand a pack's work to WorkItems or back, prove it, and say what stands in the way."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError

from integration import errors
from integration.management import inbound, inbound_rollback
from integration.management.operators import check_text
from integration.values import plain

_VERBS: Final = {**inbound.VERBS, **inbound_rollback.VERBS}


class Command(BaseCommand):
    """Run one verb; each is a class of `integration.management.inbound` or `inbound_rollback`."""

    help = (
        "Inbound cutover of a pack. Exit 0 done, 1 error, 2 usage, 3 refused or not what was written, 4 not found, "
        "5 permission denied."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verbs and their options."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb in _VERBS.values():
            options = verbs.add_parser(verb.name, help=verb.help)
            options.add_argument("--pack-install-id", required=True, help="The pack incarnation.")
            verb.add_arguments(options)
            options.add_argument("--json", action="store_true", help="Print one JSON document.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the verb; print; map an error to its exit code."""
        try:
            answer = self._run(options)
        except errors.IntegrationError as error:
            self._fail(error, as_json=options["json"])
            sys.exit(error.exit_code)
        if options["json"]:
            self._document(answer.document)
        else:
            self.stdout.write(answer.text)
        if answer.exit_code:
            sys.exit(answer.exit_code)

    def _run(self, options: dict[str, Any]) -> inbound.Answer:
        check_text(options)
        try:
            return _VERBS[options["verb"]].run(options)
        except (OperationalError, InterfaceError):
            # Plain reads pass the driver's error on, and its text names the server and the account.
            raise errors.DatabaseUnavailable from None

    def _fail(self, error: errors.IntegrationError, *, as_json: bool) -> None:
        if as_json:
            self._document({"error": error.code, "message": error.operator_message(), **plain(error.data_fields)})
            return
        self.stderr.write(f"{error.code}: {error.operator_message()}")
        for obstacle in plain(error.data_fields).get("obstacles", []):
            facts = ", ".join(f"{name} {value}" for name, value in obstacle.get("facts", {}).items())
            said = f"  {obstacle['code']}: {obstacle['sentence']} {obstacle['next_step']}"
            self.stderr.write(f"{said} ({facts})" if facts else said)

    def _document(self, document: Any) -> None:
        self.stdout.write(json.dumps(document, ensure_ascii=False, sort_keys=True))
