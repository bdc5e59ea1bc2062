"""Ids and frozen values that every context shares. Nothing here reads or writes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, NewType

import uuid_utils

from integration.scopes import EVERYWHERE, NOWHERE, Scope

WorkId = NewType("WorkId", str)
EventId = NewType("EventId", str)
PackInstallId = NewType("PackInstallId", str)
RouteId = NewType("RouteId", str)
ReceiptId = NewType("ReceiptId", str)
ProcessId = NewType("ProcessId", str)


def new_id() -> str:
    """Return a new UUIDv7 in its 36-character form; later ids sort after earlier ones of the same process."""
    return str(uuid_utils.uuid7())


def canonical_json(value: Any) -> str:
    """Return the one text form of a JSON value that is digested and stored.

    Args:
        value: A JSON value; no floats that are not finite.

    Returns:
        Keys sorted, no spaces, non-ASCII characters kept, UTF-8 encodable.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Return a JSON-ready copy of a frozen value: fields by name, moments in ISO 8601.

    Args:
        value: A dataclass, enum, moment, collection or scalar.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def digest_text(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes, 64 lowercase hex characters."""
    return hashlib.sha256(text.encode()).hexdigest()


def encode_parts(*parts: str) -> bytes:
    """Return the bytes of a sequence of texts that no other sequence shares.

    Each part is preceded by its length in bytes, so that moving a character from one part to the next
    changes the bytes.

    Args:
        *parts: The parts in their fixed order.
    """
    raw = [part.encode() for part in parts]
    return b"".join(len(item).to_bytes(8, "big") + item for item in raw)


def digest_parts(*parts: str) -> str:
    """Return a digest of a sequence of texts that no other sequence shares.

    Args:
        *parts: The parts in their fixed order.

    Returns:
        64 lowercase hex characters.
    """
    return hashlib.sha256(encode_parts(*parts)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who asks for something, from where, and what they may do at the time of the request.

    Attributes:
        user_id: The account's id; None for the system itself.
        name: The account's name, shown in the audit.
        remote_addr: The address that the request came from, if it came over the network.
        via: The surface: `console`, `command`, `api` or `system`.
        permissions: The permission keys that the account held everywhere when the request was checked.
        scopes: The keys that it held in some places only, and where.
    """

    user_id: int | None
    name: str
    remote_addr: str | None = None
    via: str = "command"
    permissions: frozenset[str] = field(default_factory=frozenset)
    scopes: Mapping[str, Scope] = field(default_factory=dict, hash=False)

    def may(self, permission: str) -> bool:
        """Return whether the actor held this permission key everywhere; an unknown key means no."""
        return permission in self.permissions

    def reach(self, permission: str) -> Scope:
        """Return where the actor held this permission key; an unknown key is held nowhere."""
        return EVERYWHERE if permission in self.permissions else self.scopes.get(permission, NOWHERE)


SYSTEM_ACTOR = Actor(user_id=None, name="system", via="system")
