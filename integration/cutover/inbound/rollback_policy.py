"""What permits an inbound rollback. Pure decisions on rows and counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from integration import errors
from integration.cutover.inbound.policy import MEND_RECEIPTS, RECEIPTS_BROKEN
from integration.states import AttemptOutcome, FailureClass, WorkItemState, stored

Row = Mapping[str, Any]
#: The one outcome of an effect attempt that proves that nothing left the house.
_NOT_DISPATCHED: Final = "RETRYABLE_PRE_DISPATCH"


class RollbackCode(StrEnum):
    """Why a rollback does not go on."""

    #: The work is not the WorkItems': there is nothing to roll back.
    NOT_FORWARD = "not_forward"
    #: The receipts before are not what was written: nothing may be bound to them.
    RECEIPTS_BROKEN = "receipts_broken"
    #: A claimed item has not ended.
    NOT_DRAINED = "not_drained"
    #: An item waits for what its route names.
    BLOCKED_ITEM = "blocked_item"
    #: An item was handed to its flow before.
    PRIOR_DISPATCH = "prior_dispatch"
    #: What an attempt or an effect of an item did outside cannot be told.
    OUTCOME_AMBIGUOUS = "outcome_ambiguous"
    #: The attempts of an item are not all there, or contradict it.
    HISTORY_UNVERIFIABLE = "history_unverifiable"
    #: Somebody asked that an item be cancelled, and it has not ended.
    CANCEL_REQUESTED = "cancel_requested"
    #: The Event executor could not execute the Event of an item.
    EVENT_CONFLICT = "event_conflict"
    #: Inputs of source projections were admitted above the cutoff.
    RANGES_ADMITTED = "ranges_admitted"
    #: Inputs of source projections wait without a WorkItem of their own: a generation that ended may have taken them.
    INPUT_WITHOUT_ITEM = "input_without_item"
    #: Inputs of source projections may be admitted while the items are handed over in several transactions.
    ADMISSION_OPEN = "admission_open"
    #: Another rollback of the pack is not over.
    FENCE_UNCLOSED = "rollback_fence_unclosed"
    #: There is no rollback that could be given up: none is open.
    NOT_ABANDONABLE = "not_abandonable"
    #: There is no rollback whose outcomes could be reconciled: none is sealed, or it is open.
    NOT_SEALED = "rollback_unfinished"
    #: Nobody said that no unregistered build runs.
    ATTESTATION_MISSING = "attestation_missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What stands against a step.

    Attributes:
        code: Which rule.
        sentence: What was found.
        next_step: What the operator can do about it.
        facts: Ids and counts.
    """

    code: RollbackCode
    sentence: str
    next_step: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class RollbackRefused(errors.Refused):
    """Something stands in the way of this step of the rollback."""

    code = "rollback_refused"

    def __init__(self, finding: Finding) -> None:
        """Keep what was found.

        Args:
            finding: What stands in the way.
        """
        self.finding = finding
        super().__init__(finding.sentence, refusal=finding.code.value, obstacles=[finding])


def refuse(finding: Finding | None) -> None:
    """Raise what was found, if anything was.

    Raises:
        RollbackRefused: Something stands against the step.
    """
    if finding is not None:
        raise RollbackRefused(finding)


def decide_attestation(attestation: str) -> Finding | None:
    """Decide on what the operator says of processes that no row tells of.

    Args:
        attestation: His sentence; empty for none.

    Rule: C-03.
    """
    if attestation:
        return None
    return Finding(
        code=RollbackCode.ATTESTATION_MISSING,
        sentence="Nothing in the database can show that no unregistered build claims WorkItems.",
        next_step="Stop them, and say so: `--attest TEXT`. The receipt carries it.",
    )


def decide_receipts(faults: int) -> Finding | None:
    """Decide on the receipts that the rollback's own would be chained to.

    Args:
        faults: How much is wrong with them.

    Rule: C-02.
    """
    if not faults:
        return None
    return Finding(
        code=RollbackCode.RECEIPTS_BROKEN,
        sentence=RECEIPTS_BROKEN.format(count=faults),
        next_step=MEND_RECEIPTS,
        facts={"faults": faults},
    )


