"""What a rollback proves before it hands anything over: nothing is in hand, and nothing that waits was ever executed.

The same reads serve the survey, which takes no locks, and each of the rollback's transactions, which holds the
namespace, the pack and every process row that could claim: then what was read stays as it is, but for an item that a
resolver blocks, and that the hand-over then misses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from integration.cutover.inbound.rollback_policy import decide_in_hand, decide_item, decide_ranges, refuse
from integration.projection.coverage import read_cutoffs
from integration.storage.db import Reader, Row
from integration.storage.sql import rollback_fences as sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a rollback may hand over now.

    Attributes:
        items: The next items, each proved; retries first.
        is_last: There is nothing else.
        cutoff: The pack's `LegacyMaxOrdinal`; 0 without a protocol.
    """

    items: Sequence[Row]
    is_last: bool
    cutoff: int


def survey(reader: Reader, pack_install_id: str, *, limit: int) -> None:
    """Refuse what would be refused with claims stopped as well, before they are.

    Args:
        reader: Takes no lock.
        pack_install_id: The incarnation.
        limit: How many items are looked at.

    Raises:
        RollbackRefused: Something other than what runs stands against the rollback.
    """
    _prove(reader, pack_install_id, limit=limit, are_claims_stopped=False)


def prove(reader: Reader, pack_install_id: str, *, limit: int) -> Proof:
    """Prove that nothing of a pack is in hand, and find the next items to hand over.

    Args:
        reader: The transaction that holds the namespace, the pack and its processes, which are all evicted.
        pack_install_id: The incarnation.
        limit: How many items at the most.

    Returns:
        The items; every one may be handed over.

    Raises:
        RollbackRefused: An item runs, waits for something else, was dispatched, or is not what it should be.

    Locks: none.
    Rule: C-03, C-04, C-09.
    """
    return _prove(reader, pack_install_id, limit=limit, are_claims_stopped=True)


def _prove(reader: Reader, pack_install_id: str, *, limit: int, are_claims_stopped: bool) -> Proof:
    by_pack = {"pack_install_id": pack_install_id}
    in_hand = {row["State"]: int(row["Items"]) for row in reader.fetch_all(sql.COUNT_IN_HAND, by_pack)}
    refuse(decide_in_hand(in_hand, are_claims_stopped=are_claims_stopped))
    cutoff = read_cutoffs(reader, (pack_install_id,)).get(pack_install_id, 0)
    refuse(decide_ranges(reader.fetch_one(sql.FIND_INPUT_ABOVE_CUTOFF, {**by_pack, "cutoff": cutoff}), cutoff))
    items = reader.fetch_all(sql.LIST_RETRIES_TO_FENCE, {**by_pack, "limit": limit + 1})
    if len(items) <= limit:
        items += reader.fetch_all(sql.LIST_PENDING_TO_FENCE, {**by_pack, "limit": limit + 1 - len(items)})
    is_last = len(items) <= limit
    items = items[:limit]
    if items:
        _check(reader, items)
    return Proof(items=items, is_last=is_last, cutoff=cutoff)


def _check(reader: Reader, items: Sequence[Row]) -> None:
    work_ids = {"work_ids": tuple(sorted(item["WorkId"] for item in items))}
    attempts = _by_work(reader.fetch_all(sql.LIST_ATTEMPTS_TO_PROVE, work_ids))
    effects = _by_work(reader.fetch_all(sql.LIST_EFFECTS_TO_PROVE, work_ids))
    for item in items:
        refuse(decide_item(item, attempts[item["WorkId"]], effects[item["WorkId"]]))


def _by_work(rows: Sequence[Row]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["WorkId"]].append(row)
    return found
