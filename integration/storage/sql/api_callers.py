"""Statements on `console_apitoken` and `console_keptanswer`, rank leaf: who calls the API, and what it was answered."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

INSERT_TOKEN = Statement(
    name="INSERT_TOKEN",
    text="""
    INSERT INTO console_apitoken (id, digest, owner_id, name, scopes, created_at, expires_at, due_at)
    VALUES (%(id)s, %(digest)s, %(owner_id)s, %(name)s, %(scopes)s, UTC_TIMESTAMP(6),
            UTC_TIMESTAMP(6) + INTERVAL %(days)s DAY, UTC_TIMESTAMP(6))
    """,
    returns=Returns.COUNT,
)

FIND_TOKEN = Statement(
    name="FIND_TOKEN",
    text="""
    SELECT id, owner_id, name, scopes, created_at, expires_at, revoked_at, last_used_on,
           revoked_at IS NULL AND expires_at > UTC_TIMESTAMP(6) AS is_live
      FROM console_apitoken
     WHERE id = %(id)s
    """,
    returns=Returns.ROW,
)

FIND_TOKEN_BY_DIGEST = Statement(
    name="FIND_TOKEN_BY_DIGEST",
    text="""
    SELECT id, owner_id, name, scopes, created_at, expires_at, revoked_at, last_used_on, due_at,
           UTC_TIMESTAMP(6) AS now, revoked_at IS NULL AND expires_at > UTC_TIMESTAMP(6) AS is_live
      FROM console_apitoken
     WHERE digest = %(digest)s
    """,
    returns=Returns.ROW,
)

LIST_TOKENS_OF_OWNER = Statement(
    name="LIST_TOKENS_OF_OWNER",
    text="""
    SELECT id, owner_id, name, scopes, created_at, expires_at, revoked_at, last_used_on,
           revoked_at IS NULL AND expires_at > UTC_TIMESTAMP(6) AS is_live
      FROM console_apitoken
     WHERE owner_id = %(owner_id)s
     ORDER BY id DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

REVOKE_TOKEN = Statement(
    name="REVOKE_TOKEN",
    text="""
    UPDATE console_apitoken
       SET revoked_at = UTC_TIMESTAMP(6)
     WHERE id = %(id)s AND revoked_at IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

TAKE_TURN = Statement(
    name="TAKE_TURN",
    text="""
    UPDATE console_apitoken
       SET due_at = GREATEST(due_at, UTC_TIMESTAMP(6)) + INTERVAL %(spacing)s MICROSECOND,
           last_used_on = UTC_DATE()
     WHERE id = %(id)s
       AND revoked_at IS NULL
       AND expires_at > UTC_TIMESTAMP(6)
       AND due_at <= UTC_TIMESTAMP(6) + INTERVAL %(ahead)s MICROSECOND
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

INSERT_KEPT_ANSWER = Statement(
    name="INSERT_KEPT_ANSWER",
    text="""
    INSERT INTO console_keptanswer (id, request_digest, claim, under_way_until, expires_at)
    VALUES (%(id)s, %(request_digest)s, %(claim)s, UTC_TIMESTAMP(6) + INTERVAL %(under_way)s SECOND,
            UTC_TIMESTAMP(6) + INTERVAL %(kept)s SECOND)
    """,
    returns=Returns.COUNT,
)

FIND_KEPT_ANSWER = Statement(
    name="FIND_KEPT_ANSWER",
    text="""
    SELECT request_digest, claim, status, body
      FROM console_keptanswer
     WHERE id = %(id)s AND expires_at >= UTC_TIMESTAMP(6)
    """,
    returns=Returns.ROW,
)

TAKE_OVER_KEPT_ANSWER = Statement(
    name="TAKE_OVER_KEPT_ANSWER",
    text="""
    UPDATE console_keptanswer
       SET claim = %(claim)s, under_way_until = UTC_TIMESTAMP(6) + INTERVAL %(under_way)s SECOND
     WHERE id = %(id)s
       AND claim = %(before)s
       AND status IS NULL
       AND under_way_until < UTC_TIMESTAMP(6)
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

KEEP_ANSWER = Statement(
    name="KEEP_ANSWER",
    text="""
    UPDATE console_keptanswer
       SET status = %(status)s, body = %(body)s
     WHERE id = %(id)s AND claim = %(claim)s AND status IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

LET_GO_OF_ANSWER = Statement(
    name="LET_GO_OF_ANSWER",
    text="""
    DELETE FROM console_keptanswer
     WHERE id = %(id)s AND claim = %(claim)s AND status IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

LIST_ENDED_ANSWERS = Statement(
    name="LIST_ENDED_ANSWERS",
    text="""
    SELECT id
      FROM console_keptanswer
     WHERE expires_at < UTC_TIMESTAMP(6)
     ORDER BY expires_at
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

DELETE_ENDED_ANSWERS = Statement(
    name="DELETE_ENDED_ANSWERS",
    text="""
    DELETE FROM console_keptanswer
     WHERE id IN %(ids)s AND expires_at < UTC_TIMESTAMP(6)
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)
