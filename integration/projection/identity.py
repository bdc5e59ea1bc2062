"""What a source projection is, and in which source scope it stands: the one encoding of each.

A projection's identity decides which inputs coalesce into one generation. The source scope leaves the pack,
the route and the flow out: replay asks it whether anything else of the source is still to run. A key's columns
stand beside it in every row, and a check of scope reads the columns, since an old writer left the key empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from integration.catalog.reads import RouteDefinition
from integration.values import digest_parts, encode_parts

_IDENTITY_DOMAIN: Final = "projection-identity/1"
_SCOPE_DOMAIN: Final = "source-scope/1"


def _optional(text: str | None) -> str:
    # Nothing is not the empty text: one character says which it is.
    return "-" if text is None else f"+{text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionIdentity:
    """What makes two settled inputs of one source inputs of the same projection.

    Attributes:
        pack_install_id: The installed-pack incarnation.
        event_kind: The canonical event kind.
        route_version: The immutable route version, from 1.
        companion_pack_name: The companion pack, if the route has one.
        companion_pack_version: Its version.
        flow_name: The flow.
        flow_version: The flow's version, as the WorkItem spells it.
        work_type: The work type.
        source_lane: The lane that orders the source.
    """

    pack_install_id: str
    event_kind: str
    route_version: int
    companion_pack_name: str | None
    companion_pack_version: str | None
    flow_name: str
    flow_version: str
    work_type: str
    source_lane: str

    @classmethod
    def of_route(cls, route: RouteDefinition, source_lane: str) -> Self:
        """Return the identity of an input that a route takes into a lane."""
        return cls(
            pack_install_id=route.pack_install_id,
            event_kind=route.event_kind,
            route_version=route.route_version,
            companion_pack_name=route.companion_pack_name,
            companion_pack_version=route.companion_pack_version,
            flow_name=route.flow_name,
            flow_version=str(route.flow_version),
            work_type=route.work_type.value,
            source_lane=source_lane,
        )

    @classmethod
    def of_work_item(cls, row: Mapping[str, Any]) -> Self:
        """Return the identity that a WorkItem's own columns spell, whatever its key says.

        Args:
            row: A row with the columns of the identity, as LOCK_WORK_ITEMS_OF_EVENT returns them.
        """
        return cls(
            pack_install_id=row["PackInstallId"],
            event_kind=row["EventKind"],
            route_version=row["RouteVersion"],
            companion_pack_name=row["CompanionPackName"],
            companion_pack_version=row["CompanionPackVersion"],
            flow_name=row["FlowName"],
            flow_version=row["FlowVersion"],
            work_type=row["WorkType"],
            source_lane=row["SourceLane"],
        )

    def encoded(self) -> bytes:
        """Return the bytes that the key digests; no two identities share them.

        Rule: P-22.
        """
        return encode_parts(*self._parts())

    def key(self) -> str:
        """Return the `ProjectionKey`, 64 lowercase hex characters.

        Rule: P-22.
        """
        return digest_parts(*self._parts())

    def _parts(self) -> tuple[str, ...]:
        return (
            _IDENTITY_DOMAIN,
            self.pack_install_id,
            self.event_kind,
            str(self.route_version),
            _optional(self.companion_pack_name),
            _optional(self.companion_pack_version),
            self.flow_name,
            self.flow_version,
            self.work_type,
            self.source_lane,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceScope:
    """One source of one kind of event, whoever executes it.

    Attributes:
        namespace: The namespace.
        event_kind: The canonical event kind.
        source_lane: The lane that orders the source.
    """

    namespace: str
    event_kind: str
    source_lane: str

    def encoded(self) -> bytes:
        """Return the bytes that the key digests; no two scopes share them."""
        return encode_parts(*self._parts())

    def key(self) -> str:
        """Return the `SourceScopeKey`, 64 lowercase hex characters."""
        return digest_parts(*self._parts())

    def _parts(self) -> tuple[str, ...]:
        return (_SCOPE_DOMAIN, self.namespace, self.event_kind, self.source_lane)
