"""Install a pack, and make it the active one."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from getpass import getuser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from integration import errors
from integration.catalog.documents import PackDocument, load_pack
from integration.catalog.loading import DocumentInvalid
from integration.catalog.service import activate_pack, install_pack
from integration.values import Actor


class Command(BaseCommand):
    """Validate a pack file, install it as an incarnation, and activate it if asked."""

    help = "Install a connector pack. The same document again changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("file", type=Path, help="The pack, a YAML file.")
        parser.add_argument("--namespace", help="Replaces binding.namespace.")
        parser.add_argument("--org", help="Replaces binding.org.")
        parser.add_argument("--activate", action="store_true", help="Make it the active incarnation.")
        parser.add_argument("--dry-run", action="store_true", help="Only validate the file.")
        parser.add_argument("--json", action="store_true", help="Print the result as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Load, install, activate; print; map an error to its exit code."""
        try:
            document = load_pack(options["file"], namespace=options["namespace"], org=options["org"])
            report = _describe(document)
            if not options["dry_run"]:
                actor = Actor(user_id=None, name=_account(), via="command")
                report |= _apply(document, actor, activate=options["activate"])
        except errors.IntegrationError as error:
            self._fail(error, as_json=options["json"])
        else:
            self._print(report, as_json=options["json"])

    def _print(self, report: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(report))
            return
        name = f"{report['pack']} {report['version']} in {report['namespace']}"
        if "pack_install_id" not in report:
            held = ", ".join(_counted(report[f"{noun}s"], noun) for noun in ("route", "webhook"))
            self.stdout.write(f"{name}: valid, {held}")
            return
        verb = "installed" if report["installed"] else "was installed already"
        self.stdout.write(f"{name}: {verb}, incarnation {report['incarnation']} ({report['pack_install_id']})")
        if "activated" in report:
            verb = "activated" if report["activated"] else "is active already"
            self.stdout.write(f"{name}: {verb}, catalog revision {report['catalog_revision']}")
            if report["retired_pack_install_id"]:
                self.stdout.write(f"{name}: retired {report['retired_pack_install_id']}")

    def _fail(self, error: errors.IntegrationError, *, as_json: bool) -> None:
        if as_json:
            report: dict[str, Any] = {"error": error.code, "message": error.operator_message(), **error.data_fields}
            if isinstance(error, DocumentInvalid):
                report["problems"] = [
                    {"path": found.path, "line": found.line, "expected": found.expected, "found": found.found}
                    for found in error.problems
                ]
            self.stdout.write(json.dumps(report))
        else:
            self.stderr.write(f"{error.code}: {error.operator_message()}")
        sys.exit(error.exit_code)


def _describe(document: PackDocument) -> dict[str, Any]:
    return {
        "pack": document.pack,
        "version": document.version,
        "namespace": document.binding.namespace,
        "org": document.binding.org,
        "catalog_digest": document.digest(),
        "routes": len(document.routes),
        "webhooks": len(document.webhooks),
    }


def _apply(document: PackDocument, actor: Actor, *, activate: bool) -> dict[str, Any]:
    installed = install_pack(document, actor=actor)
    report: dict[str, Any] = {
        "pack_install_id": installed.pack_install_id,
        "incarnation": installed.incarnation,
        "installed": installed.is_new,
    }
    if activate:
        activated = activate_pack(installed.pack_install_id, actor=actor)
        report |= {
            "activated": activated.is_new,
            "catalog_revision": activated.catalog_revision,
            "cutover_receipt_id": activated.receipt_id,
            "retired_pack_install_id": activated.retired_pack_install_id,
        }
    return report


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _account() -> str:
    try:
        return getuser()
    except (KeyError, OSError):
        return "command"
