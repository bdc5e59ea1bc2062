"""Dead rows of every kind that can be replayed, and what one replay of each must have changed: all of it, no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from integration.authority.values import Ref, Refused, Replayed
from integration.storage.schema import Vintage
from integration.values import new_id
from tests.support.authority import World, audit_entries, rows_of, system_rows
from tests.support.rows import insert

EVENTS, ITEMS, PACKS = "_System_ConnectorEvent", "_System_ConnectorWorkItem", "_System_ConnectorPackInstall"
_KEYS = {EVENTS: "EventId", ITEMS: "WorkId", PACKS: "PackInstallId"}
_DEAD_EVENT = {"Status": "dead", "ExecutionOwner": "event", "TerminalAt": "2026-01-01"}
#: What ending a mirror may change of it.
_ENDED = frozenset(
    [
        *("State", "Outcome", "TerminalAt", "UpdatedAt", "ReplayedAt", "LeaseOwner", "LeaseToken", "LeaseUntil"),
        *("TargetLaneActiveKey", "ProjectionActiveKey", "BlockedOn", "BlockedSince"),
    ]
)
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of dead row.

    Attributes:
        name: What the contract calls it.
        make: Inserts it into a world; returns its reference.
        execution: How its route executes.
        vintage: The schema that it is on.
        event_owns: The Event is reserved, not the WorkItem.
        has_item: A WorkItem names the Event: the owner, or a mirror that ends with it.
        makes_item: The child has a WorkItem.
    """

    name: str
    make: Callable[[World], Ref]
    execution: str = "per_event"
    vintage: Vintage = Vintage.CURRENT
    event_owns: bool = True
    has_item: bool = True
    makes_item: bool = True


def _old_mirror(world: World) -> Ref:
    """Insert a mirror with the columns that the first WorkItem table has."""
    legacy = world.legacy()
    insert(
        ITEMS,
        WorkId=new_id(),
        WorkFamily="connector",
        WorkType="connector_event",
        SubjectKind="event",
        SubjectId=legacy.id,
        EventId=legacy.id,
        OrgId=world.org_id,
        Namespace=world.namespace,
        PackInstallId=world.pack_id,
        RouteId=world.route_id,
        RouteVersion=1,
        FlowName="prospect_sync",
        FlowVersion="3",
        EventKind=world.kind,
        CatalogDigest="c" * 64,
        State="pending",
        Attempt=0,
        MaxAttempts=3,
        RunAfter=world.now,
        CreatedAt=world.now,
        UpdatedAt=world.now,
    )
    return legacy


_PROJECTION = "source_projection"
KINDS: tuple[Kind, ...] = (
    Kind(name="work_item", make=lambda world: world.work(), event_owns=False),
    Kind(
        name="work_item_projection",
        make=lambda world: world.generation("dead"),
        execution=_PROJECTION,
        event_owns=False,
    ),
    Kind(name="mirror", make=lambda world: world.work("pending", Attempt=0, event=_DEAD_EVENT)),
    Kind(name="dead_mirror", make=lambda world: world.work("dead", Attempt=0, event=_DEAD_EVENT)),
    Kind(
        name="mirror_projection",
        make=lambda world: world.generation("retry", Attempt=0, event=_DEAD_EVENT),
        execution=_PROJECTION,
    ),
    Kind(name="event_only", make=lambda world: world.legacy(), has_item=False),
    Kind(name="event_only_projection", make=lambda world: world.legacy(), execution=_PROJECTION, has_item=False),
    Kind(name="old_mirror", make=_old_mirror, vintage=Vintage.LEGACY),
    Kind(
        name="old_event_only",
        make=lambda world: world.legacy(),
        vintage=Vintage.EVENT_ONLY,
        has_item=False,
        makes_item=False,
    ),
)


