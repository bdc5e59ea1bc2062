"""Running the flow of a claimed item, and deciding how the execution ended."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from integration import errors
from integration.catalog import reads as catalog
from integration.failpoints import failpoint
from integration.states import FailureClass
from integration.storage import db
from integration.storage.db import Row
from integration.storage.sql import events
from integration.work import finish, flows, metrics
from integration.work.claim import Claim
from integration.work.families import Family
from integration.work.finish import Ended
from integration.work.material import NotGiven, read_material
from integration.work.outage import patiently
from integration.work.policy import RetryPolicy, decide_delay

log = structlog.get_logger(__name__)
_FALLBACK = RetryPolicy()


class RunnerMissing(errors.SetupError):
    """This build cannot run work of this family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How an execution ended, before it is stored.

    Attributes:
        ended: The transition to make.
        failure: Why it failed; None when it did not.
        after_seconds: When the flow wants its next try; None leaves it to the route's policy.
        trace_id: What the log calls the delivery; None when nothing was read.
    """

    ended: Ended
    failure: FailureClass | None = None
    after_seconds: float | None = None
    trace_id: str | None = None


#: Runs a claimed item of a family that no Event is behind; told whether an operator asked it to stop.
Runner = Callable[[Claim, Callable[[], bool]], Verdict]
_runners: dict[str, Runner] = {}


def register_runner(family: Family, runner: Runner) -> None:
    """Have a family's items run by a function.

    Args:
        family: A family that is not Event-backed; those run flows.
        runner: Runs one item and says how it ended; like a flow it may run longer than a lease.
    """
    _runners[family.name] = runner


def check_runner(family: Family) -> None:
    """Make sure that this process can run a family's items.

    Raises:
        RunnerMissing: Nothing here runs them.
    """
    if not family.is_event_backed and family.name not in _runners:
        message = f"This build has nothing that runs work of the family {family.name}."
        raise RunnerMissing(message, family=family.name)


def execute(claim: Claim, *, chance: Callable[[], float] = random.random) -> Ended | None:
    """Run a claimed item to its end.

    Args:
        claim: The live claim.
        chance: A source of numbers from 0 to 1 that spreads the retries.

    Returns:
        The transition that was stored, or None when the claim was no longer live.

    Raises:
        Busy: The database did not answer for as long as the lease runs; the item will be reaped.
    """
    return store(claim, run(claim), chance=chance)


def run(claim: Claim, *, is_cancelled: Callable[[], bool] = lambda: False) -> Verdict:
    """Run a claimed item's flow.

    Args:
        claim: The live claim.
        is_cancelled: Tells the flow whether it was asked to stop.

    Returns:
        How it ended; nothing is stored yet.

    Raises:
        Busy: The payload could not be read for as long as the lease runs.
    """
    # A claim may have waited for a thread since it was made.
    if claim.item.is_cancel_requested or is_cancelled():
        return Verdict(ended=Ended.ACKNOWLEDGE_CANCEL)
    item = claim.item
    if not item.family.is_event_backed:
        with structlog.contextvars.bound_contextvars(work_id=claim.work_id, attempt=claim.attempt):
            return _run_by_runner(claim, is_cancelled)
    row = claim.event or patiently(lambda: _read_event(item.event_id), role="execute", seconds=claim.lease_seconds)
    trace_id = row["ReceiptId"] or row["EventId"]
    with structlog.contextvars.bound_contextvars(work_id=claim.work_id, attempt=claim.attempt, trace_id=trace_id):
        return replace(_run_flow(claim, row, is_cancelled), trace_id=trace_id)


def _run_by_runner(claim: Claim, is_cancelled: Callable[[], bool]) -> Verdict:
    try:
        return _runners[claim.item.family.name](claim, is_cancelled)
    except BaseException as error:  # noqa: BLE001 - as for a flow
        log.warning("work.runner_failed", error=type(error).__name__)
        return Verdict(ended=Ended.RETRY, failure=FailureClass.FLOW_ERROR)


def store(claim: Claim, verdict: Verdict, *, chance: Callable[[], float] = random.random) -> Ended | None:
    """Store how an execution ended, however long the database is away, as long as the lease may run.

    Args:
        claim: The live claim.
        verdict: How it ended.
        chance: A source of numbers from 0 to 1 that spreads the retries.

    Returns:
        The transition that was stored, or None when the claim was no longer live.

    Raises:
        Busy: The database did not answer for as long as the lease runs; the item will be reaped.
    """
    with structlog.contextvars.bound_contextvars(
        work_id=claim.work_id, attempt=claim.attempt, trace_id=verdict.trace_id
    ):
        failpoint("finish.before")
        try:
            ended = patiently(
                lambda: conclude(claim, verdict, chance=chance), role="finish", seconds=claim.lease_seconds
            )
        except errors.StaleClaim:
            log.warning("work.stale", transition=verdict.ended)
            return None
        failpoint("finish.after_commit")
        log.info("work.ended", transition=ended, failure=verdict.failure)
        return ended


def conclude(claim: Claim, verdict: Verdict, *, chance: Callable[[], float] = random.random) -> Ended:
    """Store how an execution ended.

    Args:
        claim: The live claim.
        verdict: What to store.
        chance: A source of numbers from 0 to 1.

    Returns:
        The transition that was made.

    Raises:
        StaleClaim: The claim is no longer live; nothing was changed.

    Locks: WORK_ITEM.
    """
    match verdict.ended:
        case Ended.COMPLETE:
            return finish.complete(claim)
        case Ended.SKIP:
            return finish.skip(claim)
        case Ended.ACKNOWLEDGE_CANCEL:
            return finish.acknowledge_cancel(claim)
        case Ended.BURY:
            return finish.bury(claim, verdict.failure or FailureClass.FLOW_ERROR)
        case Ended.RETRY:
            policy = _policy_of(claim.item.route_id) if claim.item.family.is_event_backed else _FALLBACK
            wait = verdict.after_seconds
            if wait is None:
                wait = decide_delay(policy, claim.attempt, chance=chance())
            return finish.retry(
                claim, verdict.failure or FailureClass.FLOW_ERROR, after_seconds=min(max(wait, 0.0), policy.cap_seconds)
            )


def _run_flow(claim: Claim, row: Row, is_cancelled: Callable[[], bool]) -> Verdict:
    item = claim.item
    try:
        function = flows.get_flow(item.flow_name, item.flow_version)
        material = read_material(claim, row)
    except flows.FlowUnknown:
        # Another build of the worker may know it.
        return Verdict(ended=Ended.RETRY, failure=FailureClass.FLOW_UNKNOWN)
    except NotGiven as error:
        return Verdict(ended=Ended.RETRY, failure=error.failure)
    context = flows.FlowContext(
        work_id=item.work_id,
        event_id=item.event_id,
        org_id=row["OrgId"],
        namespace=row["Namespace"],
        event_kind=row["EventKind"],
        payload=material.payload,
        attempt=claim.attempt,
        max_attempts=item.max_attempts,
        occurred_at=row["OccurredAt"],
        received_at=row["ReceivedAt"],
        inputs=() if material.inputs is None else material.inputs,
        is_cancelled=is_cancelled,
    )
    started = time.perf_counter()
    try:
        verdict = call_flow(function, context)
        # A flow that went on without an input has not had its inputs.
        material.check_inputs()
    except NotGiven as error:
        return Verdict(ended=Ended.RETRY, failure=error.failure)
    else:
        return verdict
    finally:
        metrics.FLOW_SECONDS.labels(item.flow_name).observe(time.perf_counter() - started)


def call_flow(function: flows.Flow, context: flows.FlowContext) -> Verdict:
    """Call a flow and say how it ended, whatever it raises.

    Args:
        function: The flow.
        context: What it is given.

    Returns:
        How it ended; nothing is stored yet.
    """
    try:
        function(context)
    except flows.FlowSkip:
        return Verdict(ended=Ended.SKIP)
    except flows.FlowRejected:
        return Verdict(ended=Ended.BURY, failure=FailureClass.FLOW_REJECTED)
    except flows.FlowRetry as asked:
        return Verdict(ended=Ended.RETRY, failure=FailureClass.FLOW_RETRY, after_seconds=asked.after_seconds)
    except flows.FlowCancelled:
        return _stopped(context)
    except BaseException as error:  # noqa: BLE001 - a flow may raise anything, and its text may quote the payload
        # Also an exit or a cancelled task: neither may end the worker, which has other flows. Signals go elsewhere.
        log.warning("work.flow_failed", error=type(error).__name__)
        return Verdict(ended=Ended.RETRY, failure=FailureClass.FLOW_ERROR)
    return Verdict(ended=Ended.COMPLETE)


def _stopped(context: flows.FlowContext) -> Verdict:
    if context.is_cancelled():
        return Verdict(ended=Ended.ACKNOWLEDGE_CANCEL)
    # Nobody asked for it, as far as this process knows, and the acknowledgement would be refused.
    return Verdict(ended=Ended.RETRY, failure=FailureClass.FLOW_ERROR)


def _read_event(event_id: str) -> Row:
    row = db.read().fetch_one(events.READ_EVENT_FOR_EXECUTION, {"event_id": event_id})
    if row is None:
        raise errors.EventNotFound(event_id=event_id)
    return row


def _policy_of(route_id: str) -> RetryPolicy:
    try:
        rule = catalog.get_route(route_id).retry
    except errors.NotFound:
        return _FALLBACK
    return RetryPolicy(
        base_seconds=rule.base_seconds, factor=rule.factor, cap_seconds=rule.cap_seconds, jitter=rule.jitter
    )
