"""The successor handoff: whoever ends a projection's generation gives its active key to the queued one.

Two things make it hold without a gap lock. Admission and replay lock a key's nonterminal generations before they
decide to extend, queue or activate; and the queued generation is looked for in a *later* statement than the one
that ended the active generation. Whoever queues a generation therefore either committed before the ended row was
locked here, and is seen, or waits for that lock and then finds the active generation ended.
"""

from __future__ import annotations

from typing import Any, Final

import structlog
from prometheus_client import Counter

from integration.failpoints import failpoint
from integration.states import WorkItemState
from integration.storage.db import Tx
from integration.storage.sql import handoffs, projections
from integration.storage.statements import Statement

HANDOFFS: Final = Counter(
    "lockhouse_projection_handoffs_total", "Generations that ended, by whether one was queued behind.", ["outcome"]
)
#: A queued generation that waits for a dependency gets its key all the same: nobody else would give it one.
_QUEUED: Final = frozenset({WorkItemState.PENDING, WorkItemState.BLOCKED})
log = structlog.get_logger(__name__)


def end_generation(tx: Tx, ending: Statement, params: dict[str, Any], *, projection_key: str | None) -> bool:
    """End a generation by its own compare-and-swap and hand its active key on, in one transaction.

    The steps: the swap, which also takes the key off the row; if it matched, `hand_over`.

    Args:
        tx: The transaction.
        ending: The terminal transition; it sets `ProjectionActiveKey` to NULL and its WHERE holds what permits it.
        params: Its values.
        projection_key: The generation's `ProjectionKey`; None for a row that has none, and nothing is handed on.

    Returns:
        False when the swap matched nothing; nothing was changed then.

    Locks: WORK_ITEM, twice: the ended generation, then its successor.
    Rule: A-25, P-24.
    """
    if tx.execute(ending, params) != 1:
        return False
    if projection_key is not None:
        failpoint("handoff.before")
        hand_over(tx, projection_key)
    return True


def hand_over(tx: Tx, projection_key: str) -> str | None:
    """Give a projection's free active key to the generation that waits for it.

    Args:
        tx: The transaction in which an earlier statement ended the generation that had the key.
        projection_key: The `ProjectionKey`.

    Returns:
        The generation that has the key now, or None when none was queued.

    Locks: WORK_ITEM.
    Rule: P-24.
    """
    newest = tx.fetch_one(projections.FIND_NEWEST_OF_PROJECTION, {"projection_key": projection_key})
    if newest is None or not _is_queued(newest):
        HANDOFFS.labels("none").inc()
        return None
    work_id = str(newest["WorkId"])
    given = tx.execute(handoffs.ACTIVATE_SUCCESSOR, {"work_id": work_id, "projection_key": projection_key})
    if given != 1:
        # Ended between the two statements, by an operator; nothing can be queued while this row is held.
        log.info("projection.successor_ended", work_id=work_id)
        HANDOFFS.labels("ended").inc()
        return None
    HANDOFFS.labels("given").inc()
    return work_id


def _is_queued(row: dict[str, Any]) -> bool:
    return row["State"] in _QUEUED and row["Attempt"] == 0 and row["ProjectionActiveKey"] is None
