"""`manage.py dlq export` and `manage.py audit`: files, lists, rights, exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.support.authority import World, audit_entries
from tests.support.commands import run
from tests.support.dlq import operator

pytestmark = pytest.mark.django_db(transaction=True)


def told() -> list[str]:
    """Return what the trail tells of exports; the accounts that were made are in it too."""
    return [entry["action"].partition(".")[2] for entry in audit_entries() if "export" in entry["action"]]


def test_dlq_export__writes_a_file_or_prints_it(tmp_path: Path) -> None:
    name, world = operator("vera", "Viewer"), World()
    ref = world.work()
    printed = run("dlq", "export", "--as", name, "--namespace", world.namespace)
    lines = list(csv.reader(io.StringIO(printed.out, newline="")))
    assert (printed.code, lines[1][lines[0].index("ref")]) == (0, f"work_item:{ref.id}")
    assert lines[-1] == ["# 1 rows, all that matched"]
    file = tmp_path / "dead.json"
    ended = run("dlq", "export", "--as", name, "--format", "json", "--output", str(file), "--oldest-first")
    assert (ended.code, ended.said) == (0, "")
    assert json.loads(file.read_text(encoding="utf-8"))["count"] == 1
    assert told() == ["export_begun", "exported"] * 2


def test_dlq_export__into_what_is_there_or_cannot_be_is_refused_and_not_begun(tmp_path: Path) -> None:
    name = operator("vera", "Viewer")
    file = tmp_path / "dead.csv"
    file.write_text("mine")
    for output in (file, tmp_path / "nowhere" / "dead.csv"):
        ended = run("dlq", "export", "--as", name, "--output", str(output))
        assert (ended.code, "output" in ended.err) == (2, True)
    assert (file.read_text(), told()) == ("mine", [])


@pytest.mark.evidence("A-32")
def test_exports__need_the_right_of_their_page() -> None:
    viewer, auditor = operator("vera", "Viewer"), operator("ida", "Auditor")
    assert run("dlq", "export", "--as", auditor).code == 5
    for verb in ("list", "export"):
        assert run("audit", verb, "--as", viewer).code == 5
    assert told() == []


def test_audit__lists_pages_of_what_matches_and_exports_it() -> None:
    viewer, auditor = operator("vera", "Viewer"), operator("ida", "Auditor")
    for _ in range(2):
        run("dlq", "export", "--as", viewer)
    first = run("audit", "list", "--as", auditor, "--json", "--limit", "3", "--actor", "vera").document
    assert [entry["action"] for entry in first["entries"]] == [
        "dead_letter.exported",
        "dead_letter.export_begun",
        "dead_letter.exported",
    ]
    second = run("audit", "list", "--as", auditor, "--cursor", first["older"], "--actor", "vera")
    assert "dead_letter.export_begun" in second.out
    assert second.out.count("vera") == 1
    oldest = run("audit", "list", "--as", auditor, "--oldest-first", "--json").document
    assert oldest["entries"][0]["seq"] == 1
    exported = run("audit", "export", "--as", auditor, "--entry-action", "dead_letter.exported", "--format", "json")
    assert json.loads(exported.out)["count"] == 2


@pytest.mark.parametrize(
    "options", [("--since", "soon"), ("--since", "2026-01-01T00:00"), ("--cursor", "x"), ("--limit", "0")]
)
def test_audit__of_bad_options_says_which(options: tuple[str, str]) -> None:
    ended = run("audit", "list", "--as", operator("ida", "Auditor"), "--json", *options)
    assert (ended.code, ended.document["field"]) == (2, options[0].removeprefix("--"))


def test_audit__of_nothing_says_so() -> None:
    assert run("audit", "list", "--as", operator("ida", "Auditor"), "--ref", "r-1").out == "No entry matches.\n"
