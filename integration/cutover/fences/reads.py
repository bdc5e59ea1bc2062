"""Lock-free reads of fences, of what waits behind them, and of what one more would stop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from integration import errors
from integration.cutover.fences.values import (
    Fence,
    FenceNotFound,
    FenceState,
    Override,
    OverrideNotFound,
    OverrideState,
)
from integration.ingress.policy import EVERY_SCOPE
from integration.ingress.reads import Backlog, read_backlog
from integration.scopes import EVERYWHERE, Scope
from integration.states import stored
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.sql import fences as sql
from integration.storage.sql import namespaces

PAGE_ROWS: Final = 50
#: Armed fences that are listed, at most.
MOST_ARMED: Final = 200
_MOST_OVERRIDES: Final = 200
_AFTER_ALL: Final = "~"
_COUNT_CAP: Final = 10_000
#: Of how many of the newest audit entries those of a fence are counted.
_ENTRIES: Final = 5_000
LATELY_SECONDS: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class FencePage:
    """A page of fences that are over, the newest first, and where the next one begins; None at the end."""

    fences: tuple[Fence, ...]
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits behind the fences of one namespace.

    Attributes:
        namespace: The namespace.
        backlog: Receipts that are stored and no work yet, fenced or not, and the age of the oldest.
        replays_refused: Replays that a fence refused since the oldest armed one, among the newest 5,000 audit entries.
    """

    namespace: str
    backlog: Backlog
    replays_refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is armed now, and what waits behind it, by namespace."""

    armed: tuple[Fence, ...]
    waiting: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a fence would stop.

    Attributes:
        namespace: Where.
        scope: `*` or an event kind.
        stopped: Event kinds with a live route that it would stop.
        open: Event kinds with a live route that it would not stop.
        is_unrouted: No live route takes the kind; such a fence stops what a later pack would admit.
        received: Receipts of the namespace, of every kind, within the last ten minutes, at most 10,000.
        backlog: What waits already.
        armed: Fences of the namespace that are armed already.
    """

    namespace: str
    scope: str
    stopped: tuple[str, ...]
    open: tuple[str, ...]
    is_unrouted: bool
    received: int
    backlog: Backlog
    armed: tuple[Fence, ...]

    @property
    def received_a_minute(self) -> float:
        """Return how many receipts came in a minute lately."""
        return self.received * 60 / LATELY_SECONDS


def get_fence(
    fence_id: str, *, reader: Reader | None = None, within: Scope = EVERYWHERE, using: str = "default"
) -> Fence:
    """Return one fence with its overrides.

    Args:
        fence_id: The fence.
        reader: Where to read; a transaction that holds the namespace reads what cannot change before its end.
        within: Where the reader may look; a fence elsewhere is none.
        using: The database alias, when there is no reader.

    Raises:
        FenceNotFound: There is none of this id.
    """
    reader = reader or db.read(using)
    row = reader.fetch_one(sql.FIND_FENCE, {"fence_id": _ascii(fence_id, FenceNotFound)})
    if row is None or not within.covers(row["Namespace"]):
        raise FenceNotFound
    return _fences(reader, [row])[0]


def get_override(override_id: str, *, using: str = "default") -> Override:
    """Return one override.

    Raises:
        OverrideNotFound: There is none of this id.
    """
    row = db.read(using).fetch_one(sql.FIND_OVERRIDE, {"override_id": _ascii(override_id, OverrideNotFound)})
    if row is None:
        raise OverrideNotFound
    return _override(row)


def list_armed(
    namespace: str | None = None, *, within: Scope = EVERYWHERE, using: str = "default"
) -> tuple[Fence, ...]:
    """Return the fences that are armed now, the newest first, at most 200.

    Args:
        namespace: Of this namespace alone.
        within: Where the reader may look, if no namespace is named.
        using: The database alias.
    """
    reader = db.read(using)
    if namespace is None and not within.is_everywhere:
        params = {"namespaces": within.namespaces or ("",), "limit": MOST_ARMED}
        return _fences(reader, reader.fetch_all(sql.LIST_FENCES_ARMED_WITHIN, params))
    params = {"namespace": namespace or "", "limit": MOST_ARMED}
    return _fences(reader, reader.fetch_all(sql.LIST_FENCES_ARMED_NOW, params))


def list_past(
    before: str | None = None, limit: int = PAGE_ROWS, *, within: Scope = EVERYWHERE, using: str = "default"
) -> FencePage:
    """Return a page of fences that were lifted or ran out, by when they were armed, the newest first.

    Args:
        before: `older` of another page.
        limit: Fences on the page.
        within: Where the reader may look.
        using: The database alias.

    Raises:
        InvalidInput: `before` is not where a page of this list ended.
    """
    if before is not None and not (before.isascii() and len(before) <= 36):
        message = "The page's place is not one of this list."
        raise errors.InvalidInput(message, field="before")
    reader = db.read(using)
    statement, params = sql.LIST_PAST_FENCES, {"before": before or _AFTER_ALL, "limit": limit + 1}
    if not within.is_everywhere:
        statement, params = sql.LIST_PAST_FENCES_WITHIN, {**params, "namespaces": within.namespaces or ("",)}
    rows = reader.fetch_all(statement, params)
    found = _fences(reader, rows[:limit])
    return FencePage(fences=found, older=found[-1].fence_id if len(rows) > limit else None)


