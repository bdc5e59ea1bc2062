"""Statements on `console_replaybatch` and `console_replaybatchitem`, rank leaf: the ledger of bulk replays."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

INSERT_BATCH = Statement(
    name="INSERT_BATCH",
    text="""
    INSERT INTO console_replaybatch
           (id, state, created_at, created_by_id, created_by_name, reason, selection, selection_digest, request_digest,
            total, is_capped, left_out, canary, is_past_canary, halt_after, per_minute, resumed_at, halt_code)
    VALUES (%(id)s, 'running', UTC_TIMESTAMP(6), %(created_by_id)s, %(created_by_name)s, %(reason)s, %(selection)s,
            %(selection_digest)s, %(request_digest)s, %(total)s, %(is_capped)s, %(left_out)s, %(canary)s,
            0, %(halt_after)s, %(per_minute)s, UTC_TIMESTAMP(6), '')
    """,
    returns=Returns.COUNT,
)

INSERT_BATCH_ITEMS = Statement(
    name="INSERT_BATCH_ITEMS",
    text="""
    INSERT INTO console_replaybatchitem
           (id, batch_id, position, ref_kind, ref_id, namespace, event_kind, source_lane, outcome, code)
    VALUES (%(id)s, %(batch_id)s, %(position)s, %(ref_kind)s, %(ref_id)s, %(namespace)s, %(event_kind)s,
            %(source_lane)s, %(outcome)s, %(code)s)
    """,
    returns=Returns.COUNT,
    many=True,
)

INSERT_BATCH_PLACES = Statement(
    name="INSERT_BATCH_PLACES",
    text="""
    INSERT INTO console_replaybatchplace (id, batch_id, namespace)
    VALUES (%(id)s, %(batch_id)s, %(namespace)s)
    """,
    returns=Returns.COUNT,
    many=True,
)

LIST_BATCH_PLACES = Statement(
    name="LIST_BATCH_PLACES",
    text="""
    SELECT namespace
      FROM console_replaybatchplace
     WHERE batch_id = %(id)s
     ORDER BY namespace
    """,
    returns=Returns.ROWS,
)

FIND_BATCH = Statement(
    name="FIND_BATCH",
    text="""
    SELECT id, state, created_at, created_by_id, created_by_name, reason, selection, selection_digest, total,
           is_capped, left_out, canary, is_past_canary, halt_after, per_minute, resumed_at, ended_at,
           halt_code, runner_id
      FROM console_replaybatch
     WHERE id = %(id)s
    """,
    returns=Returns.ROW,
)

FIND_BATCH_OF_REQUEST = Statement(
    name="FIND_BATCH_OF_REQUEST",
    text="""
    SELECT id
      FROM console_replaybatch
     WHERE request_digest = %(request_digest)s
    """,
    returns=Returns.ROW,
)

LIST_BATCHES = Statement(
    name="LIST_BATCHES",
    text="""
    SELECT id, state, created_at, created_by_id, created_by_name, reason, selection, selection_digest, total,
           is_capped, left_out, canary, is_past_canary, halt_after, per_minute, resumed_at, ended_at,
           halt_code, runner_id
      FROM console_replaybatch
     WHERE id < %(before)s
     ORDER BY id DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# The table grows by what people do, a row at a time: those of a few namespaces are looked for in all of it. A batch
