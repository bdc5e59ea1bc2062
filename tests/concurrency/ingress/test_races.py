"""Real processes that post and materialize the same things at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from tests.concurrency.ingress import races
from tests.support import webhooks
from tests.support.processes import race, web_server

pytestmark = pytest.mark.django_db(transaction=True)
RACES = races.__name__


@pytest.mark.evidence("O-04")
@pytest.mark.parametrize("delivery_id", ["d-1", None])
def test_race__one_delivery_from_many_processes__is_one_receipt(database_url: str, delivery_id: str | None):
    webhooks.activate()
    with web_server(database_url) as (_, base):
        arguments = [{"base": base, "delivery_ids": [delivery_id] * 5}] * 4
        answers = race(f"{RACES}:post_deliveries", arguments, database_url)
    assert answers == [[200] * 5] * 4
    assert len(webhooks.rows("IngressReceipt")) == 1


def test_race__different_deliveries_of_one_body__are_as_many_receipts(database_url: str):
    webhooks.activate()
    with web_server(database_url) as (_, base):
        arguments = [{"base": base, "delivery_ids": [f"{name}-{number}" for number in range(5)]} for name in "abc"]
        answers = race(f"{RACES}:post_deliveries", arguments, database_url)
    assert answers == [[200] * 5] * 3
    assert len(webhooks.rows("IngressReceipt")) == 15


def store(count: int) -> None:
    for number in range(count):
        assert webhooks.post(Client(), webhooks.deal(number), delivery_id=f"d-{number}").status_code == 200


def test_race__many_materializers__make_each_event_once_with_ordinals_of_their_own(database_url: str):
    webhooks.activate()
    store(60)
    done = race(f"{RACES}:materialize_all", [{"limit": 7}] * 4, database_url)
    assert sum(done) == 60
    events, items = webhooks.rows("Event", "LaneOrdinal"), webhooks.rows("WorkItem")
    assert [row["LaneOrdinal"] for row in events] == list(range(1, 61))
    assert len({row["ReceiptId"] for row in events}) == 60
    assert len({row["EventId"] for row in items}) == len(items) == 60
    assert {row["State"] for row in webhooks.rows("IngressReceipt")} == {"materialized"}


def test_race__without_the_packs_lock__the_ordinals_collide(database_url: str, tmp_path: Path):
    pack_id = webhooks.activate()
    store(2)
    arguments = [
        {"pack_install_id": pack_id, "folder": str(tmp_path), "name": name, "others": ["a", "b"]} for name in "ab"
    ]
    found = race(f"{RACES}:materialize_without_pack_lock", arguments, database_url)
    assert sorted(found)[-1] == "stored"
    assert sorted(found)[0] in {"IntegrityError", "UnexpectedRowCount", "InvariantBroken"}
