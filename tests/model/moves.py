"""Every statement that moves a WorkItem, with the best credentials that can be had, and whether it may move one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from integration.states import TRANSITIONS, Maker
from integration.storage.sql import cancellations, dependencies, work_items
from integration.storage.statements import Statement
from tests.model.shadow import Item, Shadow

#: Made by a cutover, or by the executor of earlier builds.
_OUT_OF_SCOPE = frozenset({"terminalize_mirror"})
_MAKERS = frozenset({Maker.CLAIMANT, Maker.REAPER, Maker.OPERATOR, Maker.RESOLVER})
#: The legal moves that the machine must have made: their names and the states that they leave.
LEGAL = frozenset(
    (move.name, move.source.value) for move in TRANSITIONS if move.made_by in _MAKERS and move.name not in _OUT_OF_SCOPE
)
STATES = frozenset({source for _, source in LEGAL} | {"succeeded", "skipped", "dead", "cancelled"})
_FAILURE = {"failure_class": "flow_error", "failure_summary": "The flow raised an error."}
_LEASE = {"process_id": "p" * 36, "lease_token": "theirs", "lease_seconds": 60}


@dataclass(frozen=True, slots=True)
class Move:
    """A statement and when the model permits it.

    Attributes:
        name: What it does.
        statement: The statement.
        is_permitted: Whether it may match the row, credentials apart.
        params: Values besides the row's ids, token and epoch.
        needs_token: A claimant's or a reaper's: it must name token and epoch.
    """

    name: str
    statement: Statement
    is_permitted: Callable[[Shadow, Item], bool]
    params: dict[str, Any]
    needs_token: bool = True


def _is_claimed(_: Shadow, item: Item) -> bool:
    return item.state == "processing"


def _may_first(_: Shadow, item: Item) -> bool:
    # Lanes are decided before the statement; a taken target lane is the unique key's to refuse.
    return item.state == "pending" and item.is_due and (item.is_active or not item.is_projection)


MOVES = (
    Move("first_claim", work_items.FIRST_CLAIM, _may_first, _LEASE, needs_token=False),
    Move(
        "later_claim",
        work_items.LATER_CLAIM,
        lambda _, item: item.state == "retry" and item.is_due,
        _LEASE,
        needs_token=False,
    ),
    Move("renew", work_items.RENEW_LEASE, _is_claimed, {"lease_seconds": 60}),
    Move("complete", work_items.COMPLETE_WORK_ITEM, _is_claimed, {}),
    Move(
        "complete_many",
        work_items.COMPLETE_WORK_ITEMS,
        lambda _, item: item.state == "processing" and not item.is_projection,
        {},
    ),
    Move("skip", work_items.SKIP_WORK_ITEM, _is_claimed, {}),
    Move("release", work_items.RELEASE_WORK_ITEM, _is_claimed, _FAILURE),
    Move(
        "retry",
        work_items.RETRY_WORK_ITEM,
        lambda _, item: item.state == "processing" and not item.is_last_attempt and not item.is_cancel_requested,
        {**_FAILURE, "delay_microseconds": 0},
    ),
    Move("bury", work_items.BURY_WORK_ITEM, _is_claimed, _FAILURE),
    Move(
        "acknowledge_cancel",
        work_items.ACKNOWLEDGE_CANCEL,
        lambda _, item: item.state == "processing" and item.is_cancel_requested,
        {},
    ),
    Move(
        "reap",
        work_items.REAP_WORK_ITEM,
        lambda _, item: item.state == "processing" and item.is_expired and not item.is_last_attempt,
        {"slack_seconds": 5, "failure_summary": "x"},
    ),
    Move(
        "reap_exhausted",
        work_items.REAP_EXHAUSTED_WORK_ITEM,
        lambda _, item: item.state == "processing" and item.is_expired and item.is_last_attempt,
        {"slack_seconds": 5, "failure_summary": "x"},
    ),
    Move(
        "cancel",
        cancellations.CANCEL_WORK_ITEM,
        lambda _, item: item.state in {"pending", "retry", "blocked"},
        {"actor_name": "ana"},
        needs_token=False,
    ),
    Move("request_cancel", cancellations.REQUEST_CANCEL, _is_claimed, {"actor_name": "ana"}, needs_token=False),
    Move(
        "block",
        dependencies.BLOCK_WORK_ITEMS,
        lambda _, item: item.state == "pending",
        {"blocked_on": "deal.created"},
        needs_token=False,
    ),
    Move(
        "unblock",
        dependencies.UNBLOCK_WORK_ITEMS,
        lambda _, item: item.state == "blocked",
        {"blocked_on": "deal.created"},
        needs_token=False,
    ),
)
#: Pairs of a statement and a state in which it may never match, whatever else the row says.
ILLEGAL = frozenset(
    (move.name, state)
    for move in MOVES
    for state in STATES
    if not any(
        move.is_permitted(
            Shadow(),
            Item(
                0,
                kind,
                "deal:1",
                "deal:1",
                1,
                1,
                3,
                True,
                state=state,
                attempt=attempt,
                is_expired=True,
                is_cancel_requested=asked,
            ),
        )
        for kind in ("deal.updated", "deal.created")
        for attempt in (1, 3)
        for asked in (True, False)
    )
)
