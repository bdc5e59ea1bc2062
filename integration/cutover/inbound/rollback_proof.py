"""What a rollback proves before it hands anything over: nothing is in hand, and nothing that waits was ever executed.

The same reads serve the survey, which takes no locks, and each of the rollback's transactions, which holds the
namespace, the pack and every process row that could claim: then what was read stays as it is, but for an item that a
resolver blocks, and that the hand-over then misses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from integration import errors
from integration.cutover import receipts
from integration.cutover.inbound.rollback_policy import (
    decide_dependency,
    decide_in_hand,
    decide_inputs,
    decide_item,
    decide_ranges,
    decide_receipts,
    refuse,
)
from integration.projection.coverage import read_cutoffs
from integration.storage.db import Reader, Row
from integration.storage.sql import rollback_fences as sql
from integration.work.blocking import Dependency, find_dependency
from integration.work.families import CONNECTOR
from integration.work.rules import PackRules, read_rules

#: How many items the survey looks at at once.
_PAGE: Final = 500
#: Below every BIGINT but one, which no counter reaches.
_BEFORE_EVERY_ORDINAL: Final = -(2**63)


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


def survey(reader: Reader, pack_install_id: str, *, are_claims_stopped: bool) -> None:
    """Look at everything that waits, and refuse what would be refused when it is handed over.

    Asked before claims are stopped, so that what is refused anyway stops none; and once more after they were, before
    anything is handed over. From then on no item is claimed, so that what was proved of it stays proved.

    Args:
        reader: Takes no lock.
        pack_install_id: The incarnation.
        are_claims_stopped: Nothing can be claimed any more; before that, what runs says nothing.

    Raises:
        RollbackRefused: Something stands against the rollback.

    Locks: none.
    Rule: C-03, C-04, C-09.
    """
    cutoff = _prove_pack(reader, pack_install_id, are_claims_stopped=are_claims_stopped)
    refuse(decide_inputs(count_inputs_without_item(reader, pack_install_id, cutoff)))
    rules = read_rules(reader, pack_install_id)
    for items in _list_waiting(reader, pack_install_id, page=_PAGE):
        _check(reader, items, rules, are_claims_stopped=are_claims_stopped)


def prove(reader: Reader, pack_install_id: str, *, limit: int) -> Proof:
    """Prove that nothing of a pack is in hand, and find the next items to hand over.

    Args:
        reader: The transaction that holds the namespace, the pack and its processes, which are all evicted.
        pack_install_id: The incarnation.
        limit: How many items at the most.

    Returns:
        The items; every one may be handed over.

    Raises:
        RollbackRefused: Something runs, waits for something else, was dispatched, or is not what it should be.

    Locks: none.
    Rule: C-03, C-04, C-09.
    """
    cutoff = _prove_pack(reader, pack_install_id, are_claims_stopped=True)
    items: list[Row] = []
    for rows in _list_waiting(reader, pack_install_id, page=limit + 1):
        items += rows
        if len(items) > limit:
            break
    is_last = len(items) <= limit
    items = items[:limit]
    _check(reader, items, read_rules(reader, pack_install_id), are_claims_stopped=True)
    if is_last:
        refuse(decide_inputs(count_inputs_without_item(reader, pack_install_id, cutoff)))
    return Proof(items=items, is_last=is_last, cutoff=cutoff)


def count_inputs_without_item(reader: Reader, pack_install_id: str, cutoff: int | None) -> Row:
    """Count a pack's inputs of source projections that have not ended and that no WorkItem names.

    Args:
        reader: Where to read.
        pack_install_id: The incarnation.
        cutoff: Its `LegacyMaxOrdinal`; None without a protocol.

    Returns:
        The row of COUNT_INPUTS_WITHOUT_ITEM.
    """
    row = reader.fetch_one(sql.COUNT_INPUTS_WITHOUT_ITEM, {"pack_install_id": pack_install_id, "cutoff": cutoff})
    if row is None:
        raise errors.InvariantBroken
    return row


def _prove_pack(reader: Reader, pack_install_id: str, *, are_claims_stopped: bool) -> int:
    """Prove what is the pack's and no item's; return its cutoff."""
    by_pack = {"pack_install_id": pack_install_id}
    refuse(decide_receipts(receipts.count_faults(reader, pack_install_id)))
    in_hand = {row["State"]: int(row["Items"]) for row in reader.fetch_all(sql.COUNT_IN_HAND, by_pack)}
    refuse(decide_in_hand(in_hand, are_claims_stopped=are_claims_stopped))
    cutoff = read_cutoffs(reader, (pack_install_id,)).get(pack_install_id, 0)
    refuse(decide_ranges(reader.fetch_one(sql.FIND_INPUT_ABOVE_CUTOFF, {**by_pack, "cutoff": cutoff}), cutoff))
    return cutoff


def _list_waiting(reader: Reader, pack_install_id: str, *, page: int) -> Iterator[Sequence[Row]]:
    """Yield the items that wait, a page at a time, retries first."""
    for statement in (sql.LIST_RETRIES_TO_FENCE, sql.LIST_PENDING_TO_FENCE):
        for ordinal in (None, _BEFORE_EVERY_ORDINAL):
            after = {"after_ordinal": ordinal, "after": ""}
            while rows := reader.fetch_all(statement, {"pack_install_id": pack_install_id, **after, "limit": page}):
                yield rows
                after = {"after_ordinal": rows[-1]["LaneOrdinal"], "after": rows[-1]["WorkId"]}


def _check(reader: Reader, items: Sequence[Row], rules: PackRules, *, are_claims_stopped: bool) -> None:
    if not items:
        return
    work_ids = {"work_ids": tuple(sorted(item["WorkId"] for item in items))}
    attempts = _by_work(reader.fetch_all(sql.LIST_ATTEMPTS_TO_PROVE, work_ids))
    effects = _by_work(reader.fetch_all(sql.LIST_EFFECTS_TO_PROVE, work_ids))
    is_met: dict[Dependency, bool] = {}
    for item in items:
        found = decide_item(item, attempts[item["WorkId"]], effects[item["WorkId"]])
        dependency = _dependency_of(item, rules)
        if found is None and dependency is not None:
            if dependency not in is_met:
                is_met[dependency] = dependency.is_met(reader)
            found = decide_dependency(item, None if is_met[dependency] else dependency.event_kind)
        if found is not None and (are_claims_stopped or not _has_moved(reader, item)):
            refuse(found)


def _has_moved(reader: Reader, item: Row) -> bool:
    """Return whether a worker has taken an item since it was listed: its attempts are then not those of what waited."""
    now = reader.fetch_one(CONNECTOR.statements.read_claim_facts, {"work_id": item["WorkId"]})
    return now is None or (now["State"], now["Attempt"]) != (item["State"], item["Attempt"])


def _dependency_of(item: Row, rules: PackRules) -> Dependency | None:
    if item["Attempt"] > 0:
        # It was met before the first claim.
        return None
    return find_dependency(
        rules,
        route_id=item["RouteId"],
        namespace=item["Namespace"],
        source_lane=item["SourceLane"],
        target_lane=item["TargetLane"],
    )


def _by_work(rows: Sequence[Row]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["WorkId"]].append(row)
    return found
