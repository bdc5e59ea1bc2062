"""The signature verifier: published vectors, and what no signature may be."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from integration.catalog.documents import VerifierRule
from integration.ingress.verify import SignatureVerdict, SignedRequest, decode_signature, sign, verify

SECRET = b"a-secret-of-the-tests"
BODIES = st.binary(max_size=200)


def rule(**changed: Any) -> VerifierRule:
    return VerifierRule.model_validate({"header": "X-Sig", "secrets": ("webhook",), **changed})


def request(body: bytes, **headers: str) -> SignedRequest:
    found = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return SignedRequest(
        body=body, method="POST", uri=lambda: "https://example.test/h?a=1", header=lambda name: found.get(name.lower())
    )


def verdict(
    given_rule: VerifierRule, body: bytes, *secrets: bytes, now: float = 0.0, **headers: str
) -> SignatureVerdict:
    return verify(given_rule, secrets or (SECRET,), request(body, **headers), now_seconds=now)


# RFC 4231, test cases 1, 2, 3, 6 and 7: key, message, HMAC-SHA-256.
RFC_4231 = [
    (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
    (b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
    (
        b"\xaa" * 131,
        b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be"
        b" hashed before being used by the HMAC algorithm.",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    ),
]


@pytest.mark.evidence("O-01")
@pytest.mark.parametrize(("key", "message", "digest"), RFC_4231)
def test_verify__the_published_vectors(key: bytes, message: bytes, digest: str):
    assert verdict(rule(), message, key, X_Sig=digest) is SignatureVerdict.VALID
    encoded = base64.b64encode(bytes.fromhex(digest)).decode()
    assert verdict(rule(encoding="base64"), message, key, X_Sig=encoded) is SignatureVerdict.VALID


@pytest.mark.evidence("O-01")
@hypothesis_settings(deadline=None)
@given(body=BODIES, encoding=st.sampled_from(["hex", "base64"]), prefix=st.sampled_from(["", "sha256=", "v1,"]))
def test_verify__what_was_signed__is_valid(body: bytes, encoding: str, prefix: str):
    given_rule = rule(encoding=encoding, prefix=prefix)
    expected = hmac.new(SECRET, body, hashlib.sha256).digest()
    text = prefix + (expected.hex() if encoding == "hex" else base64.b64encode(expected).decode())
    assert sign(given_rule, SECRET, request(body)) == text
    assert verdict(given_rule, body, X_Sig=text) is SignatureVerdict.VALID
    assert verdict(given_rule, body, b"another", SECRET, X_Sig=text) is SignatureVerdict.VALID
    assert verdict(given_rule, body, SECRET, b"another", X_Sig=text) is SignatureVerdict.VALID
    assert verdict(given_rule, body, b"another", X_Sig=text) is SignatureVerdict.MISMATCH


@pytest.mark.evidence("O-01")
@hypothesis_settings(deadline=None)
@given(body=st.binary(min_size=1, max_size=200), position=st.integers(min_value=0), bit=st.integers(0, 7))
def test_verify__one_flipped_bit__is_a_mismatch(body: bytes, position: int, bit: int):
    place = position % len(body)
    flipped = body[:place] + bytes([body[place] ^ (1 << bit)]) + body[place + 1 :]
    text = sign(rule(), SECRET, request(body))
    assert verdict(rule(), flipped, X_Sig=text) is SignatureVerdict.MISMATCH


@pytest.mark.evidence("O-01")
@hypothesis_settings(deadline=None)
@given(body=BODIES, cut=st.integers(0, 63))
def test_verify__a_part_of_the_signature__is_never_enough(body: bytes, cut: int):
    text = sign(rule(), SECRET, request(body))
    expected = SignatureVerdict.MISSING if cut == 0 else SignatureVerdict.MALFORMED
    assert verdict(rule(), body, X_Sig=text[:cut]) is expected
    assert verdict(rule(prefix="v1,"), body, X_Sig="v1," + text[:cut]) is SignatureVerdict.MALFORMED


@hypothesis_settings(deadline=None)
@given(text=st.text(max_size=100))
def test_decode_signature__gives_32_bytes_or_nothing(text: str):
    for encoding in ("hex", "base64"):
        decoded = decode_signature(rule(encoding=encoding), text)
        assert decoded is None or len(decoded) == 32


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, " " + "0" * 64),
        ({}, "0" * 64 + "\n"),
        ({}, "0" * 32 + " " + "0" * 31),
        ({}, "0" * 66),
        ({}, "٠" * 64),
        ({}, "0" * 64 + ", " + "0" * 64),
        ({"prefix": "sha256="}, "0" * 64),
        ({"prefix": "sha256="}, "SHA256=" + "0" * 64),
        ({"encoding": "base64"}, base64.b64encode(bytes(31)).decode()),
        ({"encoding": "base64"}, base64.b64encode(bytes(33)).decode()),
        ({"encoding": "base64"}, "A" * 43),
        # The same 32 bytes spelled with other spare bits.
        ({"encoding": "base64"}, "A" * 42 + "B="),
        ({"encoding": "base64"}, "-" * 43 + "="),
    ],
)
def test_decode_signature__another_spelling__is_nothing(changed: dict[str, Any], text: str):
    assert decode_signature(rule(**changed), text) is None


@pytest.mark.parametrize("secrets", [(), (b"",), (SECRET, b"")])
def test_verify__without_a_secret__is_an_error_and_not_a_verdict(secrets: tuple[bytes, ...]):
    text = sign(rule(), b"", request(b"x"))
    with pytest.raises(ValueError, match="no secret"):
        verify(rule(), secrets, request(b"x", X_Sig=text), now_seconds=0.0)


TIMED = {
    "message": "v0:{timestamp}:{method}{uri}{body}",
    "timestamp": {"header": "X-Time", "unit": "milliseconds", "tolerance_seconds": 300},
}


@pytest.mark.parametrize(
    ("moment", "now", "expected"),
    [
        ("1000000", 1000.0, SignatureVerdict.VALID),
        ("1000000", 1300.0, SignatureVerdict.VALID),
        ("1000000", 1300.1, SignatureVerdict.STALE),
        ("1000000", 699.9, SignatureVerdict.STALE),
        ("", 1000.0, SignatureVerdict.STALE),
        ("-1000000", 1000.0, SignatureVerdict.STALE),
        ("1e6", 1000.0, SignatureVerdict.STALE),
        ("1" * 16, 1000.0, SignatureVerdict.STALE),
    ],
)
def test_verify__a_timestamp__is_signed_and_within_the_tolerance(moment: str, now: float, expected: SignatureVerdict):
    given_rule = rule(**TIMED)
    message = f"v0:{moment}:POSThttps://example.test/h?a=1".encode() + b"{body}"
    text = hmac.new(SECRET, message, hashlib.sha256).hexdigest()
    assert verdict(given_rule, b"{body}", now=now, X_Sig=text, X_Time=moment) is expected


def test_verify__a_moved_timestamp__is_a_mismatch():
    text = sign(rule(**TIMED), SECRET, request(b"x"), timestamp="1000000")
    assert verdict(rule(**TIMED), b"x", now=1000.0, X_Sig=text, X_Time="1000001") is SignatureVerdict.MISMATCH
