"""What a caller may hand in with a replay. Pure."""

from __future__ import annotations

import unicodedata
from typing import Final

from integration import errors
from integration.values import Actor, digest_parts

REASON_CHARACTERS: Final = 500
KEY_CHARACTERS: Final = 200
#: Line and paragraph separators, and what turns the direction of the text that follows.
_MISLEADING: Final = frozenset("\u2028\u2029\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_reason(reason: str) -> str:
    """Return the reason without the space around it.

    Args:
        reason: What the operator wrote.

    Returns:
        1 to 500 characters, on one line.

    Raises:
        InvalidInput: It is empty, too long, or holds a character that an audit page could not show as it is.
    """
    text = reason.strip()
    # Characters without a shape of their own say nothing either.
    if all(unicodedata.category(character)[0] in "CZ" for character in text):
        message = "A reason is required: say why in 1 to 500 characters."
        raise errors.InvalidInput(message, field="reason", found="nothing")
    if len(text) > REASON_CHARACTERS:
        message = f"The reason has {len(text)} characters: shorten it to {REASON_CHARACTERS}."
        raise errors.InvalidInput(message, field="reason", found=f"{len(text)} characters")
    _check_printable("reason", text)
    return text


def digest_request(actor: Actor, idempotency_key: str | None) -> str | None:
    """Return what the audit trail keeps of a request's key: a digest over the actor and the key.

    Args:
        actor: Whose request it is; another actor's same key is another request.
        idempotency_key: 1 to 200 characters, or None for a request that is never the same as another.

    Returns:
        64 lowercase hex characters, or None.

    Raises:
        InvalidInput: The key is empty, too long, or holds a control character.
    """
    if idempotency_key is None:
        return None
    if not 1 <= len(idempotency_key) <= KEY_CHARACTERS:
        message = f"An idempotency key has 1 to {KEY_CHARACTERS} characters."
        raise errors.InvalidInput(message, field="idempotency_key", found=f"{len(idempotency_key)} characters")
    _check_printable("idempotency_key", idempotency_key)
    whose = ("name", actor.name) if actor.user_id is None else ("account", str(actor.user_id))
    return digest_parts("replay", *whose, idempotency_key)


def _check_printable(field: str, text: str) -> None:
    for character in text:
        if unicodedata.category(character) in {"Cc", "Cs"} or character in _MISLEADING:
            name = f"U+{ord(character):04X}"
            message = f"The {field} holds the control character {name}: write it on one line, in plain characters."
            raise errors.InvalidInput(message, field=field, found=name)
