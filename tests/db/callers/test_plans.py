"""What every API request asks is found by a key, however many tokens and answers there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections

from integration.storage.sql import api_callers as sql
from integration.storage.statements import Statement
from integration.values import digest_text, new_id
from tests.db.ingress.test_plans import faults_of_plan

pytestmark = pytest.mark.django_db

STATEMENTS = [
    sql.FIND_TOKEN,
    sql.FIND_TOKEN_BY_DIGEST,
    sql.LIST_TOKENS_OF_OWNER,
    sql.REVOKE_TOKEN,
    sql.TAKE_TURN,
    sql.FIND_KEPT_ANSWER,
    sql.TAKE_OVER_KEPT_ANSWER,
    sql.KEEP_ANSWER,
    sql.LET_GO_OF_ANSWER,
    sql.LIST_ENDED_ANSWERS,
    sql.DELETE_ENDED_ANSWERS,
]


@pytest.fixture
def crowd() -> dict[str, Any]:
    """Hundreds of tokens of many owners, and of answers."""
    now = datetime.now(UTC).replace(tzinfo=None)
    ids = [new_id() for _ in range(600)]
    keys = [digest_text(token_id) for token_id in ids]
    with connections["default"].cursor() as cursor:
        cursor.executemany(
            "INSERT INTO console_apitoken (id, digest, owner_id, name, scopes, created_at, expires_at, due_at)"
            " VALUES (%s, %s, %s, 'x', 'x', %s, %s, %s)",
            [
                (token_id, key, number % 50, now, now + timedelta(days=1), now)
                for number, (token_id, key) in enumerate(zip(ids, keys, strict=True))
            ],
        )
        cursor.executemany(
            "INSERT INTO console_keptanswer (id, request_digest, claim, under_way_until, expires_at)"
            " VALUES (%s, %s, 'c', %s, %s)",
            [(key, key, now, now + timedelta(seconds=number)) for number, key in enumerate(keys)],
        )
    return {
        "id": ids[300],
        "ids": tuple(sorted(keys[300:305])),
        "digest": keys[300],
        "owner_id": 7,
        "limit": 20,
        "spacing": 1,
        "ahead": 1,
        "claim": "c",
        "before": "c",
        "under_way": 1,
        "status": 200,
        "body": "x",
    }


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_statements__find_their_rows_by_a_key(statement: Statement, crowd: dict[str, Any], engine: str) -> None:
    assert [] == faults_of_plan(engine, statement, crowd)