@dataclass(kw_only=True)
class Original:
    """A dead row, and the database as it was before anybody replayed it.

    Attributes:
        kind: Its kind.
        ref: How it is asked for.
        before: Every row of every system table.
    """

    kind: Kind
    ref: Ref
    before: Rows

    @classmethod
    def make(cls, kind: Kind) -> Original:
        """Put one row in place, in a world with a bystander of the same kind."""
        world = World(execution=kind.execution)
        kind.make(world)
        ref = kind.make(world)
        return cls(kind=kind, ref=ref, before=system_rows())

    @property
    def event_id(self) -> str:
        """The Event that is replayed."""
        named = [row["EventId"] for row in self.before.get(ITEMS, ()) if row["WorkId"] == self.ref.id]
        return str(named[0]) if named else self.ref.id

    def faults(self) -> tuple[bool, list[str]]:
        """Return whether a replay is stored, and in what it is less or more than one replay."""
        after, entries = system_rows(), audit_entries()
        done = [entry for entry in entries if entry["outcome"] == "done"]
        if after == self.before and not done:
            return False, []
        return True, [*self._faults_of_rows(after), *([] if len(done) == 1 else [f"{len(done)} audit entries"])]

    def child(self) -> tuple[str, str | None]:
        """Return the child's Event and its WorkItem."""
        (event,) = rows_of(EVENTS, "ReplayOfEventId = %s", self.event_id)
        items = rows_of(ITEMS, "EventId = %s", event["EventId"]) if self.kind.makes_item else []
        return str(event["EventId"]), str(items[0]["WorkId"]) if items else None

    def _faults_of_rows(self, after: Rows) -> list[str]:
        wrong = [table for table in self.before if table not in _KEYS and after[table] != self.before[table]]
        for table, key in _KEYS.items():
            old = {row[key]: row for row in self.before.get(table, ())}
            new = {row[key]: row for row in after.get(table, ())}
            added = [new[identity] for identity in new if identity not in old]
            changed = {identity: _changed(old[identity], new[identity]) for identity in old if identity in new}
            wanted = {EVENTS: 1, ITEMS: int(self.kind.makes_item), PACKS: 0}[table]
            if len(added) != wanted or set(old) - set(new):
                wrong.append(f"{len(added)} rows more in {table}, {len(set(old) - set(new))} gone")
            wrong += [
                f"{table} {sorted(columns)}"
                for identity, columns in changed.items()
                if not self._may_change(table, identity, columns)
            ]
            wrong += [text for row in added for text in self._faults_of_child(table, row)]
        return wrong

    def _may_change(self, table: str, identity: str, columns: set[str]) -> bool:
        if table == PACKS:
            return columns <= {"NextLaneOrdinal", "UpdatedAt"} and "NextLaneOrdinal" in columns
        if table == EVENTS:
            return columns == ({"ReplayedAt"} if self.kind.event_owns and identity == self.event_id else set())
        own = [row for row in self.before[ITEMS] if row["EventId"] == self.event_id]
        if not own or identity != own[0]["WorkId"]:
            return not columns
        if not self.kind.event_owns:
            return columns == {"ReplayedAt"}
        needed = {"ReplayedAt"} if self.kind.vintage is Vintage.CURRENT else {"State"}
        return needed <= columns <= _ENDED

    def _faults_of_child(self, table: str, row: Mapping[str, Any]) -> list[str]:
        if table == EVENTS:
            return [] if row["ReplayOfEventId"] == self.event_id else ["a child's Event without lineage"]
        lineage = [item["WorkId"] for item in self.before[ITEMS] if item["EventId"] == self.event_id]
        wanted = lineage[0] if lineage and self.kind.vintage is Vintage.CURRENT else None
        found = row.get("ReplayOfWorkId"), row["State"], row["Attempt"]
        return [] if found == (wanted, "pending", 0) else [f"a child's WorkItem {found}"]


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    return {name for name in old if old[name] != new[name]}


def told(outcome: Replayed | Refused) -> dict[str, Any]:
    """Return what a caller was told, as JSON can hold it."""
    if isinstance(outcome, Replayed):
        child = (outcome.child_event_id, outcome.child_work_id)
        return {"outcome": "replayed", "event": child[0], "item": child[1], "repeat": outcome.is_repeat}
    winner = outcome.winner
    return {
        "outcome": outcome.code,
        "event": None if winner is None else winner.child_event_id,
        "item": None if winner is None else winner.child_work_id,
        "winner": None if winner is None else winner.actor_name,
    }
