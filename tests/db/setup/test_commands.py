"""The small commands: what they print, in text and in JSON, and how they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.values import Actor, new_id
from tests.concurrency.work.waits import until_said
from tests.support import webhooks
from tests.support.authority import system_rows
from tests.support.commands import run
from tests.support.processes import environment, manage
from tests.support.servers import ROOT

pytestmark = pytest.mark.django_db
PACK = str(webhooks.PACKS / "outreach.yaml")
ANA = Actor(user_id=7, name="ana", via="console")


def remember(count: int) -> None:
    for number in range(count):
        record_alone(
            AuditFact(
                action="work_item.replayed",
                outcome=AuditOutcome.REFUSED,
                actor=ANA,
                ref_kind="work_item",
                ref_id="0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0",
                reason=f"canary-reason-{number}",
                facts={"code": "not_dead"},
            )
        )


def change(sql: str) -> None:
    with connection.cursor() as cursor:
        assert cursor.execute(sql) == 1


def test_verify_audit__of_a_whole_chain_is_exit_0():
    remember(3)
    ended = run("verify_audit")
    assert (ended.code, ended.out, ended.err) == (0, "3 entries in 1 streams, 0 broken\n", "")
    found = run("verify_audit", "--json")
    assert (found.code, found.err) == (0, "")
    assert {"entry_count", "heads", "breaks"} == set(found.document)
    assert (found.document["entry_count"], found.document["breaks"]) == (3, [])
    assert list(found.document["heads"]) == ["actor/7"]


@pytest.mark.parametrize(
    ("sql", "seq", "what"),
    [
        ("UPDATE console_auditentry SET reason = 'another' WHERE seq = 2", 2, "content"),
        ("DELETE FROM console_auditentry WHERE seq = 2", 3, "missing"),
    ],
)
def test_verify_audit__of_a_broken_chain_is_exit_3_and_names_the_place(sql: str, seq: int, what: str):
    remember(3)
    change(sql)
    ended = run("verify_audit")
    assert ended.code == 3
    assert ended.out.splitlines()[0] == f"broken\tactor/7\t{seq}\t{what}"
    assert "does not hold" in ended.err
    found = run("verify_audit", "--json")
    assert found.code == 3
    assert found.document["breaks"] == [{"stream": "actor/7", "seq": seq, "what": what}]
    assert "canary-reason" not in ended.said + found.said


def test_materialize__says_how_many_receipts_it_took(client):
    webhooks.activate(webhooks.pack("outreach"))
    for number in range(3):
        assert webhooks.post(client, webhooks.prospect_updated(number), "outreach", delivery_id=f"d-{number}")
    found = run("materialize", "--once", "--json")
    assert (found.code, found.err, found.document) == (0, "", {"receipts": 3})
    assert len(webhooks.rows("WorkItem")) == 3
    assert run("materialize", "--once", "--json").document == {"receipts": 0}
    assert run("materialize", "--once").out == "0 receipts taken\n"


def test_install_pack__describes_what_it_did():
    first = run("install_pack", PACK, "--activate", "--json").document
    assert (first["installed"], first["activated"], first["incarnation"]) == (True, True, 1)
    ended = run("install_pack", PACK, "--activate")
    assert (ended.code, ended.err) == (0, "")
    assert "was installed already" in ended.out
    assert "is active already" in ended.out


def test_install_pack__prints_the_code_of_its_refusal_in_text_too(tmp_path: Path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("lockhouse: 1\npack: outreach\n", encoding="utf-8")
    before = system_rows()
    for path in (broken, tmp_path / "missing.yaml"):
        ended, found = run("install_pack", str(path)), run("install_pack", str(path), "--json")
        assert ended.code == found.code == 2
        assert ended.out == found.err == ""
        assert ended.err.startswith(found.document["error"] + ": ")
        assert found.document["message"] in ended.err
    assert system_rows() == before


def test_install_pack__that_a_rule_refuses_is_exit_3_with_its_code(tmp_path: Path):
    run("install_pack", PACK, "--activate")
    other = tmp_path / "other.yaml"
    other.write_text(Path(PACK).read_text(encoding="utf-8"), encoding="utf-8")
    org = "00000000-0000-4000-8000-000000000002"
    before = system_rows()
    found = run("install_pack", str(other), "--org", org, "--json")
    ended = run("install_pack", str(other), "--org", org)
    assert ended.code == found.code == 3
    assert ended.err.startswith(json.loads(found.out)["error"] + ": ")
    assert system_rows() == before


@pytest.mark.parametrize(
    "arguments", [["verify_audit"], ["install_schema"], ["materialize", "--once"], ["migrate"]], ids=" ".join
)
def test_command__without_a_database_says_so_in_one_sentence(tmp_path: Path, arguments: list[str]) -> None:
    command = manage(arguments, f"mysql://root@localhost/lockhouse?unix_socket={tmp_path / 'none.sock'}")
    assert command.wait() == 1
    assert "Start it (manage.py localdb start" in command.output
    assert "Traceback" not in command.output


@pytest.mark.parametrize(
    "arguments", [["work"], ["legacy_execute", "--pack-install-id", new_id()]], ids=lambda arguments: arguments[0]
)
def test_command__that_waits_for_its_database_ends_when_it_is_told_to(tmp_path: Path, arguments: list[str]) -> None:
    command = manage(arguments, f"mysql://root@localhost/lockhouse?unix_socket={tmp_path / 'none.sock'}")
    until_said(command, "work.database_away")
    command.process.terminate()
    # It would go on for five minutes.
    assert command.wait(90) == 1
    assert "database" in command.output.splitlines()[-1]
    assert "Traceback" not in command.output


def test_command__whose_output_nobody_reads_any_more_ends_without_a_word(tmp_path: Path) -> None:
    command = subprocess.Popen(
        [sys.executable, "manage.py", "help"],
        cwd=ROOT,
        env=environment(f"mysql://root@localhost/lockhouse?unix_socket={tmp_path / 'none.sock'}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdout is not None
    command.stdout.close()
    assert command.communicate()[1] == b""
    assert command.returncode == 128 + signal.SIGPIPE
