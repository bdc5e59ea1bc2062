"""Who looked at which row: an entry of the trail for every detail page that names a customer's work.

One entry stands for an hour of looking at one row by one account. The page never fails for it.
"""

from __future__ import annotations

from typing import Final

import structlog
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest

from console.middleware import actor_of
from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_once
from integration.authority.listing import DeadRow

#: How long one entry stands for what the same account looks at again.
WITHIN_SECONDS: Final = 3600
log = structlog.get_logger(__name__)


def note(
    request: HttpRequest,
    ref_kind: str,
    ref_id: str,
    *,
    org_id: str | None = None,
    namespace: str | None = None,
    event_kind: str | None = None,
) -> None:
    """Write down that this account looked at a row, in a transaction of its own, if it did not within the hour.

    Args:
        request: An authenticated request that may see the row, and found it.
        ref_kind: `work_item`, `event` or `receipt`.
        ref_id: The row's id.
        org_id: Whose it is.
        namespace: Where it is.
        event_kind: What it is of.
    """
    fact = AuditFact(
        action=f"{ref_kind}.viewed",
        outcome=AuditOutcome.DONE,
        actor=actor_of(request),
        ref_kind=ref_kind,
        ref_id=ref_id,
        org_id=org_id,
        namespace=namespace,
        event_kind=event_kind,
    )
    try:
        record_once(fact, within_seconds=WITHIN_SECONDS)
    except (errors.IntegrationError, DatabaseError, InterfaceError) as error:
        log.warning("audit.view_not_recorded", ref_kind=ref_kind, ref_id=ref_id, error=type(error).__name__)


def note_dead(request: HttpRequest, row: DeadRow) -> None:
    """Write down that this account looked at a dead row: its WorkItem if it has one, else its Event."""
    note(
        request,
        "event" if row.work_id is None else "work_item",
        row.event_id if row.work_id is None else row.work_id,
        org_id=row.org_id,
        namespace=row.namespace,
        event_kind=row.event_kind,
    )
