"""Make a token, revoke it, let a request in by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_in, run_recording
from integration.callers.policy import (
    Token,
    TokenInvalid,
    TokenNotFound,
    TooManyRequests,
    check_terms,
    digest_secret,
    new_secret,
)
from integration.storage import db
from integration.storage.db import Reader, Row, Tx
from integration.storage.sql import api_callers as sql
from integration.values import Actor, new_id

#: Tokens of an account that its page lists, the newest ones.
LISTED: Final = 100
#: A minute's requests of one token, and how many of them may come at once.
PER_MINUTE: Final = 600
AT_ONCE: Final = 60
_MICROSECONDS_A_MINUTE: Final = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A new token and its secret, which nobody can read again."""

    token: Token
    secret: str


def issue(*, actor: Actor, name: str, scopes: Iterable[str], days: int, using: str = "default") -> Issued:
    """Make a token for the actor's own account.

    Args:
        actor: The owner.
        name: What the owner calls it, 1 to 80 characters on one line.
        scopes: Permission keys that the owner holds.
        days: Until it runs out, 1 to 365.
        using: The database alias.

    Returns:
        The token and its secret.

    Raises:
        InvalidInput: A value is not valid.
        NotAllowed: The actor has no account.

    Locks: none.
    """
    if actor.user_id is None:
        raise errors.NotAllowed
    name, wanted = check_terms(actor=actor, name=name, scopes=scopes, days=days)
    secret, token_id = new_secret(), new_id()
    values = {
        "id": token_id,
        "digest": digest_secret(secret),
        "owner_id": actor.user_id,
        "name": name,
        "scopes": " ".join(wanted),
        "days": days,
    }
    fact = _fact("issued", token_id, actor, {"name": name, "scopes": list(wanted), "days": days})

    def unit(tx: Tx) -> bool:
        tx.execute(sql.INSERT_TOKEN, values)
        record_in(tx, fact)
        return True

    def settle(reader: Reader) -> bool | None:
        return True if reader.fetch_one(sql.FIND_TOKEN, {"id": token_id}) else None

    run_recording(unit, name="callers.issue", using=using, settle=settle)
    return Issued(token=get_token(token_id, owner_id=actor.user_id, using=using), secret=secret)


def revoke(token_id: str, *, actor: Actor, using: str = "default") -> Token:
    """End one of the actor's own tokens; revoking it again changes nothing.

    Raises:
        TokenNotFound: It is not one of the actor's.

    Locks: LEAF, the token.
    """
    token = get_token(token_id, owner_id=actor.user_id, using=using)
    fact = _fact("revoked", token_id, actor, {"name": token.name})

    def unit(tx: Tx) -> bool:
        if tx.execute(sql.REVOKE_TOKEN, {"id": token_id}) == 1:
            record_in(tx, fact)
        return True

    # The revocation can be asked for again; what COMMIT did need not be known.
    run_recording(unit, name="callers.revoke", using=using)
    return get_token(token_id, owner_id=actor.user_id, using=using)


def get_token(token_id: str, *, owner_id: int | None, using: str = "default") -> Token:
    """Return one of an account's tokens.

    Raises:
        TokenNotFound: It is not one of this account's.

    Locks: none.
    """
    row = db.read(using).fetch_one(sql.FIND_TOKEN, {"id": token_id})
    if row is None or row["owner_id"] != owner_id:
        raise TokenNotFound
    return _token(row)


def list_tokens(owner_id: int, *, using: str = "default") -> tuple[Token, ...]:
    """Return an account's newest tokens, newest first, ended ones too.

    Locks: none.
    """
    rows = db.read(using).fetch_all(sql.LIST_TOKENS_OF_OWNER, {"owner_id": owner_id, "limit": LISTED})
    return tuple(_token(row) for row in rows)


def admit(secret: str, *, per_minute: int = PER_MINUTE, at_once: int = AT_ONCE, using: str = "default") -> Token:
    """Let one request in by a token, and count it.

    One statement decides and counts: a token's next turn is a moment, each request moves it on by its share of a
    minute, and one that would come too long before its turn is too early. It holds over all processes.

    Args:
        secret: The token's text.
        per_minute: Requests a minute, in the long run.
        at_once: Requests that may come at once after a rest.
        using: The database alias.

    Returns:
        The token; whether its account is open is the caller's to ask.

    Raises:
        TokenInvalid: There is none, or it has ended.
        TooManyRequests: It is too early; `retry_after` says for how many seconds.

    Locks: LEAF, the token.
    """
    row = db.read(using).fetch_one(sql.FIND_TOKEN_BY_DIGEST, {"digest": digest_secret(secret)})
    if row is None or not row["is_live"]:
        raise TokenInvalid
    spacing = _MICROSECONDS_A_MINUTE // per_minute
    turn = {"id": row["id"], "spacing": spacing, "ahead": spacing * (at_once - 1)}
    if db.execute_alone(sql.TAKE_TURN, turn, using=using) == 0:
        early = row["due_at"] - row["now"] - timedelta(microseconds=turn["ahead"])
        raise TooManyRequests(retry_after=max(1, -(-int(early.total_seconds() * 1_000_000) // 1_000_000)))
    return _token(row)


def _token(row: Row) -> Token:
    return Token(
        token_id=row["id"],
        owner_id=row["owner_id"],
        name=row["name"],
        scopes=tuple(row["scopes"].split()),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_on=row["last_used_on"],
        is_live=bool(row["is_live"]),
    )


def _fact(verb: str, token_id: str, actor: Actor, facts: dict[str, object]) -> AuditFact:
    return AuditFact(
        action=f"api_token.{verb}",
        outcome=AuditOutcome.DONE,
        actor=actor,
        ref_kind="api_token",
        ref_id=token_id,
        facts=facts,
    )
