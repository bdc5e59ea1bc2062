"""`manage.py audit`: list and export the audit trail under a named operator's rights."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError

from integration import errors
from integration.audit import reads
from integration.audit.listing import AuditFilters, Entry
from integration.audit.policy import AuditOutcome
from integration.exports.policy import Format
from integration.exports.service import AUDIT_PERMISSION, export_audit
from integration.management.exports import add_export, write_parts
from integration.management.filters import moment_of
from integration.management.operators import check_text, find_operator
from integration.values import Actor, plain


class Command(BaseCommand):
    """Find who did, tried or lost what, and why."""

    help = "The audit trail. Exit 0 done, 1 error, 2 usage, 3 refused with a code, 5 permission denied."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the actions and their options."""
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="List entries, newest first.")
        listing.add_argument("--cursor", help="`newer` or `older` of another page.")
        listing.add_argument("--limit", type=int, default=reads.PAGE_ROWS)
        listing.add_argument("--oldest-first", action="store_true", help="Turn the order round.")
        export = actions.add_parser("export", help="Write the entries that match as a file; the trail tells of it.")
        add_export(export)
        for action in (listing, export):
            action.add_argument("--actor", help="Who did it, by name.")
            action.add_argument("--entry-action", help="What was done, for instance work_item.replayed.")
            action.add_argument("--outcome", choices=[str(outcome) for outcome in AuditOutcome])
            action.add_argument("--namespace", help="Of this namespace alone.")
            action.add_argument("--ref", help="The id of what it is about.")
            action.add_argument("--since", help="ISO 8601 with a zone.")
            action.add_argument("--until", help="ISO 8601 with a zone.")
            action.add_argument("--as", dest="operator", required=True, help="Whose rights count, by user name.")
            action.add_argument("--json", action="store_true", help="Print one JSON document.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the action; print; map an error to its exit code."""
        try:
            self._run(options)
        except errors.IntegrationError as error:
            if options["json"]:
                self._document({"error": error.code, "message": error.operator_message(), **plain(error.data_fields)})
            else:
                self.stderr.write(f"{error.code}: {error.operator_message()}")
            sys.exit(error.exit_code)

    def _run(self, options: dict[str, Any]) -> None:
        check_text(options)
        try:
            actor = find_operator(options["operator"])
            if options["action"] == "list":
                self._list(actor, options)
            else:
                self._export(actor, options)
        except (OperationalError, InterfaceError):
            # Plain reads pass the driver's error on, and its text names the server and the account.
            raise errors.DatabaseUnavailable from None

    def _list(self, actor: Actor, options: dict[str, Any]) -> None:
        within = actor.reach(AUDIT_PERMISSION)
        if not within:
            raise errors.NotAllowed
        page = reads.list_entries(
            _filters(options),
            options["cursor"],
            options["limit"],
            within=within,
            oldest_first=options["oldest_first"],
        )
        if options["json"]:
            self._document(plain(page))
            return
        for entry in page.entries:
            self.stdout.write(_line(entry))
        for word, cursor in (("newer", page.newer), ("older", page.older)):
            if cursor is not None:
                self.stdout.write(f"{word}: --cursor '{cursor}'")
        if not page.entries and page.newer is None and page.older is None:
            self.stdout.write("No entry matches.")

    def _export(self, actor: Actor, options: dict[str, Any]) -> None:
        filters = _filters(options)

        def begin() -> Iterator[str]:
            form = Format(options["format"])
            return export_audit(filters, actor=actor, form=form, oldest_first=options["oldest_first"])

        write_parts(begin, options["output"], self.stdout)

    def _document(self, document: Any) -> None:
        self.stdout.write(json.dumps(document, ensure_ascii=False, sort_keys=True))


def _filters(options: dict[str, Any]) -> AuditFilters:
    moments: dict[str, datetime | None] = {name: moment_of(name, options[name]) for name in ("since", "until")}
    return AuditFilters(
        namespace=options["namespace"] or None,
        ref=options["ref"] or None,
        actor=options["actor"] or None,
        action=options["entry_action"] or None,
        outcome=options["outcome"],
        **moments,
    )


def _line(entry: Entry) -> str:
    shown = (
        f"{entry.at:%Y-%m-%d %H:%M:%SZ}",
        entry.actor_name,
        entry.via,
        entry.action,
        entry.outcome,
        f"{entry.ref_kind} {entry.ref_id}",
        entry.reason,
    )
    return "\t".join(shown).rstrip()
