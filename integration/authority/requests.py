"""What a caller may hand in with a replay. Pure."""

from __future__ import annotations

from typing import Final

from integration import errors
from integration.audit.policy import check_printable
from integration.values import Actor, digest_parts

KEY_CHARACTERS: Final = 200


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
    check_printable("idempotency_key", idempotency_key)
    whose = ("name", actor.name) if actor.user_id is None else ("account", str(actor.user_id))
    return digest_parts("replay", *whose, idempotency_key)
