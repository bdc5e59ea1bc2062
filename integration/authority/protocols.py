"""What the REST handlers ask of the service behind them: the published Event-shaped interface, and an addition.

A service of the published interface alone is served as it stands. What it lacks, the handlers leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from integration.authority.listing import DeadDetail, DeadFilters, DeadPage
from integration.authority.values import Plan, Ref, Refused, Replayed
from integration.scopes import Scope
from integration.values import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorEvent:
    """One dead Event, in the published shape.

    Attributes:
        event_id: The Event.
        status: Its state under whoever owns its work.
        retry_count: Failures recorded there.
        terminal_at: When it ended, aware UTC; with the other times, None where there is none.
        replay_of_event_id: The Event that it replays.
    """

    event_id: str
    status: str
    org_id: str | None = None
    namespace: str | None = None
    pack_install_id: str | None = None
    provider: str | None = None
    event_kind: str | None = None
    work_type: str | None = None
    route_version: int | None = None
    source_lane: str | None = None
    retry_count: int | None = None
    idempotency_key: str | None = None
    delivery_id: str | None = None
    delivery_sequence: int | None = None
    occurred_at: datetime | None = None
    received_at: datetime | None = None
    terminal_at: datetime | None = None
    replayed_at: datetime | None = None
    replay_of_event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorEventPage:
    """One page of Events, latest death first, and the cursors of its neighbours."""

    events: Sequence[ConnectorEvent]
    newer: str | None = None
    older: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedEvent:
    """A replay, in the published shape: the new Event, and whether the same request was answered before."""

    original_event_id: str
    child_event_id: str
    replayed_at: datetime
    is_repeat: bool = False


class ConnectorEventsAdminService(Protocol):
    """The published interface: Events that are dead, and their replay."""

    def list(
        self,
        *,
        namespace: str | None,
        event_kind: str | None,
        provider: str | None,
        replayed: bool | None,
        cursor: str | None,
        limit: int,
    ) -> ConnectorEventPage:
        """Return one page, latest death first."""

    def get(self, event_id: str) -> ConnectorEvent:
        """Return one Event.

        Raises:
            EventNotFound: There is none.
        """

    def replay(
        self, event_id: str, *, actor: Actor, reason: str, idempotency_key: str | None
    ) -> ReplayedEvent | Refused:
        """Replay one Event, or say why not."""


@runtime_checkable
class WorkItemDlqCapability(Protocol):
    """What a service may offer beside the published interface: the rows of WorkItems, their plan and their replay."""

    def list_dead(self, filters: DeadFilters, *, cursor: str | None, limit: int, within: Scope) -> DeadPage:
        """Return one page of dead rows of both owners, of where the reader may look."""

    def get_dead(self, ref: Ref, *, within: Scope) -> DeadDetail:
        """Return one row with its context.

        Raises:
            EventNotFound: There is none where the reader may look.
            OwnerAmbiguous: More than one WorkItem names its Event.
        """

    def plan_replay(self, ref: Ref, *, actor: Actor, route_version: int | None) -> Plan:
        """Return what a replay would do."""

    def replay_dead(
        self, ref: Ref, *, actor: Actor, reason: str, route_version: int | None, idempotency_key: str | None
    ) -> Replayed | Refused:
        """Replay one row, or say why not."""
