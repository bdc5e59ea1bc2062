"""API tokens: what is stored of one, who may end it, how often it may ask."""

from __future__ import annotations

from typing import Any

import pytest

from console.models import ApiToken
from console.permissions import ACCESS, AUDIT, CUTOVER, REPAIR, REPLAY, VIEW
from integration import errors
from integration.authority.values import BULK_PERMISSION
from integration.callers import tokens
from integration.callers.policy import PREFIX, SCOPES, TokenInvalid, TokenNotFound, TooManyRequests, digest_secret
from integration.values import Actor
from tests.support.authority import change, rows_of
from tests.support.batches import entries

pytestmark = pytest.mark.django_db

ANA = Actor(user_id=7, name="ana", via="console", permissions=frozenset({VIEW, REPLAY}))
BOB = Actor(user_id=8, name="bob", via="console", permissions=frozenset({VIEW}))


def issued(**over: Any) -> tokens.Issued:
    return tokens.issue(**{"actor": ANA, "name": "nightly", "scopes": [VIEW], "days": 30, **over})


def test_scopes__are_the_permission_keys() -> None:
    assert set(SCOPES) == {VIEW, REPLAY, BULK_PERMISSION, REPAIR, CUTOVER, ACCESS, AUDIT}


def test_issue__stores_a_digest_and_tells_the_secret_once() -> None:
    made = issued()
    assert made.secret.startswith(PREFIX)
    assert len(made.secret) == len(PREFIX) + 43
    (row,) = rows_of("console_apitoken")
    assert row["digest"] == digest_secret(made.secret)
    assert made.secret.removeprefix(PREFIX) not in str(rows_of("console_apitoken") + rows_of("console_auditentry"))
    assert (made.token.scopes, made.token.is_live, made.token.last_used_on) == ((VIEW,), True, None)
    assert 29 <= (made.token.expires_at - made.token.created_at).days <= 30
    assert [("done", made.token.token_id, "ana")] == entries("api_token.issued")


@pytest.mark.parametrize(
    ("over", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["integration.everything"]}, "scopes"),
        ({"scopes": [VIEW, AUDIT]}, "scopes"),
        ({"days": 0}, "days"),
        ({"days": 366}, "days"),
    ],
)
def test_issue__names_what_is_not_valid_and_writes_nothing(over: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        issued(**over)
    assert field == caught.value.data_fields["field"]
    assert [] == rows_of("console_apitoken")


def test_admit__knows_a_live_token_and_no_other() -> None:
    made = issued()
    assert made.token.token_id == tokens.admit(made.secret).token_id
    assert tokens.get_token(made.token.token_id, owner_id=7).last_used_on is not None
    for wrong in ("", PREFIX, made.secret[:-1], made.secret + "x", digest_secret(made.secret), made.secret.upper()):
        with pytest.raises(TokenInvalid):
            tokens.admit(wrong)


@pytest.mark.parametrize("end", ["revoked_at = UTC_TIMESTAMP(6)", "expires_at = UTC_TIMESTAMP(6)"])
def test_admit__refuses_a_token_that_ended(end: str) -> None:
    made = issued()
    change(f"UPDATE console_apitoken SET {end}")
    with pytest.raises(TokenInvalid):
        tokens.admit(made.secret)


def test_admit__lets_so_many_in_at_once_and_then_says_when() -> None:
    made = issued()
    for _ in range(5):
        tokens.admit(made.secret, per_minute=6, at_once=5)
    with pytest.raises(TooManyRequests) as caught:
        tokens.admit(made.secret, per_minute=6, at_once=5)
    assert 1 <= caught.value.data_fields["retry_after"] <= 10
    # Time goes on.
    change("UPDATE console_apitoken SET due_at = due_at - INTERVAL 10 SECOND")
    tokens.admit(made.secret, per_minute=6, at_once=5)
    with pytest.raises(TooManyRequests):
        tokens.admit(made.secret, per_minute=6, at_once=5)


def test_admit__paces_each_token_by_itself() -> None:
    first, second = issued(), issued(name="other")
    tokens.admit(first.secret, per_minute=1, at_once=1)
    assert second.token.token_id == tokens.admit(second.secret, per_minute=1, at_once=1).token_id


def test_revoke__is_the_owners_and_is_told_once() -> None:
    made = issued()
    with pytest.raises(TokenNotFound):
        tokens.revoke(made.token.token_id, actor=BOB)
    assert tokens.get_token(made.token.token_id, owner_id=7).is_live
    ended = tokens.revoke(made.token.token_id, actor=ANA)
    assert ended.revoked_at == tokens.revoke(made.token.token_id, actor=ANA).revoked_at
    assert [("done", made.token.token_id, "ana")] == entries("api_token.revoked")


def test_list__is_ones_own_newest_first() -> None:
    made = [issued(name=str(number)).token.token_id for number in range(3)]
    issued(actor=BOB, name="bob's")
    assert made[::-1] == [token.token_id for token in tokens.list_tokens(7)]
    assert 4 == ApiToken.objects.count()
