"""The Event executor can be deleted: a copy of the program without it passes what the rest of the suite asks."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
COPIED = ("batteries", "bin", "console", "docs", "integration", "requirements", "static", "templates", "tests")
FILES = ("manage.py", "pyproject.toml", "CHANGELOG.md", "Makefile", "README.md")
#: The package, its command, its statements, and the tests that have nothing to test without it: `docs/legacy.md`.
REMOVED = (
    "integration/legacy",
    "integration/management/commands/legacy_execute.py",
    "integration/storage/sql/legacy.py",
    "batteries/crew.py",
    "batteries/cutting.py",
    "batteries/r12_soak.py",
    "batteries/r1_cutovers.py",
    "batteries/r4_cutovers.py",
    "batteries/soaking.py",
    "tests/*/legacy",
    "tests/browser/shots.py",
    "tests/console/test_cutovers.py",
    "tests/support/legacy.py",
    "tests/support/bridge.py",
    "tests/*/cutover/*inbound*.py",
    "tests/*/cutover/*drill*.py",
    "tests/concurrency/cutover/test_admission_races.py",
    "tests/*/cutover/test_legacy_outcomes.py",
    "tests/db/cutover/test_receipts_verify.py",
    "tests/db/cutover/test_rollback_coalesced.py",
    "tests/db/cutover/test_rollback_dependencies.py",
    "tests/db/setup/test_without_legacy.py",
)
PACKAGES = ("batteries", "console", "integration", "tests")
#: What is run of the rest: of each layer the file whose tests come nearest to what was removed.
RUN = (
    # The transition tables without the executor's moves, and every statement and lock that is left.
    "tests/unit/test_states.py",
    "tests/unit/storage/test_statements.py",
    # Events that are still the executor's: who owns one, what becomes of it in a rollback, who may claim it.
    "tests/db/authority/test_gate.py",
    "tests/db/cutover/test_rollback.py",
    "tests/db/work/test_claim.py",
    # What is admitted without an executor to fall back on, and what an operator is shown of both owners.
    "tests/db/ingress/test_held_backlog.py",
    "tests/console/test_dead.py",
)
#: How many tests these are at the least.
LEAST = 100
#: What tells this run, and not the one in the copy, where its results go and how it speaks.
TO_THIS_RUN = frozenset({"LOCKHOUSE_EVIDENCE_DIR", "PYTEST_ADDOPTS"})
_IMPORT_ALL = """
import importlib, pkgutil, sys
import django
django.setup()
import console, integration
for package in (console, integration):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith((".wsgi", ".gunicorn.conf")):
            importlib.import_module(found.name)
assert not [name for name in sys.modules if name.startswith("integration.legacy")]
from django.core.management import call_command
call_command("check")
call_command("install_schema", verbosity=0)
"""


def copy_without_legacy(folder: Path) -> None:
    """Copy the program, and remove the Event executor as `docs/legacy.md` says."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for pattern in REMOVED:
        found = list(folder.glob(pattern))
        assert found, f"{pattern} names nothing"
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    locks = folder / "integration" / "storage" / "locks.py"
    kept, mark, _ = locks.read_text(encoding="utf-8").partition("\n\ndef lock_event_to_execute(")
    assert mark
    locks.write_text(kept.replace("    legacy,\n", ""), encoding="utf-8")
    states = folder / "integration" / "states.py"
    moves, count = re.subn(r'    \*_converges\("\w+", _S\.\w+\),\n', "", states.read_text(encoding="utf-8"))
    assert count == 3
    states.write_text(moves, encoding="utf-8")


def run(folder: Path, *arguments: str, database_url: str) -> str:
    """Run Python in the copy, on this worker's database; return what it said."""
    environment = {
        **{name: value for name, value in os.environ.items() if name not in TO_THIS_RUN},
        "DJANGO_SETTINGS_MODULE": "tests.support.settings",
        "LOCKHOUSE_DATABASE_URL": database_url,
        "PYTHONPATH": str(folder),
    }
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def modules_of(folder: Path) -> dict[str, Path]:
    """Return every module of a tree by its name."""
    return {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in (folder / package).rglob("*.py")
    }


def imported_by(path: Path) -> Iterator[str]:
    """Yield the names that a module imports, wherever it does; of `from a import b` both `a` and `a.b`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.evidence("C-13")
def test_program__without_the_event_executor_passes_the_rest_of_the_suite(database_url: str, tmp_path: Path):
    """Three looks at the copy, which together stand for a run of the whole suite there.

    No module that is left, of the program or of the suite, imports one that was removed, not even within a function:
    whatever a test that is not run here does, it does by code that is there. The program is imported whole, passes its
    checks and installs its schema. And of each layer the tests are run that come nearest to what was removed, since the
    package is reached by its tables alone: what could miss it is what executes, owns or shows an Event.
    """
    copy_without_legacy(tmp_path)
    left = modules_of(tmp_path)
    removed = modules_of(ROOT).keys() - left.keys()
    assert "integration.legacy.executor" in removed
    assert {name: found for name, path in left.items() if (found := removed.intersection(imported_by(path)))} == {}
    run(tmp_path, "-c", _IMPORT_ALL, database_url=database_url)
    said = run(
        tmp_path,
        *("-m", "pytest", "-q", "-n", "0", "-x", "--reuse-db", "-p", "no:cacheprovider", *RUN),
        database_url=database_url,
    )
    passed = re.search(r"^(\d+) passed\b", said.splitlines()[-1])
    assert passed is not None, said
    assert int(passed[1]) >= LEAST
