"""Replaying a dead row that a WorkItem owns: what is written, what stays, and in which order."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from django.db import connections

from integration import errors
from integration.audit.reads import verify_chain
from integration.authority import making, reads, service
from integration.authority.values import Ref, RefKind, Refused, Replayed
from integration.ingress.crypto import SealedColumn, open_sealed, row_aad
from integration.states import EventStatus
from integration.storage.sql import events, packs, work_items
from integration.storage.statements import LockRank, Statement
from integration.values import new_id
from tests.support.authority import BORIS, MARIA, PAYLOAD, World, audit_entries, change, rows_of, system_rows

pytestmark = pytest.mark.django_db
ITEMS, EVENTS = "_System_ConnectorWorkItem", "_System_ConnectorEvent"


def replay(ref: Ref, **over: Any) -> Replayed:
    outcome = service.replay(ref, **{"actor": MARIA, "reason": "The stage exists now", **over})
    assert isinstance(outcome, Replayed), outcome
    return outcome


def refused(ref: Ref, **over: Any) -> Refused:
    outcome = service.replay(ref, **{"actor": MARIA, "reason": "The stage exists now", **over})
    assert isinstance(outcome, Refused), outcome
    return outcome


def one(table: str, where: str, *params: Any) -> dict[str, Any]:
    (row,) = rows_of(table, where, *params)
    return row


def test_replay__makes_one_pending_child_under_the_live_route():
    world = World()
    ref = world.work(event={"TargetLane": "crm:9"})
    done = replay(ref)
    event = one(EVENTS, "EventId = %s", done.child_event_id)
    item = one(ITEMS, "WorkId = %s", done.child_work_id)
    original = one(EVENTS, "EventId = %s", done.original_event_id)
    assert (item["State"], item["Attempt"], item["EventId"]) == ("pending", 0, event["EventId"])
    assert (event["Status"], event["ExecutionOwner"], event["ReplayOfEventId"]) == (
        "pending",
        "event",
        original["EventId"],
    )
    assert open_sealed(event["Payload"], row_aad(SealedColumn.EVENT_PAYLOAD, event["EventId"])) == PAYLOAD
    assert event["PayloadHash"] == hashlib.sha256(PAYLOAD).hexdigest()
    assert event["IdempotencyKey"] == f"replay:{original['EventId']}"
    assert (item["QueueClass"], item["MaxAttempts"], item["PayloadSchemaVersion"]) == ("bulk", 7, 2)
    assert (event["LaneOrdinal"], item["LaneOrdinal"], done.lane_ordinal) == (1000, 1000, 1000)
    assert one("_System_ConnectorPackInstall", "PackInstallId = %s", world.pack_id)["NextLaneOrdinal"] == 1001
    kept = (
        "Provider",
        "EventKind",
        "SourceLane",
        "TargetLane",
        "DeliveryId",
        "DeliverySequence",
        "OccurredAt",
        "ReceivedAt",
    )
    assert {name: event[name] for name in kept} == {name: original[name] for name in kept}


@pytest.mark.evidence("A-22")
def test_replay__changes_nothing_of_the_original_but_its_replay_time():
    world = World()
    ref = world.work(
        LeaseOwner=None,
        Outcome="dead",
        BlockedOn="x",
        CancelRequestedBy="delia",
        event={"Status": "failed", "RetryCount": 2},
    )
    before = one(ITEMS, "WorkId = %s", ref.id)
    event_before = one(EVENTS, "EventId = %s", before["EventId"])
    done = replay(ref)
    after = one(ITEMS, "WorkId = %s", ref.id)
    assert {name: value for name, value in after.items() if before[name] != value} == {
        "ReplayedAt": done.replayed_at.replace(tzinfo=None)
    }
    assert one(EVENTS, "EventId = %s", before["EventId"]) == event_before
    assert one(ITEMS, "WorkId = %s", done.child_work_id)["ReplayOfWorkId"] == ref.id


@pytest.mark.evidence("A-33")
def test_replay__commits_both_lineages_and_leaves_the_events_lifecycle_alone():
    world = World()
    ref = world.work(
        event={
            "Status": "processing",
            "RetryCount": 4,
            "ClaimToken": "t",
            "ClaimedBy": "p",
            "LastError": "e",
            "NextRetryAt": world.now,
            "ClaimedUntil": world.now,
            "TerminalAt": world.now,
        }
    )
    event_id = one(ITEMS, "WorkId = %s", ref.id)["EventId"]
    before = one(EVENTS, "EventId = %s", event_id)
    done = replay(ref)
    assert one(EVENTS, "EventId = %s", event_id) == before
    assert one(EVENTS, "EventId = %s", done.child_event_id)["ReplayOfEventId"] == event_id
    assert one(ITEMS, "WorkId = %s", done.child_work_id)["ReplayOfWorkId"] == ref.id


@pytest.mark.evidence("A-33")
@pytest.mark.parametrize("half", ["INSERT_REPLAY_EVENT", "INSERT_REPLAY_WORK_ITEM"])
def test_replay__commits_no_lineage_when_one_half_cannot_be_written(monkeypatch: pytest.MonkeyPatch, half: str):
    world = World()
    ref = world.work()
    before = system_rows()
    break_statement(monkeypatch, half)
    assert refused(ref).code == "materialization_failed"
    assert system_rows() == before


@pytest.mark.evidence("A-16")
@pytest.mark.parametrize("owner", ["event", "work_item"])
@pytest.mark.parametrize("status", [status for status in EventStatus if status is not EventStatus.DEAD])
def test_replay__does_not_look_at_the_events_status(status: EventStatus, owner: str):
    world = World()
    ref = world.work(event={"Status": status.value, "ExecutionOwner": owner, "TerminalAt": world.now})
    assert service.plan(ref, MARIA).refusal is None
    done = replay(ref)
    assert one(ITEMS, "WorkId = %s", done.child_work_id)["ReplayOfWorkId"] == ref.id
    assert one(EVENTS, "EventId = %s", done.original_event_id)["Status"] == status.value


@pytest.mark.evidence("A-17")
def test_replay__stops_at_a_replay_that_the_event_saw_before_the_cut():
    world = World()
    ref = world.work(event={"ReplayedAt": world.now, "Status": "dead", "TerminalAt": world.now})
    before = system_rows()
    assert (service.plan(ref, MARIA).refusal.code, refused(ref).code) == ("event_replay_fence", "event_replay_fence")
    assert system_rows() == before


def test_replay__of_a_child_that_died_goes_on_from_the_child():
    world = World()
    ref = world.work()
    first = replay(ref)
    change(
        f"UPDATE {ITEMS} SET State = 'dead', Attempt = 1, TerminalAt = UTC_TIMESTAMP(6) WHERE WorkId = %s",
        first.child_work_id,
    )
    second = replay(Ref(id=first.child_work_id))
    chain = reads.lineage(Ref(id=first.child_work_id))
    assert [node.work_id for node in chain.ancestors] == [ref.id]
    assert [node.work_id for node in chain.descendants] == [second.child_work_id]
    assert [node.work_id for node in reads.lineage(ref).descendants] == [first.child_work_id, second.child_work_id]


def test_replay__takes_an_event_id_for_the_work_item_that_owns_it():
    world = World()
    ref = world.work()
    event_id = one(ITEMS, "WorkId = %s", ref.id)["EventId"]
    assert replay(Ref(id=event_id)).original == ref


def test_replay__goes_to_the_incarnation_that_is_active_now():
    world = World()
    ref = world.work()
    change("UPDATE _System_ConnectorPackInstall SET Status = 'retired', ActiveKey = NULL")
    change("UPDATE _System_ConnectorRoute SET Status = 'swept', LiveKey = NULL")
    pack_id, route_id = new_id(), new_id()
    world.pack(pack_id, incarnation=2)
    world.route(route_id, pack_id, version=2)
    done = replay(ref, route=2)
    item = one(ITEMS, "WorkId = %s", done.child_work_id)
    assert (item["PackInstallId"], item["RouteId"], item["RouteVersion"], item["CatalogRevision"]) == (
        pack_id,
        route_id,
        2,
        2,
    )
    assert one(ITEMS, "WorkId = %s", ref.id)["PackInstallId"] == world.pack_id


def test_replay__is_told_in_the_trail_with_actor_reason_and_child():
    world = World()
    ref = world.work()
    done = replay(ref, reason="  The stage exists now  ")
    (entry,) = audit_entries()
    facts = json.loads(entry["facts"])
    assert (entry["action"], entry["outcome"], entry["ref_id"]) == ("work_item.replayed", "done", ref.id)
    assert (entry["actor_name"], entry["remote_addr"], entry["via"]) == ("maria", "192.0.2.4", "console")
    assert (entry["reason"], entry["stream"]) == ("The stage exists now", f"pack/{world.pack_id}")
    assert (facts["child_work_id"], facts["child_event_id"]) == (done.child_work_id, done.child_event_id)
    assert verify_chain().breaks == ()


@pytest.mark.parametrize("text", ["", "   ", "x" * 501, "two\nlines", "nul\x00", "bell\x07", "\u202etxt", "\ud800"])
def test_replay__refuses_a_reason_that_an_audit_page_could_not_show(text: str):
    world = World()
    ref = world.work()
    before = system_rows()
    with pytest.raises(errors.InvalidInput) as caught:
        service.replay(ref, actor=MARIA, reason=text)
    assert caught.value.data_fields["field"] == "reason"
    assert (system_rows(), audit_entries()) == (before, [])


@pytest.mark.parametrize("text", ["x", "x" * 500, "Étape créée — 段階 🚀", "<b>'; DROP TABLE x; --"])
def test_replay__keeps_any_other_reason_as_it_is(text: str):
    world = World()
    replay(world.work(), reason=text)
    assert audit_entries()[0]["reason"] == text


def test_replay__gives_the_same_request_the_same_answer_and_writes_nothing():
    world = World()
    ref = world.work()
    done = replay(ref, idempotency_key="k-1")
    before, trail = system_rows(), audit_entries()
    again = replay(ref, idempotency_key="k-1")
    assert again == dataclasses.replace(done, is_repeat=True)
    assert (system_rows(), audit_entries()) == (before, trail)


@pytest.mark.parametrize(("actor", "key"), [(BORIS, "k-1"), (MARIA, "k-2"), (MARIA, None)])
def test_replay__tells_another_request_who_was_first(actor, key):
    world = World()
    ref = world.work()
    done = replay(ref, idempotency_key="k-1")
    before = system_rows()
    answer = refused(ref, actor=actor, idempotency_key=key)
    assert (answer.code, answer.winner.actor_name) == ("already_replayed", "maria")
    assert (answer.winner.child_work_id, answer.winner.child_event_id) == (done.child_work_id, done.child_event_id)
    assert answer.winner.at == done.replayed_at
    assert system_rows() == before
    assert audit_entries()[-1]["outcome"] == "refused"


def test_replay__that_loses_between_its_reading_and_its_lock_is_a_lost_race(monkeypatch: pytest.MonkeyPatch):
    world = World()
    ref = world.work()
    real = service.gather.read_facts
    done: list[Replayed] = []

    def overtaken(*arguments, **options):
        monkeypatch.setattr(service.gather, "read_facts", real)
        found = real(*arguments, **options)
        done.append(replay(ref))
        return found

    monkeypatch.setattr(service.gather, "read_facts", overtaken)
    answer = refused(ref, actor=BORIS)
    assert (answer.code, answer.winner.actor_name) == ("lost_race", "maria")
    assert answer.winner.child_work_id == done[0].child_work_id
    assert len(rows_of(ITEMS)) == 2
    assert [entry["outcome"] for entry in audit_entries()] == ["done", "lost"]


@pytest.mark.evidence("A-25")
def test_replay__locks_the_pack_then_the_event_then_the_work_item(monkeypatch: pytest.MonkeyPatch):
    world = World()
    ref = world.work()
    traces: list[list[LockRank]] = []
    real = service._replay_locked

    def traced(tx, *arguments):
        outcome = real(tx, *arguments)
        traces.append(list(tx.lock_trace))
        return outcome

    monkeypatch.setattr(service, "_replay_locked", traced)
    with Recorder() as seen:
        replay(ref)
    assert traces == [[LockRank.PACK, LockRank.EVENT, LockRank.WORK_ITEM]]
    assert service.plan(ref, MARIA).lock_order == tuple(rank.name for rank in traces[0])
    assert [table for table, _ in seen.locking_reads] == ["_System_ConnectorPackInstall", EVENTS, ITEMS]
    writes = [(verb, table) for verb, table in seen.writes if table.startswith("_System_")]
    assert writes == [
        ("UPDATE", ITEMS),
        ("UPDATE", "_System_ConnectorPackInstall"),
        ("INSERT", EVENTS),
        ("INSERT", ITEMS),
    ]


class Recorder:
    """What was sent to the database, in order, below every layer of this program."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self._wrapper = connections["default"].execute_wrapper(self._note)

    def _note(self, execute, sql, params, many, context):
        self.statements.append(" ".join(sql.split()))
        return execute(sql, params, many, context)

    def __enter__(self):
        self._wrapper.__enter__()
        return self

    def __exit__(self, *arguments):
        self._wrapper.__exit__(*arguments)

    @property
    def locking_reads(self) -> list[tuple[str, str]]:
        found = [sql for sql in self.statements if sql.endswith("FOR UPDATE")]
        return [(sql.split(" FROM ", 1)[1].split()[0], sql) for sql in found]

    @property
    def writes(self) -> list[tuple[str, str]]:
        found = [sql.split() for sql in self.statements if sql.split()[0] in {"INSERT", "UPDATE", "DELETE"}]
        return [(words[0], words[2] if words[0] == "INSERT" else words[1]) for words in found]


