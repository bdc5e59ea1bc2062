"""Locking what a replay relies on, in rank order, and the facts as the locked rows show them.

The ids are read without locks under the packs' locks, since nobody admits, replays or moves a generation on without
one of them; then the Events are locked in one statement, then the WorkItems in one; what decides is what the locked
rows say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from integration import errors
from integration.authority import gather
from integration.authority.facts import EventFacts, Facts, PackFacts, SchemaFacts, Scope, WorkItemFacts
from integration.authority.scope import read_scope, still_unended
from integration.catalog.reads import RouteDefinition
from integration.failpoints import failpoint
from integration.storage.db import Tx
from integration.storage.locks import (
    LockedEvent,
    LockedPack,
    LockedWorkItem,
    lock_events,
    lock_packs,
    lock_replayed_items,
    lock_replayed_scope,
)
from integration.storage.probe import capabilities
from integration.storage.statements import LockRank

#: The ranks that a replay locks, in order.
LOCK_ORDER = (LockRank.PACK, LockRank.EVENT, LockRank.WORK_ITEM)


class Moved(errors.ConcurrentChange):
    """What was read without locks is not what the locks are needed for: the row has to be looked at anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a replay holds until its transaction ends.

    Attributes:
        pack: The incarnation that the replay goes to.
        event: The original's Event.
        items: The WorkItems that name it, under both work types; none on a schema without them.
        facts: The rules' facts as the locks show them.
        route: The target's live route, if this build can read it.
    """

    pack: LockedPack
    event: LockedEvent
    items: tuple[LockedWorkItem, ...]
    facts: Facts
    route: RouteDefinition | None

    @property
    def item(self) -> LockedWorkItem | None:
        """The WorkItem that owns or mirrors the original, if there is exactly one."""
        return self.items[0] if len(self.items) == 1 else None


def lock_order_of(facts: Facts) -> tuple[str, ...]:
    """Return the names of the ranks that a replay would lock, in order."""
    return tuple(rank.name for rank in LOCK_ORDER if rank is not LockRank.WORK_ITEM or facts.schema.has_work_items)


def lock_original(tx: Tx, unlocked: Facts, *, route: int | None, using: str = "default") -> Held:
    """Lock the packs, the Events and the WorkItems of a replay, and read the facts again.

    Args:
        tx: The replay's transaction, which holds nothing yet.
        unlocked: The facts as they were read without locks; they say which rows to lock.
        route: The route version that the caller confirmed.
        using: The database alias.

    Returns:
        What is held.

    Raises:
        Moved: The rows or the schema changed, so that other rows have to be locked; nothing was written.

    Locks: PACK (the original's and the target's), EVENT, WORK_ITEM.
    Rule: A-24, A-25.
    """
    if unlocked.pack is None or unlocked.event is None:
        raise errors.InvariantBroken
    packs = {
        pack.pack_install_id: pack
        for pack in lock_packs(tx, (unlocked.event.pack_install_id, unlocked.pack.pack_install_id))
    }
    target = next((pack for key, pack in packs.items() if key == unlocked.pack.pack_install_id), None)
    if target is None:
        raise Moved
    failpoint("replay.packs_locked")
    _check_schema(unlocked.schema, using)
    event, items, scope = _lock_rows(target, unlocked)
    failpoint("replay.rows_locked")
    return _reread(target, event, items, replace(unlocked, scope=scope), route)


def _check_schema(known: SchemaFacts, using: str) -> None:
    """Look at an unfinished schema again: an upgrade may have given the authority to the WorkItem since."""
    if not known.is_complete and SchemaFacts.of(capabilities(using, fresh=True)) != known:
        raise Moved


def _lock_rows(pack: LockedPack, unlocked: Facts) -> tuple[LockedEvent, tuple[LockedWorkItem, ...], Scope | None]:
    if unlocked.event is None:
        raise errors.InvariantBroken
    schema, event_id, is_old = unlocked.schema, unlocked.event.event_id, not unlocked.schema.has_additive
    original_ids: set[str] = set()
    found: Scope | None = None
    if unlocked.scope is not None:
        original_ids = {item.work_id for item in gather.read_items(pack.tx, event_id, schema)}
        found = read_scope(pack.tx, unlocked.event, original_ids, schema)
    events = lock_events(pack, (event_id, *(found.event_ids if found is not None else ())))
    event = next((locked for locked in events if locked.event_id == event_id), None)
    if event is None:
        raise Moved
    if not schema.has_work_items:
        items: list[LockedWorkItem] = []
    elif found is not None and (original_ids or found.work_ids):
        items = lock_replayed_scope(pack, (*original_ids, *found.work_ids), is_old_schema=is_old)
    else:
        items = lock_replayed_items(event, is_old_schema=is_old)
    own = tuple(item for item in items if item.row["EventId"] == event_id)
    if {item.work_id for item in unlocked.items} - {item.work_id for item in own}:
        # The generation was moved to another Event between the read and the lock.
        raise Moved
    scope = None if found is None else still_unended(event, events, items, original_ids)
    return event, own, scope


def _reread(
    pack: LockedPack, event: LockedEvent, items: tuple[LockedWorkItem, ...], unlocked: Facts, route: int | None
) -> Held:
    tx = pack.tx
    reread = gather.read_serialized(tx, pack.pack_install_id, event.row["Namespace"], event.row["EventKind"])
    has_child, has_event_child = gather.read_children(
        tx, event.event_id, [item.work_id for item in items], unlocked.schema
    )
    facts = replace(
        unlocked,
        event=EventFacts.from_row(event.row),
        items=tuple(WorkItemFacts.from_row(item.row) for item in items),
        pack=PackFacts.from_row(pack.row),
        route=reread.route_facts,
        cutover=reread.cutover,
        fences=reread.fences,
        expected_route_version=route,
        has_child=has_child,
        has_event_child=has_event_child,
    )
    if facts.has_scope != (unlocked.scope is not None):
        raise Moved
    return Held(pack=pack, event=event, items=items, facts=facts, route=reread.route)
