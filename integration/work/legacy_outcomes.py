"""What a rollback and the Event executor say to each other: whom it admits, and how an Event's end is proved. Pure.

The executor writes the proof and the reconciliation of the rollback reads it; neither imports the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from integration.states import EventStatus, WorkItemState
from integration.values import digest_parts

#: What the receipts of this build say and how their digest is made.
RECEIPT_VERSION: Final = 1
#: Under which name a rollback's receipt lists the builds whose Event executor it admits.
APPROVED_BUILDS: Final = "approved_builds"
_DOMAIN: Final = "legacy-outcome/1"
#: The ends that an Event can have, and what each is called as the outcome of its WorkItem.
OUTCOMES: Final[Mapping[str, WorkItemState]] = {
    EventStatus.PROCESSED: WorkItemState.SUCCEEDED,
    EventStatus.SKIPPED: WorkItemState.SKIPPED,
    EventStatus.DEAD: WorkItemState.DEAD,
}


def approved_builds_of(proof: str) -> tuple[str, ...]:
    """Return the builds whose Event executor a rollback's receipt admits; none of a proof that cannot be read."""
    try:
        document = json.loads(proof)
    except ValueError:
        return ()
    builds = document.get(APPROVED_BUILDS) if isinstance(document, dict) else None
    return tuple(build for build in builds if isinstance(build, str)) if isinstance(builds, list) else ()


def outcome_digest(*, event_id: str, work_type: str, rollback_fence_id: str, outcome: str) -> str:
    """Return the digest of an outcome: the same end of the same work under the same fence has the same one.

    Args:
        event_id: The Event.
        work_type: The work type under which it was executed.
        rollback_fence_id: The fence of the rollback that gave the pack to the Event executor.
        outcome: The Event's terminal status.

    Returns:
        64 lowercase hex characters.
    """
    return digest_parts(_DOMAIN, event_id, work_type, rollback_fence_id, outcome)


class Doubt(StrEnum):
    """Why nothing can be proved of what the Event executor did."""

    #: The Event ended, or is not there, and no receipt tells how it ended.
    MISSING = "receipt_missing"
    #: Two different outcomes were delivered.
    CONFLICT = "receipt_conflict"
    #: A version, an outcome or a digest that this build does not vouch for, or the receipt of another fence.
    UNREADABLE = "receipt_unreadable"


def find_doubt(receipt: Mapping[str, Any], rollback_fence_id: str) -> Doubt | None:
    """Return what speaks against an outcome receipt.

    Args:
        receipt: The row.
        rollback_fence_id: The fence that holds the WorkItem.

    Returns:
        None when the receipt proves how the Event ended.

    Rule: C-07.
    """
    if receipt["ConflictDigest"] is not None or receipt["ConflictAt"] is not None:
        return Doubt.CONFLICT
    expected = outcome_digest(
        event_id=receipt["EventId"],
        work_type=receipt["WorkType"],
        rollback_fence_id=rollback_fence_id,
        outcome=receipt["Outcome"],
    )
    if (
        receipt["RollbackFenceId"] != rollback_fence_id
        or receipt["ReceiptVersion"] != RECEIPT_VERSION
        or receipt["Outcome"] not in OUTCOMES
        or receipt["Digest"] != expected
    ):
        return Doubt.UNREADABLE
    return None
