"""The service of this installation behind the REST handlers: the published interface and the addition to it."""

from __future__ import annotations

from integration import errors
from integration.authority import reads, service
from integration.authority.listing import DeadDetail, DeadFilters, DeadPage, DeadRow
from integration.authority.protocols import (
    ConnectorEvent,
    ConnectorEventPage,
    ConnectorEventsAdminService,
    ReplayedEvent,
    WorkItemDlqCapability,
)
from integration.authority.values import Plan, Ref, RefKind, Refused, Replayed
from integration.scopes import EVERYWHERE, Scope
from integration.values import Actor


class ConnectorEvents(ConnectorEventsAdminService, WorkItemDlqCapability):
    """Reads and replays through the authority. It keeps nothing and may be shared by threads."""

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
        """Return one page of both owners' rows as Events, latest death first."""
        filters = DeadFilters(namespace=namespace, event_kind=event_kind, provider=provider, replayed=replayed)
        page = self.list_dead(filters, cursor=cursor, limit=limit, within=EVERYWHERE)
        return ConnectorEventPage(events=[event_of(row) for row in page.rows], newer=page.newer, older=page.older)

    def get(self, event_id: str) -> ConnectorEvent:
        """Return one Event, in its owner's state.

        Raises:
            EventNotFound: There is none.
            OwnerAmbiguous: More than one WorkItem names it.
        """
        return event_of(self.get_dead(_event_ref(event_id), within=EVERYWHERE).row)

    def replay(
        self, event_id: str, *, actor: Actor, reason: str, idempotency_key: str | None
    ) -> ReplayedEvent | Refused:
        """Replay one Event under its owner, or say why not."""
        outcome = service.replay(_event_ref(event_id), actor=actor, reason=reason, idempotency_key=idempotency_key)
        if isinstance(outcome, Refused):
            return outcome
        return ReplayedEvent(
            original_event_id=outcome.original_event_id,
            child_event_id=outcome.child_event_id,
            replayed_at=outcome.replayed_at,
            is_repeat=outcome.is_repeat,
        )

    def list_dead(self, filters: DeadFilters, *, cursor: str | None, limit: int, within: Scope) -> DeadPage:
        """Return one page of dead rows of both owners, latest death first."""
        return reads.list_dead(filters, cursor, limit, within=within)

    def get_dead(self, ref: Ref, *, within: Scope) -> DeadDetail:
        """Return one row with its context.

        Raises:
            EventNotFound: There is none where the reader may look.
            OwnerAmbiguous: More than one WorkItem names its Event.
        """
        return reads.get_detail(ref, within=within)

    def plan_replay(self, ref: Ref, *, actor: Actor, route_version: int | None) -> Plan:
        """Return every rule's verdict on a replay now; nothing is written."""
        return service.plan(ref, actor, route=route_version)

    def replay_dead(
        self, ref: Ref, *, actor: Actor, reason: str, route_version: int | None, idempotency_key: str | None
    ) -> Replayed | Refused:
        """Replay one row, or say why not.

        Locks: PACK, EVENT, WORK_ITEM.
        """
        return service.replay(ref, actor=actor, reason=reason, route=route_version, idempotency_key=idempotency_key)


def event_of(row: DeadRow) -> ConnectorEvent:
    """Return a row in the published shape; its status and count are those of whoever owns the work."""
    return ConnectorEvent(
        event_id=row.event_id,
        status=row.state,
        org_id=row.org_id,
        namespace=row.namespace,
        pack_install_id=row.pack_install_id,
        provider=row.provider,
        event_kind=row.event_kind,
        work_type=row.work_type,
        route_version=row.route_version,
        source_lane=row.source_lane,
        retry_count=row.failure_count,
        idempotency_key=row.idempotency_key,
        delivery_id=row.delivery_id,
        delivery_sequence=row.delivery_sequence,
        occurred_at=row.occurred_at,
        received_at=row.received_at,
        terminal_at=row.terminal_at,
        replayed_at=row.replayed_at,
        replay_of_event_id=row.replay_of_event_id,
    )


def _event_ref(event_id: str) -> Ref:
    parsed = Ref.parse(event_id)
    if parsed.kind is RefKind.WORK_ITEM:
        message = "An EventId is asked for."
        raise errors.InvalidInput(message, field="event_id")
    return parsed
