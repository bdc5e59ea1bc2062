"""Sealing of bodies and payloads at rest: AES-256-GCM, bound to the row and column that hold them.

A sealed value moved to another row, or to another column, does not open. The key's id stands in the header,
so that a ring can hold a new key for sealing and old ones for opening.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from integration import errors

_MAGIC: Final = b"LH\x01"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)


class SealedColumn(StrEnum):
    """The columns that hold sealed values; part of what each value is bound to."""

    RECEIPT_BODY = "_System_ConnectorIngressReceipt.Body"
    EVENT_PAYLOAD = "_System_ConnectorEvent.Payload"
    SECOND_FACTOR = "console_secondfactor.secret"


class KeyRingInvalid(errors.SetupError):
    """The payload key ring is not usable: it needs id:base64 pairs of 32-byte keys, each id once."""

    code = "payload_keys_invalid"


class KeyUnavailable(errors.SetupError):
    """The key that sealed this value is not in the payload key ring."""

    code = "payload_key_unavailable"


class SealBroken(errors.IntegrationError):
    """A sealed value does not open: it was changed, or it belongs to another row."""

    code = "seal_broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRing:
    """Keys by id; the first one seals."""

    sealing_id: str
    ciphers: dict[str, AESGCM]


def row_aad(column: SealedColumn, row_id: str) -> bytes:
    """Return what binds a value to its place.

    Args:
        column: The table and column.
        row_id: The row's primary key.

    Returns:
        Bytes that no other place has.
    """
    return f"{column.value}\x00{row_id}".encode()


@lru_cache(maxsize=4)
def parse_key_ring(text: str) -> KeyRing:
    """Parse `id:base64,id2:base64`.

    Args:
        text: The setting's value.

    Returns:
        The ring; the first key seals.

    Raises:
        KeyRingInvalid: It is empty, an id occurs twice, or a key is not 32 bytes; says nothing of the keys.
    """
    ciphers: dict[str, AESGCM] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        key_id, _, encoded = pair.partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise KeyRingInvalid from None
        if not _KEY_ID.fullmatch(key_id) or len(key) != _KEY_BYTES or key_id in ciphers:
            raise KeyRingInvalid
        ciphers[key_id] = AESGCM(key)
    if not ciphers:
        raise KeyRingInvalid
    return KeyRing(sealing_id=next(iter(ciphers)), ciphers=ciphers)


def _ring() -> KeyRing:
    return parse_key_ring(settings.LOCKHOUSE_PAYLOAD_KEYS)


def seal(plain: bytes, aad: bytes) -> bytes:
    """Encrypt a value for its place.

    Args:
        plain: The value.
        aad: Its place, from `row_aad`.

    Returns:
        Header, nonce, ciphertext and tag.

    Raises:
        KeyRingInvalid: There is no usable key.
    """
    ring = _ring()
    key_id = ring.sealing_id.encode()
    header = _MAGIC + len(key_id).to_bytes(1, "big") + key_id
    nonce = os.urandom(_NONCE_BYTES)
    return header + nonce + ring.ciphers[ring.sealing_id].encrypt(nonce, plain, header + aad)


def open_sealed(sealed: bytes, aad: bytes) -> bytes:
    """Decrypt a value at its place.

    Args:
        sealed: What `seal` returned.
        aad: Its place, from `row_aad`.

    Returns:
        The value.

    Raises:
        KeyUnavailable: The key is not in the ring; another configuration may open it.
        SealBroken: The bytes were changed or belong elsewhere; no configuration opens it.
    """
    header, key_id = _header(sealed)
    cipher = _ring().ciphers.get(key_id)
    if cipher is None:
        raise KeyUnavailable
    start = len(header) + _NONCE_BYTES
    try:
        return cipher.decrypt(sealed[len(header) : start], sealed[start:], header + aad)
    except InvalidTag:
        raise SealBroken from None


def move_sealed(sealed: bytes, source_aad: bytes, target_aad: bytes) -> bytes:
    """Open a value at one place and seal it for another, under the current key."""
    return seal(open_sealed(sealed, source_aad), target_aad)


def rewrap(sealed: bytes, aad: bytes) -> bytes | None:
    """Seal a value anew if another key than the current one sealed it.

    Args:
        sealed: What is stored.
        aad: Its place.

    Returns:
        The value under the current key, or None when it is under it already.

    Raises:
        KeyUnavailable: The key is not in the ring.
        SealBroken: The bytes were changed or belong elsewhere.
    """
    if _header(sealed)[1] == _ring().sealing_id:
        return None
    return move_sealed(sealed, aad, aad)


def _header(sealed: bytes) -> tuple[bytes, str]:
    length = sealed[len(_MAGIC)] if len(sealed) > len(_MAGIC) else 0
    end = len(_MAGIC) + 1 + length
    if not sealed.startswith(_MAGIC) or not length or len(sealed) < end + _NONCE_BYTES + _TAG_BYTES:
        raise SealBroken
    return bytes(sealed[:end]), sealed[len(_MAGIC) + 1 : end].decode("ascii", "replace")