def decide_in_hand(items_by_state: Mapping[str, int], *, are_claims_stopped: bool) -> Finding | None:
    """Decide on what runs or waits for something else.

    Args:
        items_by_state: How many items of the pack are `processing` and `blocked`.
        are_claims_stopped: Nothing can be claimed any more; before that, what runs says nothing.

    Rule: C-03, C-04.
    """
    processing = items_by_state.get(WorkItemState.PROCESSING, 0)
    if processing and are_claims_stopped:
        return Finding(
            code=RollbackCode.NOT_DRAINED,
            sentence=f"Claims are stopped, and {processing} claimed items have not ended, whatever their leases say.",
            next_step="Let them end and run it again; or abandon it, so that a worker takes lost ones back.",
            facts={"processing": processing},
        )
    blocked = items_by_state.get(WorkItemState.BLOCKED, 0)
    if blocked:
        return Finding(
            code=RollbackCode.BLOCKED_ITEM,
            sentence=f"{blocked} items wait for what their routes name.",
            next_step="Let it come, or cancel them; then run it again.",
            facts={"blocked": blocked},
        )
    return None


def decide_item(item: Row, attempts: Sequence[Row], effects: Sequence[Row]) -> Finding | None:
    """Decide whether a waiting item may be handed to the Event executor.

    Args:
        item: A row of LIST_RETRIES_TO_FENCE or LIST_PENDING_TO_FENCE.
        attempts: Its claimed executions, in order.
        effects: Its effect attempts.

    Returns:
        None for an item that no flow was ever given, and whose Event the executor can execute.

    Rule: C-04, C-09.
    """
    facts = {"work_id": item["WorkId"], "state": item["State"], "attempt": item["Attempt"]}
    if item["IsProjection"]:
        return _ranges("An item of a source projection has not ended.", facts)
    if item["IsCancelRequested"]:
        return Finding(
            code=RollbackCode.CANCEL_REQUESTED,
            sentence="A waiting item was to be cancelled while it ran, and was given back instead.",
            next_step="Cancel it, which now ends it at once; then run it again.",
            facts=facts,
        )
    if effects and any(_may_have_left(effect) for effect in effects):
        return Finding(
            code=RollbackCode.OUTCOME_AMBIGUOUS,
            sentence="An effect of a waiting item may have happened.",
            next_step="Let the item end, or cancel it; then run it again.",
            facts=facts,
        )
    found = _decide_history(item, attempts, facts)
    if found is not None:
        return found
    if not item["IsExecutable"] or item["IsFenced"]:
        return Finding(
            code=RollbackCode.EVENT_CONFLICT,
            sentence="The Event of a waiting item has ended, is claimed or replayed, or is not its own.",
            next_step="Cancel the item, or replay its Event; then run it again.",
            facts=facts,
        )
    return None


def decide_dependency(item: Row, waits_for: str | None) -> Finding | None:
    """Decide on what a waiting item's route names; a worker would block it, and the Event executor executes it.

    Args:
        item: A row of LIST_RETRIES_TO_FENCE or LIST_PENDING_TO_FENCE.
        waits_for: The kind of Event that has not ended well in its target lane yet; None when nothing is missing.

    Rule: C-04.
    """
    if waits_for is None:
        return None
    return Finding(
        code=RollbackCode.BLOCKED_ITEM,
        sentence=f"An item waits for what its route names: {waits_for}.",
        next_step="Let it come, or cancel the item; then run it again.",
        facts={"work_id": item["WorkId"], "waits_for": waits_for},
    )


