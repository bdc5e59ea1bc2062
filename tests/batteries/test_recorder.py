"""The recorder sees what must not be written; each rule has a statement that breaks it."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from integration.storage import db
from integration.storage.db import Tx
from integration.storage.sql import packs, work_items
from tests.support import recorder

WORK = "SELECT WorkId FROM _System_ConnectorWorkItem"
PACK = "SELECT PackInstallId FROM _System_ConnectorPackInstall"
BROKEN = [
    (f"{WORK} FOR UPDATE SKIP LOCKED", True, "SKIP LOCKED"),
    (f"{WORK} LOCK IN SHARE MODE", True, "a share lock"),
    (f"{WORK} FOR SHARE", True, "a share lock"),
    (f"{WORK} FOR UPDATE", False, "a locked read outside a transaction"),
    (f"{WORK} WHERE (TerminalAt, WorkId) < ('a', 'b')", True, "a row constructor"),
    (f"{WORK} WHERE (TerminalAt, WorkId) IN (('a', 'b'))", True, "a row constructor"),
    ("INSERT INTO _System_ConnectorEvent (EventId) VALUES (%s) RETURNING EventId", True, "RETURNING"),
    ("CREATE TABLE t (id INT)", True, "DDL in a transaction"),
]
SOUND = [
    (f"{WORK} FOR UPDATE", True),
    (f"{WORK} WHERE State IN ('pending', 'retry') AND COALESCE(Attempt, 0) < 3", False),
    (f"{WORK} WHERE FlowName = 'for share, (a, b) < (c), skip locked'", False),
    ("INSERT INTO _System_ConnectorEvent (EventId, OrgId) VALUES (%s, %s)", False),
    ("CREATE TABLE t (id INT)", False),
    ("INSERT INTO auth_user (id) VALUES (1) RETURNING auth_user.id", True),
]


@pytest.mark.parametrize(("text", "in_transaction", "what"), BROKEN)
def test_recorder__names_what_is_wrong(text: str, in_transaction: bool, what: str):
    assert recorder.banned_in(text, in_transaction=in_transaction, in_unit=in_transaction) == [what]


@pytest.mark.parametrize(("text", "in_transaction"), SOUND)
def test_recorder__accepts_what_both_databases_honour(text: str, in_transaction: bool):
    assert recorder.banned_in(text, in_transaction=in_transaction, in_unit=in_transaction) == []


def test_recorder__wants_the_programs_own_locked_reads_in_a_transaction_of_the_door():
    text = packs.LOCK_PACK.text
    assert recorder.banned_in(text, in_transaction=True, in_unit=False) == ["a locked read outside a transaction"]
    assert recorder.banned_in(text, in_transaction=True, in_unit=True) == []


@pytest.mark.breaks_the_rules("it shows that the recorder sees what reaches the driver")
@pytest.mark.django_db(transaction=True)
def test_recorder__sees_what_reaches_the_driver():
    seen = len(recorder._recorder.violations)
    with connection.cursor() as cursor:
        cursor.execute(f"{PACK} WHERE (PackInstallId, OrgId) = ('a', 'b')")
    assert len(recorder._recorder.violations) == seen + 1


@pytest.mark.breaks_the_rules("it locks a WorkItem before a pack, with the run-time guard taken away")
@pytest.mark.django_db(transaction=True)
def test_recorder__sees_locks_against_the_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Tx, "_before", lambda *_: None)
    monkeypatch.setattr(Tx, "_guard", lambda _self, execute, *call: execute(*call))
    seen = len(recorder._recorder.violations)

    def unit(tx: Tx) -> None:
        tx.fetch_all(work_items.LOCK_WORK_ITEMS_OF_EVENT, {"event_id": "x"})
        tx.fetch_all(packs.LOCK_PACK, {"pack_install_id": "x"})

    db.run(unit, name="tests.inverted")
    (found,) = recorder._recorder.violations[seen:]
    assert found.startswith("locks _System_ConnectorPackInstall after _System_ConnectorWorkItem")


@pytest.mark.django_db(transaction=True)
def test_recorder__accepts_a_row_that_is_held_already():
    seen = len(recorder._recorder.violations)
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        for text in (PACK, WORK, PACK):
            cursor.execute(f"{text} WHERE OrgId = 'x' FOR UPDATE")
    assert recorder._recorder.violations[seen:] == []
