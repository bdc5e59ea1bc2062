"""`manage.py sweep_projections`: look for queued generations that nothing will ever claim."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.errors import EXIT_REFUSED
from integration.projection.sweep import find_keyless_heads


class Command(BaseCommand):
    """Report every keyless head; nothing is changed."""

    help = (
        "Look for projections whose queued generation has no active one before it; exit 0 when there is none, else 3."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the output form."""
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        """Look and report."""
        heads = find_keyless_heads()
        if options["json"]:
            self.stdout.write(json.dumps([asdict(head) for head in heads], default=str, sort_keys=True))
        else:
            for head in heads:
                self.stdout.write(f"keyless\t{head.work_id}\t{head.namespace}\t{head.event_kind}\t{head.created_at}")
            self.stdout.write(f"{len(heads)} keyless heads")
        if heads:
            message = "a projection's queued generation has no active one before it"
            raise CommandError(message, returncode=EXIT_REFUSED)
