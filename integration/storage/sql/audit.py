"""Statements on `console_auditentry`, rank leaf: append and read, never change."""

from __future__ import annotations

from integration.storage.statements import Returns, Statement

READ_DATABASE_TIME = Statement(
    name="READ_DATABASE_TIME",
    text="SELECT UTC_TIMESTAMP(6) AS Now",
    returns=Returns.ROW,
)

READ_AUDIT_HEAD = Statement(
    name="READ_AUDIT_HEAD",
    text="""
    SELECT seq, digest
      FROM console_auditentry
     WHERE stream = %(stream)s
     ORDER BY seq DESC
     LIMIT 1
    """,
    returns=Returns.ROW,
)

# Asked in the transaction that would append, after the head was read: see `record_once`.
FIND_RECENT_AUDIT_ENTRY = Statement(
    name="FIND_RECENT_AUDIT_ENTRY",
    text="""
    SELECT id
      FROM console_auditentry FORCE INDEX (audit_ref_at_id)
     WHERE ref_id = %(ref_id)s AND at > UTC_TIMESTAMP(6) - INTERVAL %(within_seconds)s SECOND
       AND action = %(action)s AND actor_id = %(actor_id)s
     LIMIT 1
    """,
    returns=Returns.ROW,
)

INSERT_AUDIT_ENTRY = Statement(
    name="INSERT_AUDIT_ENTRY",
    text="""
    INSERT INTO console_auditentry
           (id, stream, seq, previous_digest, digest, at, actor_id, actor_name, via, remote_addr, action, outcome,
            ref_kind, ref_id, org_id, namespace, pack_install_id, event_kind, reason, facts)
    VALUES (%(id)s, %(stream)s, %(seq)s, %(previous_digest)s, %(digest)s, %(at)s, %(actor_id)s, %(actor_name)s,
            %(via)s, %(remote_addr)s, %(action)s, %(outcome)s, %(ref_kind)s, %(ref_id)s, %(org_id)s, %(namespace)s,
            %(pack_install_id)s, %(event_kind)s, %(reason)s, %(facts)s)
    """,
    returns=Returns.COUNT,
)

LIST_AUDIT_STREAMS = Statement(
    name="LIST_AUDIT_STREAMS",
    text="""
    SELECT stream, MAX(seq) AS seq
      FROM console_auditentry
     GROUP BY stream
     ORDER BY stream
    """,
    returns=Returns.ROWS,
)

LIST_AUDIT_STREAM_AFTER = Statement(
    name="LIST_AUDIT_STREAM_AFTER",
    text="""
    SELECT id, stream, seq, previous_digest, digest, at, actor_id, actor_name, via, remote_addr, action, outcome,
           ref_kind, ref_id, org_id, namespace, pack_install_id, event_kind, reason, facts
      FROM console_auditentry
     WHERE stream = %(stream)s AND seq > %(seq)s
     ORDER BY seq
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)
