"""`manage.py connector_projection_cutover`: its answers in text and JSON, and what it says of bad input."""

from __future__ import annotations

import json

import pytest

from integration.errors import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE
from integration.management.commands import connector_projection_cutover as command
from integration.values import new_id
from tests.support.commands import Ended, run
from tests.support.old_projections import OldPack, audit_rows, history, protocol_rows
from tests.support.work import query

pytestmark = pytest.mark.django_db
SECRET = "s3cret-of-the-dsn"
NAME = "connector_projection_cutover"


@pytest.fixture(autouse=True)
def no_dsn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(command.DSN, raising=False)


@pytest.fixture
def pack(db) -> OldPack:
    pack = OldPack()
    pack.lane().coalesced()
    return pack


def cut(pack_id: str, *arguments: str) -> Ended:
    return run(NAME, "-pack-install-id", pack_id, "-timeout", "10m", *arguments)


@pytest.mark.evidence("P-16")
@pytest.mark.parametrize("dash", ["-", "--"])
def test_command__cuts_over_once_and_says_so_again(pack: OldPack, dash: str):
    pack_id = pack.settle()
    arguments = (f"{dash}pack-install-id", pack_id, f"{dash}timeout", "10m")
    first = run(NAME, *arguments)
    assert (first.code, first.err) == (0, "")
    assert first.out == f"{pack_id} cut over: the old protocol ended at ordinal 3\n"
    again = run(NAME, *arguments)
    assert again.code == 0
    assert again.out.startswith(f"{pack_id} cut over before, at ")
    assert audit_rows() == [("projection.cut_over", "done")]
    (entry,) = query("SELECT actor_name, via, ref_id, facts FROM console_auditentry")
    assert (entry["via"], entry["ref_id"]) == ("command", pack_id)
    assert json.loads(entry["facts"])["counts"] == {"events": 3, "inputs": 3, "indirect": 2}


def test_command__prints_one_document(pack: OldPack):
    pack_id = pack.settle()
    ready = cut(pack_id, "-json", "-dry-run")
    assert ready.code == 0
    assert {key: ready.document[key] for key in ("outcome", "cutoff", "findings", "events")} == {
        "outcome": "ready",
        "cutoff": 3,
        "findings": [],
        "events": 3,
    }
    assert protocol_rows() == []
    done, again = cut(pack_id, "--json").document, cut(pack_id, "--json", "--dry-run").document
    assert (done["outcome"], again["outcome"]) == ("cut_over", "unchanged")
    assert done["legacy_max_ordinal"] == again["legacy_max_ordinal"] == 3
    assert done["written_at"] == again["written_at"]


@pytest.mark.evidence("P-14")
def test_dry_run__lists_the_rows_of_each_reason_with_their_count(pack: OldPack):
    for number in range(2, 27):
        pack.lane(number).indirect()
    item = pack.lane(1).task(pack.lane(1).event(), "retry")
    pack_id = pack.settle(armed=False)
    before = history()

    text = cut(pack_id, "--dry-run")
    assert text.code == EXIT_REFUSED
    lines = text.out.splitlines()
    assert lines[0].startswith("fence_missing: No admission fence")
    assert lines[1].startswith("unended_work (1): ")
    assert lines[2].split() == ["work_item", item, "contact.changed", "ordinal", "29", "retry"]
    assert lines[3].startswith("missing_owner (25): ")
    assert lines[24] == "  and 5 more"
    assert lines[-2:] == ["29 Events, 29 inputs, 27 without a WorkItem", "A cutover would be refused."]

    document = cut(pack_id, "--dry-run", "--json").document
    assert [(one["reason"], one["count"], len(one["rows"])) for one in document["findings"]] == [
        ("fence_missing", 0, 0),
        ("unended_work", 1, 1),
        ("missing_owner", 25, 20),
    ]
    assert all(one["sentence"] and one["next_step"] for one in document["findings"])
    assert (protocol_rows(), audit_rows()) == ([], [])
    assert history() == before


def test_refusal__names_its_code_and_the_way_on(pack: OldPack):
    pack_id = pack.settle(armed=False)
    text = cut(pack_id)
    assert (text.code, text.out) == (EXIT_REFUSED, "")
    assert text.err.startswith("fence_missing: No admission fence over the whole namespace")
    assert "--dry-run" in text.err
    document = cut(pack_id, "--json")
    assert document.code == EXIT_REFUSED
    assert document.document["error"] == "fence_missing"


def test_output__holds_nothing_that_a_caller_wrote(pack: OldPack):
    lane = pack.lane()
    lane.lane = "canary-lane-4711"
    lane.indirect()
    pack_id = pack.settle(armed=False)
    pack.arm(Scope="*", Reason="canary-reason")
    said = cut(pack_id, "--dry-run").said + cut(pack_id, "--json").said
    assert "missing_owner" in said
    assert "canary" not in said


@pytest.mark.parametrize("timeout", ["0s", "0", "30", "soon", "-1s", "", "\udcff"])
def test_timeout__that_is_none_is_a_usage_error(pack: OldPack, timeout: str):
    ended = run(NAME, "-pack-install-id", pack.settle(), f"-timeout={timeout}")
    assert ended.code == EXIT_USAGE
    assert "timeout" in ended.err
    assert (protocol_rows(), audit_rows()) == ([], [])


@pytest.mark.parametrize("pack_id", ["", "nonsense", "0192F39E-5B1A-7D20-9C3E-0E1F6A7711D0", "\udcff", "9" * 10_000])
def test_id__that_is_none_is_a_usage_error(pack: OldPack, pack_id: str):
    pack.settle()
    ended = cut(pack_id)
    assert ended.code == EXIT_USAGE
    assert "pack-install-id" in ended.err
    assert audit_rows() == []


def test_id__must_be_given_and_must_be_somebodys():
    assert run(NAME).code == EXIT_USAGE
    assert cut(new_id()).code == EXIT_NOT_FOUND


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgres://u:{SECRET}@localhost/lockhouse",
        f"nonsense-{SECRET}",
        f"mysql://u:{SECRET}@localhost",
        f"mysql://u:{SECRET}@localhost:port/lockhouse",
        f"mysql://u:{SECRET}@[::1/lockhouse",
        f"root:{SECRET}@tcp(127.0.0.1:4000)/lockhouse",
    ],
)
def test_dsn__that_is_none_is_a_usage_error_that_quotes_nothing(monkeypatch: pytest.MonkeyPatch, dsn: str):
    monkeypatch.setenv(command.DSN, dsn)
    for arguments in ((), ("--json",)):
        ended = cut(new_id(), *arguments)
        assert ended.code == EXIT_USAGE
        assert command.DSN in ended.said
        assert SECRET not in ended.said


def test_progress__is_lines_now_and_then_and_a_bar_on_a_terminal(pack: OldPack, monkeypatch: pytest.MonkeyPatch):
    pack_id = pack.settle()
    quick = cut(pack_id, "--dry-run")
    assert quick.err == ""
    monkeypatch.setattr(command, "_LINE_SECONDS", 0.0)
    slow = cut(pack_id, "--dry-run")
    assert slow.err == "audited 3 Events of about 3\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = cut(pack_id, "--dry-run")
    assert (shown.code, shown.out) == (0, slow.out)
    assert "audited" not in shown.err
