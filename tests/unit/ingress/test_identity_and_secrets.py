"""Delivery identity, and secrets by reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from integration.ingress.idempotency import delivery_key, deterministic_key, indexed_key, item_key
from integration.ingress.policy import ArmedFence, find_fence
from integration.ingress.secrets import SecretUnavailable, resolve_secrets
from integration.ingress.service import usable_delivery_id
from tests.support import webhooks

PLACE: dict[str, Any] = {"namespace": "demo", "route_key": "deals", "subscription_generation": 1}
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)


def deterministic(body: bytes, body_hash: str = "h", **changed: Any) -> str:
    rule = webhooks.pack().webhooks[0].identity
    return deterministic_key(**{**PLACE, **changed}, body_hash=body_hash, rule=rule, body=body)


@pytest.mark.evidence("O-04")
@hypothesis_settings(deadline=None)
@given(first=st.tuples(TEXT, TEXT, TEXT), second=st.tuples(TEXT, TEXT, TEXT))
def test_delivery_key__differs_whenever_a_part_does(first: tuple[str, str, str], second: tuple[str, str, str]):
    def key(parts: tuple[str, str, str]) -> str:
        return delivery_key(namespace=parts[0], route_key=parts[1], subscription_generation=1, delivery_id=parts[2])

    assert (key(first) == key(second)) == (first == second)


@pytest.mark.evidence("O-04")
def test_deterministic_key__covers_every_part_of_the_contract():
    body = json.loads(webhooks.deal())
    known = deterministic(webhooks.deal())
    others = [
        deterministic(json.dumps({**body, "event": "deal.updated"}).encode()),
        deterministic(json.dumps({**body, "deal": {"id": 2}}).encode()),
        deterministic(json.dumps({**body, "deal": {"id": "1"}}).encode()),
        deterministic(json.dumps({**body, "sent_at": "later"}).encode()),
        deterministic(webhooks.deal(), body_hash="other"),
        deterministic(webhooks.deal(), subscription_generation=2),
        deterministic(webhooks.deal(), namespace="other"),
        deterministic(webhooks.deal(), route_key="other"),
        deterministic(b"not json"),
        delivery_key(**PLACE, delivery_id="d"),
        item_key(**PLACE, item_id="d"),
        indexed_key(known, 0),
        indexed_key(known, 1),
    ]
    assert len({known, *others}) == len(others) + 1
    assert deterministic(webhooks.deal()) == known


@hypothesis_settings(deadline=None)
@given(body=st.binary(max_size=100))
def test_deterministic_key__any_body__has_one(body: bytes):
    assert len(deterministic(body)) == 64


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [(None, None), ("", None), ("  ", None), (" d-1 ", "d-1"), ("x" * 255, "x" * 255), ("x" * 256, None), ("é", None)],
)
def test_usable_delivery_id(given_text: str | None, expected: str | None):
    assert usable_delivery_id(given_text) == expected


def test_resolve__by_name_and_from_a_file(settings: Any, tmp_path: Path):
    settings.LOCKHOUSE_SECRETS = {"TWO_WORDS": "first-secret, second-secret", "SHORT": "seven77"}
    assert resolve_secrets(["two-words"]) == (b"first-secret", b"second-secret")
    path = tmp_path / "secret"
    path.write_text("from-a-file\n\nand-another\n", encoding="utf-8")
    assert resolve_secrets([f"file:{path}", "two-words"])[:2] == (b"from-a-file", b"and-another")
    path.write_text("rotated-in-place\n", encoding="utf-8")
    assert resolve_secrets([f"file:{path}"]) == (b"rotated-in-place",)
    for reference in ("missing", "short", f"file:{tmp_path}/none"):
        with pytest.raises(SecretUnavailable) as caught:
            resolve_secrets([reference])
        assert "seven77" not in str(caught.value)
    with pytest.raises(SecretUnavailable):
        resolve_secrets([])


@pytest.mark.parametrize(
    ("scope", "overrides", "kind", "is_stopped"),
    [
        ("*", (), "a", True),
        ("a", (), "a", True),
        ("b", (), "a", False),
        ("*", ("a",), "a", False),
        ("*", ("b",), "a", True),
        ("*", ("*",), "a", False),
        ("a", ("*",), "a", False),
    ],
)
def test_find_fence(scope: str, overrides: tuple[str, ...], kind: str, is_stopped: bool):
    fence = ArmedFence(fence_id="f", scope=scope, overrides=frozenset(overrides))
    assert (find_fence([fence], kind) is not None) == is_stopped
    assert find_fence([], kind) is None