# that touches any other namespace is not among them.
LIST_BATCHES_WITHIN = Statement(
    name="LIST_BATCHES_WITHIN",
    text="""
    SELECT b.id, b.state, b.created_at, b.created_by_id, b.created_by_name, b.reason, b.selection, b.selection_digest,
           b.total, b.is_capped, b.left_out, b.canary, b.is_past_canary, b.halt_after, b.per_minute, b.resumed_at,
           b.ended_at, b.halt_code, b.runner_id
      FROM console_replaybatch AS b
     WHERE b.id < %(before)s
       AND EXISTS (SELECT 1 FROM console_replaybatchplace AS i
                    WHERE i.batch_id = b.id AND i.namespace IN %(namespaces)s)
       AND NOT EXISTS (SELECT 1 FROM console_replaybatchplace AS o
                        WHERE o.batch_id = b.id AND o.namespace NOT IN %(namespaces)s)
     ORDER BY b.id DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# At most twelve groups: (batch_id, outcome) is an index.
COUNT_BATCH_OUTCOMES = Statement(
    name="COUNT_BATCH_OUTCOMES",
    text="""
    SELECT batch_id, outcome, COUNT(*) AS Found
      FROM console_replaybatchitem
     WHERE batch_id IN %(ids)s
     GROUP BY batch_id, outcome
    """,
    returns=Returns.ROWS,
)

COUNT_BATCH_REFUSALS = Statement(
    name="COUNT_BATCH_REFUSALS",
    text="""
    SELECT code, COUNT(*) AS Found
      FROM console_replaybatchitem
     WHERE batch_id = %(id)s AND outcome = 'refused'
     GROUP BY code
     ORDER BY code
    """,
    returns=Returns.ROWS,
)

LIST_BATCH_ITEMS = Statement(
    name="LIST_BATCH_ITEMS",
    text="""
    SELECT position, ref_kind, ref_id, namespace, event_kind, source_lane, outcome, code, child_work_id,
           child_event_id, ended_at
      FROM console_replaybatchitem
     WHERE batch_id = %(id)s AND position > %(after)s
     ORDER BY position
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_LEFT_ITEMS = Statement(
    name="LIST_LEFT_ITEMS",
    text="""
    SELECT id, position, ref_kind, ref_id
      FROM console_replaybatchitem
     WHERE batch_id = %(id)s AND outcome = ''
     ORDER BY position
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_RUNNABLE_BATCHES = Statement(
    name="LIST_RUNNABLE_BATCHES",
    text="""
    SELECT id
      FROM console_replaybatch
     WHERE state = 'running'
       AND (lease_until IS NULL OR lease_until < UTC_TIMESTAMP(6) OR runner_id = %(runner_id)s)
     ORDER BY id
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

FIND_RUNNING_BATCH = Statement(
    name="FIND_RUNNING_BATCH",
    text="""
    SELECT id
      FROM console_replaybatch
     WHERE state = 'running'
     LIMIT 1
    """,
    returns=Returns.ROW,
)

TAKE_BATCH = Statement(
    name="TAKE_BATCH",
    text="""
    UPDATE console_replaybatch
       SET runner_id = %(runner_id)s, lease_until = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND
     WHERE id = %(id)s AND state = 'running'
       AND (lease_until IS NULL OR lease_until < UTC_TIMESTAMP(6) OR runner_id = %(runner_id)s)
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

LEAVE_BATCH = Statement(
    name="LEAVE_BATCH",
    text="""
    UPDATE console_replaybatch
       SET runner_id = NULL, lease_until = NULL
     WHERE id = %(id)s AND runner_id = %(runner_id)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

# What every item asks first: is the batch still running, and still this runner's.
READ_BATCH_TURN = Statement(
    name="READ_BATCH_TURN",
    text="""
    SELECT state, runner_id, lease_until > UTC_TIMESTAMP(6) AS IsLeased, UTC_TIMESTAMP(6) AS Now
      FROM console_replaybatch
     WHERE id = %(id)s
    """,
    returns=Returns.ROW,
)

END_BATCH_ITEM = Statement(
    name="END_BATCH_ITEM",
    text="""
    UPDATE console_replaybatchitem
       SET outcome = %(outcome)s, code = %(code)s, child_work_id = %(child_work_id)s,
           child_event_id = %(child_event_id)s, ended_at = UTC_TIMESTAMP(6)
     WHERE id = %(id)s AND outcome = ''
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

LIST_LAST_ENDED_ITEMS = Statement(
    name="LIST_LAST_ENDED_ITEMS",
    text="""
    SELECT outcome, code, child_work_id, ended_at
      FROM console_replaybatchitem
     WHERE batch_id = %(id)s AND ended_at >= %(since)s
     ORDER BY ended_at DESC, position DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_LAST_ENDED_CHILDREN = Statement(
    name="LIST_LAST_ENDED_CHILDREN",
    text="""
    SELECT WorkId, State, TerminalAt
      FROM _System_ConnectorWorkItem
     WHERE WorkId IN %(work_ids)s AND TerminalAt IS NOT NULL
     ORDER BY TerminalAt DESC, WorkId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

STOP_BATCH = Statement(
    name="STOP_BATCH",
    text="""
    UPDATE console_replaybatch
       SET state = %(state)s, halt_code = %(halt_code)s, runner_id = NULL, lease_until = NULL,
           ended_at = IF(%(is_end)s, UTC_TIMESTAMP(6), NULL)
     WHERE id = %(id)s AND state = 'running' AND runner_id = %(runner_id)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

CONTINUE_BATCH = Statement(
    name="CONTINUE_BATCH",
    text="""
    UPDATE console_replaybatch
       SET is_past_canary = (is_past_canary OR state = 'waiting'), state = 'running', halt_code = '',
           resumed_at = UTC_TIMESTAMP(6)
     WHERE id = %(id)s AND state IN ('waiting', 'halted')
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

# The runner loses the batch with its state: whoever resumes it may give it to another one.
PAUSE_BATCH = Statement(
    name="PAUSE_BATCH",
    text="""
    UPDATE console_replaybatch
       SET state = 'paused', runner_id = NULL, lease_until = NULL
     WHERE id = %(id)s AND state = 'running'
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

# `resumed_at` stays: a pause is no judgement of what repeats, and no way around the pace.
RESUME_BATCH = Statement(
    name="RESUME_BATCH",
    text="""
    UPDATE console_replaybatch
       SET state = 'running'
     WHERE id = %(id)s AND state = 'paused'
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

CANCEL_BATCH = Statement(
    name="CANCEL_BATCH",
    text="""
    UPDATE console_replaybatch
       SET state = 'cancelled', runner_id = NULL, lease_until = NULL, ended_at = UTC_TIMESTAMP(6)
     WHERE id = %(id)s AND state IN ('running', 'paused', 'waiting', 'halted')
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)
