"""Inputs that are met again: which of them a generation holds, and which are nobody's.

An input at or below its incarnation's cutoff belongs to the old protocol and is acknowledged as it is. One above it
must lie in a generation of its own identity, whatever the state of its Event or of that generation. Nothing is
repaired here: that a retained input is in no generation does not say whether a deleted one has executed it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

import structlog

from integration import errors
from integration.catalog.reads import RouteDefinition, get_route
from integration.projection.identity import ProjectionIdentity
from integration.states import ExecutionClass
from integration.storage.db import Reader, Row
from integration.storage.sql import projections, protocols

#: The protocol that this build admits and verifies by.
PROTOCOL_VERSION: Final = 1
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInput:
    """An Event that an input of this batch repeats.

    Attributes:
        event_id: The Event.
        pack_install_id: The incarnation that admitted it.
        receipt_id: The receipt that it came from.
        ordinal: Its enqueue ordinal; None on a row of an older schema.
        source_lane: Its lane.
        route: The route that took it; None when the route is not there any more.
    """

    event_id: str
    pack_install_id: str
    receipt_id: str | None
    ordinal: int | None
    source_lane: str | None
    route: RouteDefinition | None

    @classmethod
    def from_row(cls, row: Row) -> Self:
        """Return what a row of LIST_STORED_EVENTS says, with the route of it."""
        try:
            route = get_route(row["RouteId"])
        except errors.RouteNotFound:
            route = None
        return cls(
            event_id=row["EventId"],
            pack_install_id=row["PackInstallId"],
            receipt_id=row["ReceiptId"],
            ordinal=row["LaneOrdinal"],
            source_lane=row["SourceLane"],
            route=route,
        )

    @property
    def is_projected(self) -> bool:
        """Whether a generation must hold it: its own route decides, not the one that takes it now."""
        if self.route is None:
            return self.source_lane is not None
        return self.route.execution_class is ExecutionClass.SOURCE_PROJECTION

    @property
    def projection_key(self) -> str | None:
        """The key of its generation; None when nothing tells it."""
        if self.route is None or self.source_lane is None:
            return None
        return ProjectionIdentity.of_route(self.route, self.source_lane).key()


def read_cutoffs(reader: Reader, pack_install_ids: Collection[str]) -> dict[str, int]:
    """Return the last ordinal of the old protocol by incarnation; one without a protocol row is left out.

    Args:
        reader: Reads in the admission's transaction.
        pack_install_ids: The incarnations, at least one.

    Returns:
        `LegacyMaxOrdinal` by PackInstallId, 0 for an incarnation that was never of the old protocol.

    Rule: P-22.
    """
    rows = reader.fetch_all(protocols.LIST_PROJECTION_PROTOCOLS, {"pack_install_ids": set(pack_install_ids)})
    return {row["PackInstallId"]: row["LegacyMaxOrdinal"] for row in rows if row["ProtocolVersion"] == PROTOCOL_VERSION}


def find_uncovered(reader: Reader, stored: Iterable[StoredInput], cutoffs: Mapping[str, int]) -> set[str]:
    """Return the Events of repeated inputs that must lie in a generation and do not.

    Args:
        reader: Reads in the admission's transaction, under the pack's lock.
        stored: What the batch repeats.
        cutoffs: As `read_cutoffs` returns them, of every incarnation among `stored`.

    Returns:
        EventIds; empty when every one is acknowledged.

    Rule: P-07.
    """
    uncovered: set[str] = set()
    by_key: dict[str, list[StoredInput]] = defaultdict(list)
    for item in stored:
        if not item.is_projected or _is_legacy(item, cutoffs):
            continue
        key = item.projection_key
        if key is None or item.ordinal is None:
            uncovered.add(item.event_id)
        else:
            by_key[key].append(item)
    for key, items in sorted(by_key.items()):
        rows = reader.fetch_all(
            projections.LIST_COVERING_STARTS,
            {"projection_key": key, "event_ids": {item.event_id for item in items}},
        )
        uncovered.update(
            row["EventId"]
            for row in rows
            if row["InputStartOrdinal"] is None or row["InputStartOrdinal"] > row["LaneOrdinal"]
        )
    return uncovered


def _is_legacy(item: StoredInput, cutoffs: Mapping[str, int]) -> bool:
    cutoff = cutoffs.get(item.pack_install_id)
    return cutoff is not None and (item.ordinal or 0) <= cutoff