def break_statement(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make the database itself refuse one statement: its row's key is taken."""
    module = events if hasattr(events, name) else work_items
    real: Statement = getattr(module, name)
    key = "%(replay_of_event_id)s" if name == "INSERT_REPLAY_EVENT" else "%(replay_of_work_id)s"
    column = "EventId" if name == "INSERT_REPLAY_EVENT" else "WorkId"
    placeholder = "%(event_id)s" if column == "EventId" else "%(work_id)s"
    broken = dataclasses.replace(real, text=real.text.replace(placeholder, key, 1))
    assert broken.text != real.text
    monkeypatch.setattr(module, name, broken)


@pytest.mark.evidence("A-29")
def test_replay__rolls_back_when_the_event_cannot_be_inserted(monkeypatch: pytest.MonkeyPatch):
    world = World()
    ref = world.work()
    before = system_rows()
    break_statement(monkeypatch, "INSERT_REPLAY_EVENT")
    assert refused(ref).code == "materialization_failed"
    assert system_rows() == before
    monkeypatch.undo()
    replay(ref)


@pytest.mark.evidence("A-30")
def test_replay__rolls_back_when_the_work_item_cannot_be_inserted(monkeypatch: pytest.MonkeyPatch):
    world = World()
    ref = world.work()
    before = system_rows()
    break_statement(monkeypatch, "INSERT_REPLAY_WORK_ITEM")
    assert refused(ref).code == "materialization_failed"
    assert system_rows() == before
    monkeypatch.undo()
    replay(ref)


@pytest.mark.parametrize("statement", ["RESERVE_REPLAY", "ADVANCE_LANE_ORDINAL"])
def test_replay__rolls_back_when_a_guarded_write_matches_nothing(monkeypatch: pytest.MonkeyPatch, statement: str):
    world = World()
    ref = world.work()
    before = system_rows()
    module = work_items if statement == "RESERVE_REPLAY" else packs
    real = getattr(module, statement)
    monkeypatch.setattr(module, statement, dataclasses.replace(real, text=real.text + " AND 1 = 0"))
    if statement == "RESERVE_REPLAY":
        assert refused(ref).code == "lost_race"
    else:
        with pytest.raises(errors.UnexpectedRowCount):
            service.replay(ref, actor=MARIA, reason="x")
    assert system_rows() == before


def test_replay__rolls_back_when_the_trail_cannot_be_written(monkeypatch: pytest.MonkeyPatch):
    world = World()
    ref = world.work()
    before = system_rows()

    def fail(*_):
        raise errors.InvariantBroken

    monkeypatch.setattr(making, "record", fail)
    with pytest.raises(errors.InvariantBroken):
        service.replay(ref, actor=MARIA, reason="x")
    assert (system_rows(), audit_entries()) == (before, [])


def test_replay__refuses_a_payload_that_does_not_open():
    world = World()
    other = world.event()
    ref = world.work()
    sealed = one(EVENTS, "EventId = %s", other)["Payload"]
    change(f"UPDATE {EVENTS} SET Payload = %s WHERE EventId = %s", sealed, one(ITEMS, "WorkId = %s", ref.id)["EventId"])
    before = system_rows()
    answer = refused(ref)
    assert (answer.code, answer.facts["cause"]) == ("materialization_failed", "seal_broken")
    assert system_rows() == before


def test_replay__answers_with_the_kind_of_reference_that_was_replayed():
    world = World()
    assert replay(world.work()).original.kind is RefKind.WORK_ITEM
