"""SIGKILL between the receipt and the answer, and between the receipt and the work."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.support import webhooks
from tests.support.processes import manage, web_server
from tests.support.webhooks import send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("O-02")]


def kill_server(pid: int) -> None:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for victim in (pid, *map(int, children)):
        os.kill(victim, signal.SIGKILL)


@pytest.mark.parametrize(("failpoint", "stored"), [("receipt.before_store", 0), ("receipt.after_store", 1)])
def test_kill__around_the_receipt__gives_no_200_and_loses_nothing(
    database_url: str, tmp_path: Path, failpoint: str, stored: int
):
    webhooks.activate()
    body = webhooks.deal()
    with web_server(database_url, failpoint=failpoint, folder=tmp_path) as (command, base):
        assert send(base, body, "d-1") == 0
        assert command.fired() == failpoint
        assert len(webhooks.rows("IngressReceipt")) == stored
    with web_server(database_url) as (_, base):
        assert [send(base, body, "d-1") for _ in range(2)] == [200, 200]
    assert len(webhooks.rows("IngressReceipt")) == 1
    assert manage(["materialize", "--once"], database_url).wait() == 0
    assert len(webhooks.rows("WorkItem")) == 1


def test_kill__of_the_server_after_the_200__still_becomes_work(database_url: str):
    webhooks.activate()
    with web_server(database_url) as (command, base):
        assert send(base, webhooks.deal(), "d-1") == 200
        kill_server(command.process.pid)
        command.wait()
    assert manage(["materialize", "--once"], database_url).wait() == 0
    assert [row["State"] for row in webhooks.rows("IngressReceipt")] == ["materialized"]
    assert [row["State"] for row in webhooks.rows("WorkItem")] == ["pending"]


@pytest.mark.parametrize(("failpoint", "stored"), [("materialize.before_commit", 0), ("materialize.after_commit", 5)])
def test_kill__of_the_materializer__loses_nothing_and_does_nothing_twice(
    database_url: str, tmp_path: Path, failpoint: str, stored: int
):
    webhooks.activate()
    with web_server(database_url) as (_, base):
        for number in range(5):
            assert send(base, webhooks.deal(number), f"d-{number}") == 200
    command = manage(["materialize", "--once"], database_url, failpoint=failpoint, folder=tmp_path)
    assert command.wait() == -signal.SIGKILL
    assert command.fired() == failpoint
    assert len(webhooks.rows("Event")) == len(webhooks.rows("WorkItem")) == stored
    assert manage(["materialize", "--once"], database_url).wait() == 0
    ordinals = [row["LaneOrdinal"] for row in webhooks.rows("Event", "LaneOrdinal")]
    assert ordinals == [1, 2, 3, 4, 5]
    assert len({row["EventId"] for row in webhooks.rows("WorkItem")}) == 5


def test_kill__of_the_server_under_load__every_200_is_stored(database_url: str):
    webhooks.activate()
    acked: list[str] = []
    refused: list[int] = []
    enough = threading.Event()

    def load(name: str, base: str) -> None:
        for number in range(1000):
            delivery_id = f"{name}-{number}"
            status = send(base, webhooks.deal(number), delivery_id)
            if status == 0:
                return
            if status != 200:
                refused.append(status)
                continue
            acked.append(delivery_id)
            if len(acked) >= 40:
                enough.set()

    with web_server(database_url) as (command, base):
        threads = [threading.Thread(target=load, args=(name, base)) for name in "abcd"]
        for thread in threads:
            thread.start()
        assert enough.wait(240)
        kill_server(command.process.pid)
        for thread in threads:
            thread.join()
        command.wait()
    stored = {row["DeliveryId"] for row in webhooks.rows("IngressReceipt")}
    assert set(acked) <= stored
    assert len(acked) >= 40
    assert set(refused) <= {503}, "a busy server may ask for another try, and nothing else"
