"""The audit trail: chained, append-only, and a verifier that names where it breaks."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, connections

from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.reads import verify_chain
from integration.audit.service import record_alone
from integration.values import Actor

ANA = Actor(user_id=7, name="ana", remote_addr="203.0.113.9", via="console")


def fact(reason: str = "stage names fixed", actor: Actor = ANA) -> AuditFact:
    return AuditFact(
        action="work_item.replayed",
        outcome=AuditOutcome.REFUSED,
        actor=actor,
        ref_kind="work_item",
        ref_id="0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0",
        reason=reason,
        facts={"code": "not_dead"},
    )


def change(sql: str, params: list[Any]) -> None:
    with connection.cursor() as cursor:
        assert cursor.execute(sql, params) == 1


@pytest.mark.django_db
def test_record__chains_each_entry_to_the_one_before():
    for number in range(5):
        record_alone(fact(f"reason {number}"))
    report = verify_chain()
    assert (report.entry_count, report.breaks, list(report.heads)) == (5, (), ["actor/7"])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("UPDATE console_auditentry SET reason = 'other' WHERE seq = %s", "content"),
        ("UPDATE console_auditentry SET actor_name = 'bob' WHERE seq = %s", "content"),
        ("UPDATE console_auditentry SET outcome = 'done' WHERE seq = %s", "content"),
        ("UPDATE console_auditentry SET remote_addr = NULL WHERE seq = %s", "content"),
        ("UPDATE console_auditentry SET at = at + INTERVAL 1 MICROSECOND WHERE seq = %s", "content"),
        ("UPDATE console_auditentry SET facts = '{}' WHERE seq = %s", "content"),
        ("UPDATE console_auditentry SET previous_digest = REPEAT('a', 64) WHERE seq = %s", "predecessor"),
    ],
)
def test_verify__names_the_entry_that_was_changed(sql: str, what: str):
    for _ in range(4):
        record_alone(fact())
    change(sql, [3])
    (found,) = verify_chain().breaks
    assert (found.stream, found.seq, found.what) == ("actor/7", 3, what)


@pytest.mark.django_db
def test_verify__names_the_gap_that_a_removed_entry_leaves():
    for _ in range(4):
        record_alone(fact())
    change("DELETE FROM console_auditentry WHERE seq = %s", [2])
    (found,) = verify_chain().breaks
    assert (found.seq, found.what) == (3, "missing")


@pytest.mark.django_db(transaction=True)
def test_record_alone__every_writer_of_one_stream_gets_a_place():
    writers, entries = 8, 40
    start = threading.Barrier(writers, timeout=60)
    faults: list[BaseException] = []

    def write() -> None:
        try:
            start.wait()
            for _ in range(entries):
                record_alone(fact())
        except BaseException as error:
            faults.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=write) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = verify_chain()
    assert (faults, report.entry_count, report.breaks) == ([], writers * entries, ())
