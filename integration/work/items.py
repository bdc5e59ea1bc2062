"""A due item, as it was read without a lock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from integration.states import AttemptOutcome, FailureClass, WorkItemState, stored
from integration.storage.db import Row
from integration.values import digest_text
from integration.work.families import CONNECTOR, Family

#: How an earlier attempt ended, where the failure's class says more than that it failed.
_OUTCOMES: Final = {
    FailureClass.LEASE_LOST.value: AttemptOutcome.LOST,
    FailureClass.RELEASED.value: AttemptOutcome.RELEASED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A due item as it was read, without a lock; `epoch` makes a claim of anything newer fail."""

    work_id: str
    event_id: str
    org_id: str
    work_type: str
    pack_install_id: str
    route_id: str
    namespace: str
    event_kind: str
    flow_name: str
    flow_version: str
    queue_class: str
    source_lane: str | None
    target_lane: str | None
    position: int | None
    projection_key: str | None
    state: WorkItemState
    attempt: int
    max_attempts: int
    epoch: int
    last_ended_at: datetime | None
    last_outcome: AttemptOutcome
    is_cancel_requested: bool
    family: Family = CONNECTOR

    @property
    def is_projection(self) -> bool:
        """Whether this is a generation of a source projection, with a range of inputs."""
        return self.projection_key is not None

    @property
    def is_first(self) -> bool:
        """Whether this would be the generation's first claim."""
        return self.state is WorkItemState.PENDING

    @property
    def batch(self) -> tuple[object, ...]:
        """What the items of one claim statement have in common."""
        return (self.state, self.pack_install_id, self.attempt, self.epoch)

    @property
    def source_lane_name(self) -> str | None:
        """The source lane within its pack or namespace, as the candidates' statement spells it."""
        return None if self.source_lane is None else f"{self.pack_install_id or self.namespace}/{self.source_lane}"

    @property
    def target_lane_name(self) -> str | None:
        """The target lane within its namespace, as the candidates' statement spells it."""
        return None if self.target_lane is None else f"{self.namespace}/{self.target_lane}"

    @property
    def slot_key(self) -> str:
        """What decides whose the item is among several claimers, as the candidates' statement spells it.

        A target lane is one claimer's, which then knows at once when its next item may run; so is a source lane, unless
        its items go to several target lanes.
        """
        return self.target_lane_name or self.source_lane_name or self.work_id

    @property
    def target_lane_key(self) -> str | None:
        """The unique key that serializes the target lane while an item of it is claimed."""
        if self.target_lane is None:
            return None
        # As the claims' statements spell it; the length keeps a slash in a name from meaning another lane.
        return digest_text(f"target-lane/1/{self.org_id}/{len(self.namespace)}/{self.namespace}/{self.target_lane}")


def candidate_from_row(row: Row, family: Family = CONNECTOR) -> Candidate:
    """Return the candidate that a row of the candidates' statements describes."""
    failure = row["FailureClass"]
    return Candidate(
        work_id=row["WorkId"],
        event_id=row["EventId"],
        org_id=row["OrgId"],
        work_type=row["WorkType"],
        pack_install_id=row["PackInstallId"],
        route_id=row["RouteId"],
        namespace=row["Namespace"],
        event_kind=row["EventKind"],
        flow_name=row["FlowName"],
        flow_version=row["FlowVersion"],
        queue_class=row["QueueClass"],
        source_lane=row["SourceLane"],
        target_lane=row["TargetLane"],
        position=row["LanePosition"],
        projection_key=row["ProjectionKey"],
        state=stored(WorkItemState, row["State"]),
        attempt=row["Attempt"],
        max_attempts=row["MaxAttempts"],
        epoch=row["OwnershipEpoch"],
        # A released item is due at once: from when it was released.
        last_ended_at=row["RunAfter"] if failure == FailureClass.RELEASED else row["LastFailedAt"],
        last_outcome=_OUTCOMES.get(failure, AttemptOutcome.RETRY),
        is_cancel_requested=row["CancelRequestedAt"] is not None,
        family=family,
    )