def _decide_history(item: Row, attempts: Sequence[Row], facts: Mapping[str, Any]) -> Finding | None:
    state = stored(WorkItemState, item["State"])
    numbers = [attempt["Attempt"] for attempt in attempts]
    was_claimed = item["Attempt"] > 0
    if item["IsLeased"] or numbers != list(range(1, item["Attempt"] + 1)) or was_claimed != (state is _RETRY):
        return Finding(
            code=RollbackCode.HISTORY_UNVERIFIABLE,
            sentence="The attempts of a waiting item are not all there, or contradict it.",
            next_step="Let the item end, or cancel it; then run it again.",
            facts=facts,
        )
    for attempt in attempts:
        outcome = _outcome_of(attempt, item)
        if outcome is AttemptOutcome.RELEASED:
            # Given back before its flow was called.
            continue
        if outcome is not AttemptOutcome.RETRY:
            return Finding(
                code=RollbackCode.OUTCOME_AMBIGUOUS,
                sentence="An attempt of a waiting item was lost: what it did cannot be told.",
                next_step="Let the item end, or cancel it; then run it again.",
                facts={**facts, "of_attempt": attempt["Attempt"]},
            )
        if attempt["DispatchedAt"] is not None:
            return Finding(
                code=RollbackCode.PRIOR_DISPATCH,
                sentence="The flow of a waiting item was called before.",
                next_step="Let the item end, or cancel it; then run it again.",
                facts={**facts, "of_attempt": attempt["Attempt"]},
            )
    return None


_RETRY: Final = WorkItemState.RETRY
#: How the newest attempt ended, which no claim has closed yet, by what the item says of it.
_BY_FAILURE: Final[Mapping[str | None, AttemptOutcome]] = {
    FailureClass.RELEASED: AttemptOutcome.RELEASED,
    FailureClass.LEASE_LOST: AttemptOutcome.LOST,
}


def _outcome_of(attempt: Row, item: Row) -> AttemptOutcome:
    if attempt["Outcome"] is not None:
        return stored(AttemptOutcome, attempt["Outcome"])
    if attempt["Attempt"] != item["Attempt"]:
        # Nobody closed it.
        return AttemptOutcome.LOST
    return _BY_FAILURE.get(item["FailureClass"], AttemptOutcome.RETRY)


def _may_have_left(effect: Row) -> bool:
    return effect["DispatchStartedAt"] is not None or effect["OutcomeClass"] != _NOT_DISPATCHED


def decide_ranges(above_cutoff: Row | None, cutoff: int) -> Finding | None:
    """Decide on inputs of source projections.

    Args:
        above_cutoff: An input above the cutoff, if there is one.
        cutoff: The pack's `LegacyMaxOrdinal`; 0 without a protocol.

    Rule: C-09.
    """
    if above_cutoff is None:
        return None
    return _ranges(
        f"Inputs of source projections were admitted above the cutoff {cutoff}.",
        {"event_id": above_cutoff["EventId"], "ordinal": above_cutoff["LaneOrdinal"], "legacy_max_ordinal": cutoff},
    )


def decide_inputs(without_item: Row) -> Finding | None:
    """Decide on inputs of source projections that no WorkItem names.

    Builds without ranges left the inputs that a generation took as they were, and a projection cutover accepts that.
    The Event executor executes each Event that waits, so that it would execute those inputs again.

    Args:
        without_item: The row of COUNT_INPUTS_WITHOUT_ITEM.

    Rule: C-04.
    """
    count = int(without_item["Found"])
    if not count:
        return None
    return Finding(
        code=RollbackCode.INPUT_WITHOUT_ITEM,
        sentence=f"{count} inputs of source projections have no WorkItem of their own, and may have been executed.",
        next_step="The Event executor would execute them again: this incarnation stays with the WorkItems.",
        facts={"inputs": count, "event_id": without_item["EventId"]},
    )


def _ranges(sentence: str, facts: Mapping[str, Any]) -> Finding:
    return Finding(
        code=RollbackCode.RANGES_ADMITTED,
        sentence=sentence,
        next_step="The Event executor cannot read ranges: this incarnation stays with the WorkItems.",
        facts=facts,
    )


def digest_set(work_ids: Iterable[str]) -> tuple[int, str]:
    """Return the size and the digest of a set of WorkIds.

    Args:
        work_ids: Sorted, each once.

    Returns:
        How many, and the SHA-256 of the ids with a line feed after each, 64 lowercase hex characters.
    """
    count, total = 0, hashlib.sha256()
    for work_id in work_ids:
        count += 1
        total.update(f"{work_id}\n".encode("ascii"))
    return count, total.hexdigest()
