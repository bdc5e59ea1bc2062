"""Sealing: what opens, where, and under which key."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from integration.ingress import crypto
from integration.ingress.crypto import SealedColumn, open_sealed, parse_key_ring, rewrap, row_aad, seal

ONE = "one:" + base64.b64encode(bytes(32)).decode()
TWO = "two:" + base64.b64encode(bytes(range(32))).decode()
AAD = row_aad(SealedColumn.EVENT_PAYLOAD, "row-1")


@hypothesis_settings(deadline=None)
@given(plain=st.binary(max_size=300))
def test_seal__opens_at_its_place_alone(plain: bytes):
    sealed = seal(plain, AAD)
    assert open_sealed(sealed, AAD) == plain
    assert len(plain) < 8 or plain not in sealed
    for other in (row_aad(SealedColumn.EVENT_PAYLOAD, "row-2"), row_aad(SealedColumn.RECEIPT_BODY, "row-1"), b""):
        with pytest.raises(crypto.SealBroken):
            open_sealed(sealed, other)


@hypothesis_settings(deadline=None)
@given(position=st.integers(min_value=0), bit=st.integers(0, 7))
def test_open__a_changed_byte__breaks_the_seal(position: int, bit: int):
    sealed = seal(b"payload", AAD)
    place = position % len(sealed)
    changed = sealed[:place] + bytes([sealed[place] ^ (1 << bit)]) + sealed[place + 1 :]
    with pytest.raises((crypto.SealBroken, crypto.KeyUnavailable)):
        open_sealed(changed, AAD)


@hypothesis_settings(deadline=None)
@given(junk=st.binary(max_size=60))
def test_open__junk__breaks_the_seal(junk: bytes):
    for text in (junk, b"LH\x01" + junk):
        with pytest.raises((crypto.SealBroken, crypto.KeyUnavailable)):
            open_sealed(text, AAD)


def test_seal__twice__gives_two_texts():
    assert seal(b"same", AAD) != seal(b"same", AAD)


def test_rewrap__moves_a_value_to_the_first_key(settings):
    settings.LOCKHOUSE_PAYLOAD_KEYS = ONE
    sealed = seal(b"a-canary", AAD)
    assert rewrap(sealed, AAD) is None
    settings.LOCKHOUSE_PAYLOAD_KEYS = f"{TWO}, {ONE}"
    assert open_sealed(sealed, AAD) == b"a-canary"
    moved = rewrap(sealed, AAD)
    assert moved is not None
    settings.LOCKHOUSE_PAYLOAD_KEYS = TWO
    assert open_sealed(moved, AAD) == b"a-canary"
    with pytest.raises(crypto.KeyUnavailable) as caught:
        open_sealed(sealed, AAD)
    assert "a-canary" not in caught.value.operator_message()


@pytest.mark.parametrize(
    "text",
    ["", ",", "k1", "k1:", "k1:AAAA", "k1:" + "A" * 43, f"{ONE},{ONE}", ":" + ONE.partition(":")[2], "a b:" + "A" * 44],
)
def test_key_ring__that_is_not_one__is_refused_without_its_text(text: str):
    with pytest.raises(crypto.KeyRingInvalid) as caught:
        parse_key_ring(text)
    assert "AAAA" not in str(caught.value)
