"""Dead letters by what they have in common: namespace, pack, event kind and work type, within a window of time.

Never by how they failed: that text stays inside. At most `WINDOW` of the newest rows of each owner are looked at,
however many there are, and the answer says how far back they reached.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from integration.scopes import EVERYWHERE, Scope, names_to_read
from integration.storage import db
from integration.storage.db import Row
from integration.storage.probe import capabilities
from integration.storage.sql import dead_groups as sql
from integration.storage.statements import Statement
from integration.work.reads import PackName, pack_names

#: Dead rows of each owner that are looked at, the newest first.
WINDOW: Final = 5_000
#: Into how many parts a window is divided for the course of a group.
SLOTS: Final = 24
#: Groups that are returned at the most.
SHOWN: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilters:
    """What is grouped.

    Attributes:
        start: Died at this time or later, aware.
        end: Died before this time, aware.
        namespace: A namespace, exact; None for all.
    """

    start: datetime
    end: datetime
    namespace: str | None = None

    @property
    def slot_seconds(self) -> int:
        """How many seconds one part of the window has, at least one."""
        return max(1, -(-int((self.end - self.start).total_seconds()) // SLOTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Dead letters that have everything in common that a list can be narrowed to.

    Attributes:
        namespace: Their namespace.
        pack: Their pack's name; None if its rows are gone.
        event_kind: Their kind.
        work_type: Their work type.
        first_at: When the first of them died.
        last_at: When the last of them died.
        found: How many there are.
        waiting: How many of them nobody replayed.
        course: How many died in each part of the window, oldest first.
    """

    namespace: str
    pack: str | None
    event_kind: str
    work_type: str
    first_at: datetime
    last_at: datetime
    found: int
    waiting: int
    course: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The groups of a window.

    Attributes:
        rows: Those that wait for somebody first, the largest of them first.
        found: How many dead rows they have in all.
        back_to: Set when not all of the window was looked at: rows that died before this time are not counted.
        is_cut: There are more groups than are listed.
    """

    rows: tuple[Group, ...]
    found: int
    back_to: datetime | None
    is_cut: bool


def list_groups(filters: GroupFilters, *, within: Scope = EVERYWHERE) -> Groups:
    """Group the dead letters of a window.

    Args:
        filters: Which rows.
        within: Where the reader may look, at most 20 namespaces; they share what is looked at.

    Returns:
        The groups; of a window with more dead rows than are looked at, only since `back_to`.

    Raises:
        InvalidInput: The reader has to name a namespace.

    Locks: none.
    """
    names = names_to_read(within, filters.namespace)
    parts: Sequence[str | None] = (None,) if names is None else names
    window = WINDOW // max(1, len(parts))
    rows: list[Row] = []
    reached: list[datetime] = []
    for statement, namespace in ((statement, name) for name in parts for statement in _statements(name)):
        found = db.read().fetch_all(
            statement,
            {
                "start": filters.start,
                "end": filters.end,
                "slot_seconds": filters.slot_seconds,
                "namespace": namespace,
                "window": window,
            },
        )
        if sum(int(row["Found"]) for row in found) >= window:
            reached.append(min(row["FirstAt"] for row in found))
        rows += found
    groups = _merge(rows, pack_names(row["PackInstallId"] for row in rows))
    groups.sort(key=lambda group: (-group.waiting, -group.found, group.namespace, group.event_kind))
    return Groups(
        rows=tuple(groups[:SHOWN]),
        found=sum(group.found for group in groups),
        back_to=max(reached, default=None),
        is_cut=len(groups) > SHOWN,
    )


def _statements(namespace: str | None) -> tuple[Statement, ...]:
    if namespace is None:
        return (sql.GROUP_DEAD_EVENTS, sql.GROUP_DEAD_WORK)[: 1 + capabilities().has_additive]
    return (sql.GROUP_DEAD_EVENTS_IN_NAMESPACE, sql.GROUP_DEAD_WORK_IN_NAMESPACE)[: 1 + capabilities().has_additive]


def _merge(rows: Iterable[Row], packs: dict[str, PackName]) -> list[Group]:
    """Put the parts of each group together, over both owners and all incarnations of a pack."""
    parts: dict[tuple[str, str | None, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        pack = packs.get(row["PackInstallId"])
        parts[row["Namespace"], pack.name if pack else None, row["EventKind"], row["WorkType"]].append(row)
    return [_group(key, of_group) for key, of_group in parts.items()]


def _group(key: tuple[str, str | None, str, str], rows: list[Row]) -> Group:
    namespace, pack, event_kind, work_type = key
    course = [0] * SLOTS
    for row in rows:
        # The last part may be a little longer than the others.
        course[min(int(row["Slot"]), SLOTS - 1)] += int(row["Found"])
    return Group(
        namespace=namespace,
        pack=pack,
        event_kind=event_kind,
        work_type=work_type,
        first_at=min(row["FirstAt"] for row in rows),
        last_at=max(row["LastAt"] for row in rows),
        found=sum(int(row["Found"]) for row in rows),
        waiting=sum(int(row["Waiting"]) for row in rows),
        course=tuple(course),
    )


def window_of(now: datetime, length: timedelta, namespace: str | None = None) -> GroupFilters:
    """Return the window that ends with the present minute; whole minutes, as a list can be narrowed to.

    Args:
        now: The present moment, aware.
        length: How long it is.
        namespace: A namespace, exact; None for all.
    """
    end = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    return GroupFilters(start=end - length, end=end, namespace=namespace)


def narrowed(filters: GroupFilters, back_to: datetime | None) -> GroupFilters:
    """Return the part of a window that was looked at, from the beginning of its first minute."""
    if back_to is None:
        return filters
    return replace(filters, start=back_to.replace(second=0, microsecond=0))
