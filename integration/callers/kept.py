"""Keep the answer to a request by its Idempotency-Key, so that the same request again changes nothing more.

The row that binds a key to its request is inserted before the work begins, and its primary key decides between two
at once. The answer is stored when something was changed; a refusal lets the key go, since it wrote nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.db import IntegrityError

from integration.callers.policy import KEPT_SECONDS, UNDER_WAY_SECONDS, KeyReused, RequestUnderWay
from integration.storage import db
from integration.storage.db import Tx
from integration.storage.sql import api_callers as sql
from integration.values import new_id

#: Rows whose time is over that a new one takes along.
_SWEPT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer as it was first given."""

    status: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to work on a request, until it is kept, let go, or taken over."""

    key: str
    claim: str


def begin(key: str, request: str, *, using: str = "default") -> Claim | Answer:
    """Bind a key to a request, or return the answer that the same request had.

    Args:
        key: What the key is stored as, 64 hex characters.
        request: The digest of the request.
        using: The database alias.

    Returns:
        A claim, to be ended by `keep` or `let_go`; or the first answer.

    Raises:
        KeyReused: The key came with another request within the last 24 hours.
        RequestUnderWay: The same request began less than a minute ago and has not ended.

    Locks: LEAF, the key's row.
    """
    _sweep(using)
    claim = Claim(key=key, claim=new_id())
    values = {
        "id": key,
        "request_digest": request,
        "claim": claim.claim,
        "under_way": UNDER_WAY_SECONDS,
        "kept": KEPT_SECONDS,
    }

    def insert(tx: Tx) -> bool:
        tx.execute(sql.INSERT_KEPT_ANSWER, values)
        return True

    try:
        # An unknown COMMIT is an error to the caller, who asks again a minute later.
        db.run(insert, name="callers.begin", using=using)
    except IntegrityError:
        return _after_another(claim, values, using)
    return claim


def _after_another(claim: Claim, values: Mapping[str, object], using: str) -> Claim | Answer:
    row = db.read(using).fetch_one(sql.FIND_KEPT_ANSWER, {"id": claim.key})
    if row is None:
        # Let go between the two statements, or its day is over and nobody swept it yet.
        raise RequestUnderWay
    if row["request_digest"] != values["request_digest"]:
        raise KeyReused
    if row["status"] is not None:
        return Answer(status=row["status"], body=row["body"])
    # Whoever began may have been killed. The services know the key too, and do nothing twice.
    if db.execute_alone(sql.TAKE_OVER_KEPT_ANSWER, {**values, "before": row["claim"]}, using=using) == 0:
        raise RequestUnderWay
    return claim


def keep(claim: Claim, answer: Answer, *, using: str = "default") -> None:
    """Store the answer that the request had.

    Locks: LEAF, the key's row.
    """
    values = {"id": claim.key, "claim": claim.claim, "status": answer.status, "body": answer.body}
    db.execute_alone(sql.KEEP_ANSWER, values, using=using)


def let_go(claim: Claim, *, using: str = "default") -> None:
    """Forget a request that changed nothing, so that the same key may come again.

    Locks: LEAF, the key's row.
    """
    db.execute_alone(sql.LET_GO_OF_ANSWER, {"id": claim.key, "claim": claim.claim}, using=using)


def _sweep(using: str) -> None:
    rows = db.read(using).fetch_all(sql.LIST_ENDED_ANSWERS, {"limit": _SWEPT})
    if rows:
        ids = tuple(sorted(row["id"] for row in rows))
        db.execute_alone(sql.DELETE_ENDED_ANSWERS, {"ids": ids}, using=using)
