"""A projection cutover that is killed, stopped or out of time: all of it is stored or nothing, and calling again tells."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections

from integration.errors import EXIT_ERROR
from tests.support.meetings import _waiters
from tests.support.old_projections import OldPack, audit_rows, history, protocol_rows
from tests.support.processes import Command, manage
from tests.support.sessions import Session

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE_COMMIT = ["before_insert", "after_insert", "before_commit"]
_LONGEST_SECONDS = 200.0


def prepare() -> str:
    pack = OldPack()
    pack.lane().coalesced()
    return pack.settle()


def start(pack_id: str, database_url: str, *arguments: str, **options: object) -> Command:
    words = ["connector_projection_cutover", "-pack-install-id", pack_id, "-timeout", "10m", "--json", *arguments]
    return manage(words, database_url, **options)


def document(command: Command) -> dict[str, object]:
    (line,) = [line for line in command.output.splitlines() if line.startswith('{"')][-1:]
    found: dict[str, object] = json.loads(line)
    return found


@pytest.mark.evidence("P-16")
@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_kill__before_the_commit__leaves_nothing_and_the_next_one_writes(database_url: str, tmp_path: Path, point: str):
    pack_id = prepare()
    before = history()
    killed = start(pack_id, database_url, failpoint=f"projection_cutover.{point}", folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL, killed.output
    assert killed.fired() == f"projection_cutover.{point}"
    assert (protocol_rows(), audit_rows()) == ([], [])

    again = start(pack_id, database_url)
    assert again.wait() == 0, again.output
    assert document(again)["outcome"] == "cut_over"
    assert len(protocol_rows()) == 1
    assert history() == before


@pytest.mark.evidence("P-16")
def test_kill__after_the_commit__leaves_the_checkpoint_that_the_next_one_returns(database_url: str, tmp_path: Path):
    pack_id = prepare()
    killed = start(pack_id, database_url, failpoint="projection_cutover.after_commit", folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL, killed.output
    assert killed.fired() == "projection_cutover.after_commit"
    rows = protocol_rows()
    assert len(rows) == 1

    again = start(pack_id, database_url)
    assert again.wait() == 0, again.output
    assert document(again)["outcome"] == "unchanged"
    assert protocol_rows() == rows
    assert audit_rows() == [("projection.cut_over", "done")]


@pytest.fixture
def held(transactional_db: None) -> Iterator[Session]:
    """Hold the lock of every incarnation."""
    session = Session(str(connections["default"].settings_dict["NAME"]))
    session.begin()
    yield session
    session.rollback()
    session.close()


def hold_pack(session: Session, pack_id: str) -> None:
    session.rows("SELECT 1 FROM _System_ConnectorPackInstall WHERE PackInstallId = %s FOR UPDATE", [pack_id])


def await_waiter(command: Command) -> None:
    """Wait until the database shows that somebody waits for an incarnation."""
    name = str(connections["default"].settings_dict["NAME"])
    session = Session(name)
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not _waiters(session, name, "_System_ConnectorPackInstall"):
        assert time.monotonic() < deadline, "nobody waits"
        assert command.process.poll() is None, command.heard
        # InnoDB keeps these tables for as long as they are read within 0.1 s of each other.
        time.sleep(0.2)
    session.close()


def test_timeout__while_another_holds_the_pack__is_kept_and_leaves_nothing(database_url: str, held: Session):
    pack_id = prepare()
    before = history()
    hold_pack(held, pack_id)
    command = start(pack_id, database_url, "-timeout", "3s", CONNECTOR_CUTOVER_DSN=database_url)
    assert command.wait() == EXIT_ERROR, command.output
    assert document(command)["error"] == "timed_out"
    assert (protocol_rows(), audit_rows()) == ([], [])
    assert history() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal__while_another_holds_the_pack__leaves_nothing(database_url: str, held: Session, number: signal.Signals):
    pack_id = prepare()
    before = history()
    hold_pack(held, pack_id)
    command = start(pack_id, database_url, CONNECTOR_CUTOVER_DSN=database_url)
    await_waiter(command)
    command.process.send_signal(number)
    assert command.wait() == EXIT_ERROR, command.output
    assert document(command)["error"] == "stopped"
    assert (protocol_rows(), audit_rows()) == ([], [])
    assert history() == before
    held.rollback()
    assert start(pack_id, database_url).wait() == 0
    assert len(protocol_rows()) == 1
