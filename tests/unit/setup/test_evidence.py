"""The evidence table says what the results say, and notices a loss."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

STATEMENTS = "id\tsource\tneeds\tstatement\nA-1\tx.md\tmaria,tidb\tfirst\nA-2\tx.md\tmaria,tidb\tsecond\n"
PROCESSES = "A-3\tx.md\tmaria,tidb,processes\tthird\n"


def result(ids: list[str], outcome: str, test: str = "tests/unit/test_t.py::t") -> str:
    return json.dumps({"test": test, "ids": ids, "outcome": outcome, "database": "x"}) + "\n"


@pytest.fixture
def evidence(tmp_path: Path):
    (tmp_path / "statements.tsv").write_text(STATEMENTS)
    (tmp_path / "before.txt").write_text("")

    def run(mariadb: str, tidb: str, *, before: str = "", update: bool = False) -> str:
        (tmp_path / "mariadb.jsonl").write_text(mariadb)
        (tmp_path / "tidb.jsonl").write_text(tidb)
        (tmp_path / "before.txt").write_text(before)
        out = io.StringIO()
        call_command(
            "evidence",
            results=tmp_path,
            statements=tmp_path / "statements.tsv",
            proved_before=tmp_path / "before.txt",
            update=update,
            stdout=out,
            stderr=io.StringIO(),
        )
        return out.getvalue()

    return run


def test_evidence__prints_a_line_for_each_statement_and_the_totals(evidence):
    mariadb = result(["A-1", "A-2"], "passed") + result(["A-2"], "failed")
    assert evidence(mariadb, result(["A-1"], "passed")).splitlines() == [
        "A-1\tmariadb=proved\ttidb=proved\tfirst",
        "A-2\tmariadb=failed\ttidb=missing\tsecond",
        "proved 1 of 2 on mariadb, 1 of 2 on tidb",
    ]


@pytest.mark.parametrize("order", ["failed first", "failed last"])
def test_evidence__one_test_that_did_not_pass_fails_the_statement(evidence, order: str):
    lines = [result(["A-1"], "failed"), result(["A-1"], "passed")]
    mariadb = "".join(lines if order == "failed first" else reversed(lines))
    assert "A-1\tmariadb=failed" in evidence(mariadb, "")


def test_evidence__a_skipped_proof_is_no_proof(evidence):
    assert "A-1\tmariadb=failed" in evidence(result(["A-1"], "skipped"), "")


@pytest.mark.parametrize(
    ("test", "verdict"), [("tests/concurrency/work/test_x.py::test_y", "proved"), ("tests/db/test_x.py::y", "missing")]
)
def test_evidence__a_statement_about_processes_is_proved_by_processes(
    evidence, tmp_path: Path, test: str, verdict: str
):
    (tmp_path / "statements.tsv").write_text(STATEMENTS + PROCESSES)
    assert f"A-3\tmariadb={verdict}" in evidence(result(["A-3"], "passed", test), "")


def test_evidence__a_lost_statement_is_an_error(evidence):
    with pytest.raises(CommandError, match="no longer proved: A-2 tidb") as caught:
        evidence(result(["A-1"], "passed"), "", before="A-1 mariadb\nA-2 tidb\n")
    assert caught.value.returncode == 3


def test_evidence__without_results_is_an_error(tmp_path: Path):
    (tmp_path / "statements.tsv").write_text(STATEMENTS)
    with pytest.raises(CommandError, match="there are no results of mariadb"):
        call_command("evidence", results=tmp_path, statements=tmp_path / "statements.tsv")
