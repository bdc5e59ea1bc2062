from __future__ import annotations

import json
from collections import Counter
from itertools import islice

from integration.packs.demo import UNKNOWN_STAGE, Kind, Mix, make_deliveries


def shape(mix: Mix) -> list[tuple[str, str, dict]]:
    return [(found.kind, found.delivery_id, json.loads(found.body)["deal"]) for found in make_deliveries(mix)]


def test_make_deliveries__of_one_seed_are_the_same():
    mix = Mix(count=120, seed=5, duplicate_share=0.2, forged_share=0.1)
    assert shape(mix) == shape(mix)
    assert shape(mix) != shape(Mix(count=120, seed=6, duplicate_share=0.2, forged_share=0.1))


def test_make_deliveries__keep_the_shares():
    found = shape(Mix(count=2000, seed=1, fail_share=0.25, duplicate_share=0.2, forged_share=0.1))
    kinds = Counter(kind for kind, _, _ in found)
    assert 320 < kinds[Kind.DUPLICATE] < 480
    assert 110 < kinds[Kind.FORGED] < 210
    new = [deal for kind, _, deal in found if kind is Kind.NEW]
    assert 0.2 < sum(deal["stage"] == UNKNOWN_STAGE for deal in new) / len(new) < 0.3


def test_make_deliveries__a_duplicate_repeats_an_earlier_one_byte_for_byte():
    seen = {}
    for found in make_deliveries(Mix(count=300, seed=2, duplicate_share=0.3)):
        if found.kind is Kind.DUPLICATE:
            assert seen[found.delivery_id] == found.body
        else:
            assert found.delivery_id not in seen
            seen[found.delivery_id] = found.body


def test_make_deliveries__creates_a_deal_once_before_it_changes():
    known = set()
    for found in make_deliveries(Mix(count=400, seed=3)):
        body = json.loads(found.body)
        assert (body["event"] == "deal.created") == (body["deal"]["id"] not in known)
        known.add(body["deal"]["id"])


def test_make_deliveries__without_a_count_do_not_end():
    assert len(list(islice(make_deliveries(Mix(count=0, seed=4)), 500))) == 500


def test_make_deliveries__of_contacts_change_one_field_each():
    found = [json.loads(delivery.body) for delivery in make_deliveries(Mix(count=400, seed=3, contact_share=0.5))]
    contacts = [body["contact"] for body in found if body["event"] == "contact.changed"]
    assert 150 < len(contacts) < 250
    assert len({contact["id"] for contact in contacts}) == 12
    assert {frozenset(contact) - {"id"} for contact in contacts} == {
        frozenset({"name"}),
        frozenset({"city"}),
        frozenset({"email"}),
    }
