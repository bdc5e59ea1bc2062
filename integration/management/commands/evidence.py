"""`manage.py evidence`: which statements are proved, from the tests' own results of the last run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.errors import EXIT_ERROR, EXIT_REFUSED

DATABASES: Final = ("mariadb", "tidb")


#: Where the tests stand that start real processes; a statement that needs them is proved there or not at all.
PROCESS_TESTS: Final = "tests/concurrency/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One row of the statements' file.

    Attributes:
        statement: What is to be proved.
        needs_processes: One process alone cannot show it.
    """

    statement: str
    needs_processes: bool


def read_statements(path: Path) -> dict[str, Claim]:
    """Return id -> what it claims, in the file's order."""
    statements = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        if line:
            identifier, _source, needs, statement = line.split("\t", 3)
            statements[identifier] = Claim(statement=statement, needs_processes="processes" in needs.split(","))
    return statements


def verdicts(lines: Iterable[str], statements: Mapping[str, Claim]) -> dict[str, str]:
    """Return id -> `proved` or `failed`.

    Args:
        lines: The results of one database's run, one JSON document a line.
        statements: What is to be proved.

    Returns:
        An id with one test that did not pass is failed. One that needs processes and was shown without them alone
        is left out, as one that no test names.
    """
    found: dict[str, str] = {}
    by_processes: set[str] = set()
    for line in lines:
        result = json.loads(line)
        for identifier in result["ids"]:
            passed = result["outcome"] == "passed" and found.get(identifier) != "failed"
            found[identifier] = "proved" if passed else "failed"
            if result["test"].startswith(PROCESS_TESTS):
                by_processes.add(identifier)
    return {
        identifier: verdict
        for identifier, verdict in found.items()
        if verdict == "failed"
        or identifier in by_processes
        or (identifier in statements and not statements[identifier].needs_processes)
    }


class Command(BaseCommand):
    """Print one line for each statement, and fail if one that was proved before no longer is."""

    help = "Print what the last test runs proved; exit 3 when a statement is lost."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare where results are read from and what is compared."""
        root = Path(settings.BASE_DIR)
        parser.add_argument("--results", type=Path, default=root / "var" / "evidence", help="folder of test results")
        parser.add_argument("--statements", type=Path, default=root / "docs" / "evidence.tsv")
        parser.add_argument("--proved-before", type=Path, default=root / "docs" / "evidence-proved.txt")
        parser.add_argument("--update", action="store_true", help="add what is newly proved to --proved-before")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the table and compare it with what was proved before."""
        statements = read_statements(options["statements"])
        found = {}
        for database in DATABASES:
            path = options["results"] / f"{database}.jsonl"
            if not path.is_file():
                message = f"there are no results of {database} in {options['results']}; run `make evidence`"
                raise CommandError(message, returncode=EXIT_ERROR)
            found[database] = verdicts(path.read_text(encoding="utf-8").splitlines(), statements)
        for identifier, claim in statements.items():
            cells = [f"{database}={found[database].get(identifier, 'missing')}" for database in DATABASES]
            self.stdout.write("\t".join([identifier, *cells, claim.statement]))
        proved = {
            f"{identifier} {database}"
            for database in DATABASES
            for identifier in statements
            if found[database].get(identifier) == "proved"
        }
        before = set(options["proved_before"].read_text(encoding="utf-8").split("\n")) - {""}
        counts = [
            f"{sum(entry.endswith(f' {database}') for entry in proved)} of {len(statements)} on {database}"
            for database in DATABASES
        ]
        lost = sorted(before - proved)
        if options["update"]:
            options["proved_before"].write_text("".join(f"{line}\n" for line in sorted(before | proved)), "utf-8")
        elif proved - before:
            self.stderr.write(f"newly proved: {', '.join(sorted(proved - before))}; note them with --update")
        self.stdout.write(f"proved {', '.join(counts)}")
        if lost:
            message = f"no longer proved: {', '.join(lost)}"
            raise CommandError(message, returncode=EXIT_REFUSED)
