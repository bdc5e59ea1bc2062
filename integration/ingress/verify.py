"""The one signature verifier, parameterized by the pack: HMAC-SHA256 over the raw body.

A signature is decoded to exactly 32 bytes before it is compared, in constant time, with what every active
secret yields. Nothing here keeps, logs or repeats a body, a header or a secret.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from integration.catalog.documents import VerifierRule

DIGEST_BYTES: Final = 32
_HEX: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{43}=", re.ASCII)
_TIMESTAMP: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_SEGMENT: Final = re.compile(r"\{(body|method|uri|timestamp)\}")


class SignatureVerdict(StrEnum):
    """What a signature check found."""

    #: One active secret signed exactly these bytes.
    VALID = "valid"
    #: The header is not there, or is empty.
    MISSING = "signature_missing"
    #: The header is not one signature of 32 bytes in the declared encoding.
    MALFORMED = "signature_malformed"
    #: No active secret yields this signature.
    MISMATCH = "signature_mismatch"
    #: The time of signing is missing, not a number, or outside the tolerance.
    STALE = "timestamp_stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """What a signature can cover.

    Attributes:
        body: The raw bytes, as they came.
        method: The HTTP method in upper case.
        uri: Returns the absolute address; asked for only by a template that signs it.
        header: Returns a header's value, or None; several headers of one name come joined by a comma.
    """

    body: bytes
    method: str
    uri: Callable[[], str]
    header: Callable[[str], str | None]


def verify(
    rule: VerifierRule, secrets: Sequence[bytes], request: SignedRequest, *, now_seconds: float
) -> SignatureVerdict:
    """Check a request's signature.

    Args:
        rule: The pack's parameters.
        secrets: Every active secret, none of them empty; all are tried, whichever matches.
        request: What the signature covers.
        now_seconds: The time, in seconds since the epoch; read only when the rule has a timestamp.

    Returns:
        VALID, or why not.

    Raises:
        ValueError: There is no secret, or an empty one: that would accept anyone's signature.

    Rule: O-01.
    """
    if not secrets or not all(secrets):
        message = "no secret to verify with"
        raise ValueError(message)
    text = request.header(rule.header)
    if not text:
        return SignatureVerdict.MISSING
    given = decode_signature(rule, text)
    if given is None:
        return SignatureVerdict.MALFORMED
    timestamp = ""
    if rule.timestamp is not None:
        timestamp = request.header(rule.timestamp.header) or ""
        if not _is_fresh(rule, timestamp, now_seconds):
            return SignatureVerdict.STALE
    message_bytes = request.body if rule.message == "{body}" else _message(rule.message, request, timestamp)
    valid = False
    for secret in secrets:
        # No early exit: how long it takes must not tell which secret matched.
        valid |= hmac.compare_digest(hmac.digest(secret, message_bytes, "sha256"), given)
    return SignatureVerdict.VALID if valid else SignatureVerdict.MISMATCH


def decode_signature(rule: VerifierRule, text: str) -> bytes | None:
    """Return the 32 bytes that a header's text stands for.

    Args:
        rule: The encoding and the prefix.
        text: The header's whole value.

    Returns:
        Exactly 32 bytes, or None if the text is anything but the prefix and one signature.
    """
    if not text.startswith(rule.prefix):
        return None
    encoded = text[len(rule.prefix) :]
    if rule.encoding == "hex":
        return bytes.fromhex(encoded) if _HEX.fullmatch(encoded) else None
    if not _BASE64.fullmatch(encoded):
        return None
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return None
    # 43 characters leave two bits over; a second spelling of one signature is refused.
    return decoded if len(decoded) == DIGEST_BYTES and base64.b64encode(decoded).decode() == encoded else None


def sign(rule: VerifierRule, secret: bytes, request: SignedRequest, *, timestamp: str = "") -> str:
    """Return the header's value that `verify` accepts; for the demo and for tests.

    Args:
        rule: The pack's parameters.
        secret: The secret to sign with.
        request: What the signature covers; its headers are not read.
        timestamp: The timestamp header's value, if the rule has one.

    Returns:
        The prefix and the encoded signature.
    """
    digest = hmac.digest(secret, _message(rule.message, request, timestamp), "sha256")
    encoded = digest.hex() if rule.encoding == "hex" else base64.b64encode(digest).decode()
    return rule.prefix + encoded


def _is_fresh(rule: VerifierRule, timestamp: str, now_seconds: float) -> bool:
    if rule.timestamp is None or not _TIMESTAMP.fullmatch(timestamp):
        return False
    seconds = int(timestamp) / (1000 if rule.timestamp.unit == "milliseconds" else 1)
    return abs(now_seconds - seconds) <= rule.timestamp.tolerance_seconds


@lru_cache(maxsize=256)
def _segments(template: str) -> tuple[str, ...]:
    """Return literals at even places and field names at odd ones."""
    return tuple(_SEGMENT.split(template))


def _message(template: str, request: SignedRequest, timestamp: str) -> bytes:
    parts: list[bytes] = []
    for position, segment in enumerate(_segments(template)):
        if position % 2 == 0:
            parts.append(segment.encode())
        elif segment == "body":
            parts.append(request.body)
        elif segment == "method":
            parts.append(request.method.encode())
        elif segment == "uri":
            parts.append(request.uri().encode())
        else:
            parts.append(timestamp.encode())
    return b"".join(parts)