def read_status(namespace: str | None = None, *, within: Scope = EVERYWHERE, using: str = "default") -> Status:
    """Return what is armed, and what waits in each namespace that has a fence, or in the one that is named.

    Args:
        namespace: Of this namespace alone.
        within: Where the reader may look; a namespace elsewhere is none.
        using: The database alias.

    Raises:
        NotFound: The named namespace does not exist.
    """
    if namespace is not None:
        _demand_namespace(namespace, using, within)
    armed = list_armed(namespace, within=within, using=using)
    names = {fence.namespace for fence in armed} if namespace is None else {namespace}
    return Status(armed=armed, waiting=tuple(read_waiting(name, armed, using=using) for name in sorted(names)))


def read_waiting(namespace: str, armed: Sequence[Fence], *, using: str = "default") -> Waiting:
    """Return what waits in a namespace.

    Args:
        namespace: The namespace.
        armed: The fences that are armed, of this namespace and maybe of others.
        using: The database alias.
    """
    since = min((fence.armed_at for fence in armed if fence.namespace == namespace), default=None)
    params = {"namespace": namespace, "since": since, "limit": _ENTRIES}
    row = None if since is None else db.read(using).fetch_one(sql.COUNT_FENCED_REPLAYS, params)
    return Waiting(
        namespace=namespace,
        backlog=read_backlog(namespace),
        replays_refused=0 if row is None else int(row["Found"]),
    )


def read_effect(namespace: str, scope: str, *, within: Scope = EVERYWHERE, using: str = "default") -> Effect:
    """Say what a fence would stop; nothing is written.

    Args:
        namespace: Where.
        scope: `*` or an event kind.
        within: Where the reader may look; a namespace elsewhere is none.
        using: The database alias.

    Raises:
        NotFound: There is no such namespace.
    """
    _demand_namespace(namespace, using, within)
    reader = db.read(using)
    kinds = [str(row["EventKind"]) for row in reader.fetch_all(sql.LIST_LIVE_KINDS, {"namespace": namespace})]
    params = {"namespace": namespace, "seconds": LATELY_SECONDS, "limit": _COUNT_CAP}
    row = reader.fetch_one(sql.COUNT_RECEIVED_LATELY, params)
    return Effect(
        namespace=namespace,
        scope=scope,
        stopped=tuple(kind for kind in kinds if scope in {EVERY_SCOPE, kind}),
        open=tuple(kind for kind in kinds if scope not in {EVERY_SCOPE, kind}),
        is_unrouted=scope != EVERY_SCOPE and scope not in kinds,
        received=0 if row is None else int(row["Found"]),
        backlog=read_backlog(namespace),
        armed=list_armed(namespace, using=using),
    )


def _demand_namespace(namespace: str, using: str, within: Scope) -> None:
    is_there = db.read(using).fetch_one(namespaces.FIND_NAMESPACE, {"namespace": namespace}) is not None
    if not is_there or not within.covers(namespace):
        message = "There is no such namespace."
        raise errors.NotFound(message)


def _ascii(identity: str, absent: type[errors.NotFound]) -> str:
    # An id's column is ASCII; MariaDB refuses to compare it with anything else.
    if not identity.isascii():
        raise absent
    return identity


def _fences(reader: Reader, rows: Sequence[Row]) -> tuple[Fence, ...]:
    if not rows:
        return ()
    overrides: dict[str, list[Override]] = defaultdict(list)
    params = {"fence_ids": [row["FenceId"] for row in rows], "limit": _MOST_OVERRIDES * len(rows)}
    for row in reader.fetch_all(sql.LIST_OVERRIDES_OF_FENCES, params):
        overrides[row["FenceId"]].append(_override(row))
    return tuple(
        Fence(
            fence_id=row["FenceId"],
            namespace=row["Namespace"],
            scope=row["Scope"],
            state=stored(FenceState, row["State"]),
            expires_at=row["ExpiresAt"],
            armed_at=row["ArmedAt"],
            armed_by=row["ArmedBy"],
            reason=row["Reason"],
            lifted_at=row["LiftedAt"],
            lifted_by=row["LiftedBy"],
            overrides=tuple(overrides[row["FenceId"]][:_MOST_OVERRIDES]),
        )
        for row in rows
    )


def _override(row: Row) -> Override:
    return Override(
        override_id=row["OverrideId"],
        fence_id=row["FenceId"],
        scope=row["Scope"],
        state=stored(OverrideState, row["State"]),
        expires_at=row["ExpiresAt"],
        granted_at=row["GrantedAt"],
        granted_by=row["GrantedBy"],
        reason=row["Reason"],
        lifted_at=row["LiftedAt"],
        lifted_by=row["LiftedBy"],
    )
