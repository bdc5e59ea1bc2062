"""Lock-free statements of the audit page: one page of keys, in an order that an index gives.

A list reads at most `window` keys of the index that its first filter names, and only then asks the other filters, so
that none that nothing matches can walk the whole trail. A row of its own, `last`, tells the last key of a window
that was full.
"""

from __future__ import annotations

from typing import Final, LiteralString

from integration.storage.statements import Returns, Statement

#: What narrows the keys -> the index that has them in the order of the trail, and its condition.
_RANGES: Final[dict[str, tuple[LiteralString, LiteralString]]] = {
    "": ("audit_at_id", ""),
    "namespace": ("audit_namespace_at_id", "k.namespace = %(namespace)s AND "),
    "ref": ("audit_ref_at_id", "k.ref_id = %(ref)s AND "),
    "actor": ("audit_actor_at_id", "k.actor_name = %(actor)s AND "),
    "action": ("audit_action_at_id", "k.action = %(action)s AND "),
    "outcome": ("audit_outcome_at_id", "k.outcome = %(outcome)s AND "),
}
#: The columns have the database's own collation, which may take names for one that differ in case.
_FILTERS: Final = """(%(namespace)s IS NULL OR s.namespace COLLATE utf8mb4_bin = %(namespace)s)
           AND (%(ref)s IS NULL OR s.ref_id COLLATE utf8mb4_bin = %(ref)s)
           AND (%(actor)s IS NULL OR s.actor_name COLLATE utf8mb4_bin = %(actor)s)
           AND (%(action)s IS NULL OR s.action COLLATE utf8mb4_bin = %(action)s)
           AND (%(outcome)s IS NULL OR s.outcome COLLATE utf8mb4_bin = %(outcome)s)"""


def _list(name: str, by: str, *, older: bool) -> Statement:
    index, equal = _RANGES[by]
    order: LiteralString = "DESC" if older else "ASC"
    place: LiteralString = (
        "k.at <= %(at)s AND (k.at < %(at)s OR (k.at = %(at)s AND k.id < %(id)s))"
        if older
        else "k.at >= %(at)s AND (k.at > %(at)s OR (k.at = %(at)s AND k.id > %(id)s))"
    )
    keys: LiteralString = f"""FROM console_auditentry AS k FORCE INDEX ({index})
         WHERE {equal}k.at >= %(since)s AND k.at < %(until)s AND {place}
         ORDER BY k.at {order}, k.id {order} LIMIT """
    text: LiteralString = f"""
    (SELECT 'entry' AS What, s.at, s.id
       FROM (SELECT k.at, k.id, k.namespace, k.ref_id, k.actor_name, k.action, k.outcome {keys}%(window)s) AS s
      WHERE {_FILTERS}
      ORDER BY s.at {order}, s.id {order}
      LIMIT %(limit)s)
    UNION ALL
    (SELECT 'last' AS What, s.at, s.id FROM (SELECT k.at, k.id {keys}%(last)s, 1) AS s)
    """
    return Statement(name=name, text=text, returns=Returns.ROWS)


LIST_AUDIT_OLDER = _list("LIST_AUDIT_OLDER", "", older=True)
LIST_AUDIT_NEWER = _list("LIST_AUDIT_NEWER", "", older=False)
LIST_AUDIT_OF_NAMESPACE_OLDER = _list("LIST_AUDIT_OF_NAMESPACE_OLDER", "namespace", older=True)
LIST_AUDIT_OF_NAMESPACE_NEWER = _list("LIST_AUDIT_OF_NAMESPACE_NEWER", "namespace", older=False)
LIST_AUDIT_OF_REF_OLDER = _list("LIST_AUDIT_OF_REF_OLDER", "ref", older=True)
LIST_AUDIT_OF_REF_NEWER = _list("LIST_AUDIT_OF_REF_NEWER", "ref", older=False)
LIST_AUDIT_OF_ACTOR_OLDER = _list("LIST_AUDIT_OF_ACTOR_OLDER", "actor", older=True)
LIST_AUDIT_OF_ACTOR_NEWER = _list("LIST_AUDIT_OF_ACTOR_NEWER", "actor", older=False)
LIST_AUDIT_OF_ACTION_OLDER = _list("LIST_AUDIT_OF_ACTION_OLDER", "action", older=True)
LIST_AUDIT_OF_ACTION_NEWER = _list("LIST_AUDIT_OF_ACTION_NEWER", "action", older=False)
LIST_AUDIT_OF_OUTCOME_OLDER = _list("LIST_AUDIT_OF_OUTCOME_OLDER", "outcome", older=True)
LIST_AUDIT_OF_OUTCOME_NEWER = _list("LIST_AUDIT_OF_OUTCOME_NEWER", "outcome", older=False)

READ_AUDIT_ENTRIES = Statement(
    name="READ_AUDIT_ENTRIES",
    text="""
    SELECT id, stream, seq, previous_digest, digest, at, actor_id, actor_name, via, remote_addr, action, outcome,
           ref_kind, ref_id, org_id, namespace, pack_install_id, event_kind, reason, facts
      FROM console_auditentry
     WHERE id IN %(ids)s
    """,
    returns=Returns.ROWS,
)
