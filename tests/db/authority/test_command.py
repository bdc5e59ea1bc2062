"""`manage.py dlq`: what each action answers in text and in JSON, and with which exit code."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import InterfaceError, OperationalError

from integration import errors
from integration.authority import reads, service
from tests.support.authority import BORIS, MARIA, World, audit_entries, system_rows
from tests.support.commands import run
from tests.support.dlq import ACTIONS, FORMS, children, dlq, operator

pytestmark = pytest.mark.django_db
HOSTILE = [
    "",
    "nonsense",
    "' OR 1=1 --",
    "0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0;",
    "event:work_item:0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0",
    "pack:0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0",
    "0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0\x00",
    "٠192f39e-5b1a-7d20-9c3e-0e1f6a7711d0",
    "\udcff",
    "9" * 10_000,
]


def test_list__says_among_how_many_rows_a_filter_was_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "NARROWED_WINDOW", 2)
    world, name = World(), operator("vera", "Viewer")
    for _ in range(3):
        world.work()
    ended = dlq("list", name, "", "--provider", "outreach", "--count")
    assert ended.out.splitlines()[-1] == "2 of the 2 rows that died last match."


def test_list__names_the_dead_rows_and_the_way_to_older_ones():
    world, name = World(), operator("vera", "Viewer")
    refs = {world.work().id for _ in range(3)}
    world.work("succeeded")
    ended = dlq("list", name, "", "--count")
    assert (ended.code, ended.err) == (0, "")
    assert {line.split("\t")[0] for line in ended.out.splitlines()[:-1]} == refs
    assert ended.out.splitlines()[-1] == "3 rows match."

    first = dlq("list", name, "", "--json", "--limit", "2").document
    assert {"rows", "rejected", "newer", "older", "searched_back_to", "is_search_cut"} == set(first)
    last = dlq("list", name, "", "--json", "--limit", "2", "--cursor", first["older"], "--count").document
    assert {row["ref"]["id"] for row in first["rows"] + last["rows"]} == refs
    assert (len(first["rows"]), last["older"]) == (2, None)
    read_at = datetime.fromisoformat(last["count"].pop("read_at"))
    assert last["count"] == {"count": 3, "is_capped": False, "searched": None}
    assert abs(read_at - datetime.now(UTC)) < timedelta(minutes=5)


def test_list__says_that_nothing_matches():
    World().work()
    ended = dlq("list", operator("vera", "Viewer"), "", "--namespace", "elsewhere")
    assert (ended.code, ended.out) == (0, "No dead rows match.\n")


@pytest.mark.parametrize(
    "options",
    [
        ("--cursor", "junk"),
        ("--limit", "0"),
        ("--limit", "501"),
        ("--limit", "many"),
        ("--died-after", "yesterday"),
        ("--died-after", "2026-01-31T12:00:00"),
        ("--owner", "nobody"),
        ("--org", "ü"),
        ("--replayed", "perhaps"),
        ("--min-attempts", "x"),
        ("--namespace", "\udcff"),
    ],
)
def test_list__refuses_a_filter_that_means_nothing(options: tuple[str, str]):
    ended = dlq("list", operator("vera", "Viewer"), "", *options)
    assert ended.code == 2
    assert ended.err != ""
    assert ended.out == ""


def test_show__tells_the_owner_and_why():
    world, name = World(), operator("vera", "Viewer")
    ref = world.work()
    ended = dlq("show", name, ref)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"{ref}  dead  acme-sales  prospect.updated\nowner work_item: ")
    found = dlq("show", name, ref.id, "--json").document
    assert (found["row"]["work_id"], found["row"]["state"], found["owner"]["kind"]) == (ref.id, "dead", "work_item")
    assert {"rule", "code", "sentence", "facts"} == set(found["owner"]["why"])


@pytest.mark.parametrize("action", ["plan", "replay --dry-run"])
def test_plan__shows_every_rule_and_writes_nothing(action: str):
    world, name = World(), operator("rolf", "Replayer")
    ref = world.work()
    before = system_rows()
    ended = dlq(action, name, ref)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert [line[:4] for line in lines if not line.startswith(("locks", "note", "A "))] == ["ok  "] * len(
        service.plan(ref, MARIA).verdicts
    )
    assert lines[-2:] == ["locks: PACK, EVENT, WORK_ITEM", "A replay would go through now."]
    found = dlq(action, name, ref, "--json").document
    assert (found["refusal"], found["ref"]["id"]) == (None, ref.id)
    assert {verdict["ruling"] for verdict in found["verdicts"]} == {"ok"}
    assert found["lock_order"] == ["PACK", "EVENT", "WORK_ITEM"]
    assert system_rows() == before
    assert audit_entries() == []


@pytest.mark.parametrize("action", ["plan", "replay", "replay --dry-run"])
def test_refusal__is_exit_3_with_its_code(action: str):
    world, name = World(), operator("rolf", "Replayer")
    ref = world.work("succeeded")
    before = system_rows()
    ended = dlq(action, name, ref)
    assert ended.code == 3
    assert "not_dead" in ended.said
    found = dlq(action, name, ref, "--json")
    assert found.code == 3
    refusal = found.document if action == "replay" else found.document["refusal"]
    assert (refusal["code"], refusal["winner"]) == ("not_dead", None)
    assert refusal["next_step"] != ""
    assert system_rows() == before


@pytest.mark.parametrize("action", ["plan", "replay"])
def test_route_version__that_is_not_live_is_refused(action: str):
    world, name = World(), operator("rolf", "Replayer")
    ref = world.work()
    assert dlq(action, name, ref, "--route-version", "7").code == 3
    assert children() == []
    assert dlq(action, name, ref, "--route-version", "1").code == 0


def test_replay__makes_one_child_and_answers_the_same_request_again():
    world, name = World(), operator("rolf", "Replayer")
    ref = world.work()
    done = dlq("replay", name, ref, "--json", "--idempotency-key", "k-1")
    (child,) = children()
    assert done.code == 0
    found = done.document
    assert (found["outcome"], found["child_work_id"], found["is_repeat"]) == ("replayed", child, False)
    again = dlq("replay", name, ref, "--idempotency-key", "k-1")
    assert again.code == 0
    assert again.out == f"replayed {ref}: child {child} (this request was answered before)\n"
    (entry,) = audit_entries()
    assert (entry["actor_name"], entry["via"], entry["outcome"]) == ("rolf", "command", "done")
    assert entry["reason"] == "The stage exists now"


def test_replay__of_a_row_that_was_replayed_names_the_winner():
    world, name = World(), operator("rolf", "Replayer")
    ref = world.work()
    done = service.replay(ref, actor=MARIA, reason="first")
    ended = dlq("replay", name, ref)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("already_replayed: ")
    assert f"won by maria at {done.replayed_at:%Y-%m-%d %H:%M:%SZ}, child {done.child_work_id}" in ended.err
    found = dlq("replay", name, ref, "--json").document
    assert (found["outcome"], found["code"]) == ("refused", "already_replayed")
    assert found["winner"] == {
        "actor_name": "maria",
        "at": done.replayed_at.isoformat(),
        "child_work_id": done.child_work_id,
        "child_event_id": done.child_event_id,
    }
    assert children() == [done.child_work_id]


@pytest.mark.parametrize("form", FORMS)
def test_replay__that_loses_the_race_names_the_winner(monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]):
    world, name = World(), operator("rolf", "Replayer")
    ref = world.work()
    real = service.gather.read_facts

    def overtaken(*arguments, **options):
        monkeypatch.setattr(service.gather, "read_facts", real)
        found = real(*arguments, **options)
        service.replay(ref, actor=BORIS, reason="first")
        return found

    monkeypatch.setattr(service.gather, "read_facts", overtaken)
    ended = dlq("replay", name, ref, *form)
    (child,) = children()
    assert ended.code == 3
    if form:
        found = ended.document
        assert (found["code"], found["winner"]["actor_name"], found["winner"]["child_work_id"]) == (
            "lost_race",
            "boris",
            child,
        )
    else:
        assert ended.err.startswith("lost_race: ")
        assert f"child {child}" in ended.err
    assert audit_entries()[-1]["outcome"] == "lost"


@pytest.mark.parametrize(
    "reason", ["", "   ", "x" * 501, "two\nlines", "a\x00b", "right \u202e to left", "\udcff", "tab\tbed", "\u200b"]
)
def test_replay__refuses_a_reason_that_an_audit_page_could_not_show(reason: str):
    world, name = World(), operator("rolf", "Replayer")
    ref = world.work()
    before = system_rows()
    ended = dlq("replay", name, ref, f"--reason={reason}", "--reason", reason)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("invalid_input: ")
    found = dlq("replay", name, ref, "--json", "--reason", reason)
    assert (found.code, found.document["error"], found.document["field"]) == (2, "invalid_input", "reason")
    assert (system_rows(), audit_entries()) == (before, [])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["replay"],
        ["replay", "--as", "rolf", "{ref}"],
        ["replay", "--reason", "x", "{ref}"],
        ["replay", "--reason", "x", "--as", "rolf"],
        ["show", "{ref}"],
        ["bury", "--as", "rolf", "{ref}"],
        ["plan", "--as", "rolf", "{ref}", "--force"],
    ],
)
def test_usage__that_lacks_something_is_exit_2(arguments: list[str]):
    world = World()
    operator("rolf", "Replayer")
    ref = world.work()
    ended = run("dlq", *(text.format(ref=ref) for text in arguments))
    assert (ended.code, ended.out) == (2, "")
    assert "usage: " in ended.err
    assert children() == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (OperationalError(2003, "Can't connect to server on 'canary-server'"), "database_unavailable"),
        (InterfaceError(0, "canary-server"), "database_unavailable"),
        (errors.LockTimeout(), "lock_timeout"),
    ],
)
def test_trouble__of_the_database_is_exit_1_without_the_drivers_words(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception, code: str, form: tuple[str, ...]
):
    name, ref = operator("rolf", "Replayer"), World().work()

    def fail(*_arguments, **_options):
        raise trouble

    for module, function in ((reads, "list_dead"), (reads, "get_detail"), (service, "plan"), (service, "replay")):
        monkeypatch.setattr(module, function, fail)
    for action in ACTIONS:
        ended = dlq(action, name, ref, *form)
        assert ended.code == 1
        assert "canary-server" not in ended.said
        if form:
            assert ended.document["error"] == code
        else:
            assert ended.err.startswith(f"{code}: ")
    assert children() == []


def test_operator__whose_name_is_no_text_is_a_usage_error():
    ended = dlq("list", "\udcff", "", "--json")
    assert (ended.code, ended.document["error"], ended.document["field"]) == (2, "invalid_input", "operator")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("action", ACTIONS[1:])
def test_unknown_id__is_exit_4(action: str, form: tuple[str, ...]):
    World().work()
    ended = dlq(action, operator("rolf", "Replayer"), uuid.uuid4(), *form)
    assert ended.code == 4
    assert "not_found" in ended.said


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("action", ACTIONS[1:])
def test_hostile_id__is_a_usage_error_that_is_not_repeated(action: str, hostile: str):
    World().work()
    name = operator("rolf", "Replayer")
    ended = dlq(action, name, hostile)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("invalid_input: ")
    assert len(hostile) < 5 or hostile not in ended.err
    assert dlq(action, name, hostile, "--json").document["error"] == "invalid_input"
    assert children() == []
