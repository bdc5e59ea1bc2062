"""Arm and lift admission fences, and let scopes through them.

A fence stops materialization and replay in a namespace, never the storing of receipts. Every admission and every replay
locks the row of the active incarnation that it goes into, and reads the fences in a later statement under that lock.
So a fence that is committed stops whoever locks a pack's row from then on; and whoever had locked one before has ended
as soon as its row could be locked once. That is all the barrier does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NoReturn

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome, check_reason
from integration.audit.service import record_alone, record_in, run_recording
from integration.cutover.fences import policy, reads
from integration.cutover.fences.barrier import WAIT_SECONDS, await_admissions
from integration.cutover.fences.values import (
    Armed,
    Fence,
    FenceNotArmed,
    FenceNotFound,
    FenceState,
    Granted,
    Override,
    OverrideNotFound,
    OverrideNotLive,
    OverrideState,
)
from integration.cutover.rights import CUTOVER_PERMISSION, demand_cutover, may_know
from integration.failpoints import failpoint
from integration.ingress.policy import EVERY_SCOPE
from integration.storage.db import Reader, Tx
from integration.storage.locks import LockedNamespace, lock_namespace
from integration.storage.sql import fences as sql
from integration.storage.sql.audit import READ_DATABASE_TIME
from integration.values import Actor, new_id

_ID: Final = re.compile(r"[0-9a-f-]{36}", re.ASCII)


def arm_fence(
    namespace: str,
    scope: str,
    *,
    expires_in: timedelta | None = None,
    reason: str,
    actor: Actor,
    wait_seconds: float = WAIT_SECONDS,
    using: str = "default",
) -> Armed:
    """Arm a fence; return when every admission and replay that began before has ended.

    1. Under the namespace's lock, find the fence of the same terms that is armed already, lets nothing through and has
       nine tenths of its time left, or insert one, with its audit entry; commit.
    2. Lock the row of each active incarnation once, one after the other.

    The same request soon again returns that fence, and waits: after a crash in between, and after `AdmissionsUnderWay`.

    Args:
        namespace: Where admission and replay stop.
        scope: `*` for every event kind, or one event kind.
        expires_in: After which time it ends by itself; None for when somebody lifts it.
        reason: Why, 1 to 500 characters on one line.
        actor: Who arms it.
        wait_seconds: How long the second step may wait, 0 to 3600.
        using: The database alias.

    Returns:
        The fence, and what was waited for.

    Raises:
        NotAllowed: The actor may not run cutovers.
        InvalidInput: A term is not valid.
        NotFound: There is no such namespace.
        Busy: The database is busy; nothing was changed.
        CommitUnknown: Whether it was armed could not be found out.
        AdmissionsUnderWay: It is armed, but not everything that began before has ended in time.

    Locks: NAMESPACE; then, each in a transaction of its own, PACK.
    Rule: C-14.
    """
    _demand("armed", "", actor=actor, namespace=namespace, using=using)
    reason = check_reason(reason)
    policy.check_scope(scope)
    policy.check_duration(expires_in)
    policy.check_wait(wait_seconds)
    fence_id, seconds = new_id(), policy.seconds_of(expires_in)

    def unit(tx: Tx) -> tuple[str, bool]:
        held = lock_namespace(tx, namespace)
        same = _find_same(tx, namespace, scope, expires_in)
        if same is not None:
            return same, False
        values = {"fence_id": fence_id, "namespace": namespace, "scope": scope, "seconds": seconds}
        tx.execute(sql.INSERT_FENCE, {**values, "armed_by": actor.name, "reason": reason})
        _done(held, _fact("armed", fence_id, scope, actor=actor, reason=reason, facts={"seconds": seconds}))
        return fence_id, True

    def settle(reader: Reader) -> tuple[str, bool] | None:
        return (fence_id, True) if reader.fetch_one(sql.FIND_FENCE, {"fence_id": fence_id}) else None

    found_id, is_new = run_recording(unit, name="fences.arm", using=using, settle=settle)
    failpoint("fence.before_barrier")
    waited_for = await_admissions(namespace, wait_seconds=wait_seconds, fence_id=found_id, using=using)
    return Armed(fence=reads.get_fence(found_id, using=using), is_new=is_new, waited_for=waited_for)


def lift_fence(fence_id: str, *, actor: Actor, reason: str = "", using: str = "default") -> Fence:
    """Lift a fence: what waited is materialized from now on, in the order in which it came.

    Args:
        fence_id: The fence.
        actor: Who lifts it.
        reason: Why, if that is to be said.
        using: The database alias.

    Returns:
        The fence as it is now.

    Raises:
        NotAllowed: The actor may not run cutovers.
        InvalidInput: The reason is not valid.
        FenceNotFound: There is no such fence.
        FenceNotArmed: It was lifted already, or ran out.
        Busy: The database is busy; nothing was changed.

    Locks: NAMESPACE, LEAF.
    """
    before = _find("lifted", fence_id, actor=actor, using=using)
    reason = check_reason(reason) if reason.strip() else ""
    facts = {"armed_at": before.armed_at.isoformat(), "armed_by": before.armed_by}

    def unit(tx: Tx) -> bool:
        held = lock_namespace(tx, before.namespace)
        if tx.execute(sql.MARK_FENCE_LIFTED, {"fence_id": fence_id, "lifted_by": actor.name}) != 1:
            return False
        _done(held, _fact("lifted", fence_id, before.scope, actor=actor, reason=reason, facts=facts))
        return True

    def settle(reader: Reader) -> bool | None:
        now = reads.get_fence(fence_id, reader=reader)
        return True if before.state is FenceState.ARMED and now.lifted_by == actor.name else None

    done = run_recording(unit, name="fences.lift", using=using, settle=settle)
    fence = reads.get_fence(fence_id, using=using)
    if not done:
        _refuse("lifted", _not_armed(fence), fence, actor=actor, reason=reason, using=using)
    return fence


def grant_override(
    fence_id: str,
    scope: str,
    *,
    expires_in: timedelta | None = None,
    reason: str,
    actor: Actor,
    using: str = "default",
) -> Granted:
    """Let a scope through an armed fence, for a time or until the fence ends.

    Args:
        fence_id: The fence.
        scope: `*` for all that it stops, or one event kind of it.
        expires_in: After which time the scope is stopped again; None for not before the fence ends.
        reason: Why, 1 to 500 characters on one line.
        actor: Who grants it.
        using: The database alias.

    Returns:
        The override; the one in force, when it has the same terms.

    Raises:
        NotAllowed: The actor may not run cutovers.
        InvalidInput: A term is not valid, or the fence does not stop the scope.
        FenceNotFound: There is no such fence.
        FenceNotArmed: It was lifted, or ran out.
        Busy: The database is busy; nothing was changed.

    Locks: NAMESPACE.
    """
    before = _find("overridden", fence_id, actor=actor, using=using)
    reason = check_reason(reason)
    policy.check_duration(expires_in)
    policy.check_override_scope(before.scope, scope)
    override_id, seconds = new_id(), policy.seconds_of(expires_in)

    def unit(tx: Tx) -> tuple[str, bool] | None:
        held = lock_namespace(tx, before.namespace)
        fence = reads.get_fence(fence_id, reader=tx)
        if fence.state is not FenceState.ARMED:
            return None
        same = policy.find_same_override(fence.overrides, scope, expires_in)
        if same is not None:
            return same.override_id, False
        values = {"override_id": override_id, "fence_id": fence_id, "scope": scope, "seconds": seconds}
        tx.execute(sql.INSERT_OVERRIDE, {**values, "granted_by": actor.name, "reason": reason})
        facts = {"override_id": override_id, "override_scope": scope, "seconds": seconds}
        _done(held, _fact("overridden", fence_id, fence.scope, actor=actor, reason=reason, facts=facts))
        return override_id, True

    def settle(reader: Reader) -> tuple[str, bool] | None:
        return (override_id, True) if reader.fetch_one(sql.FIND_OVERRIDE, {"override_id": override_id}) else None

    made = run_recording(unit, name="fences.grant_override", using=using, settle=settle)
    fence = reads.get_fence(fence_id, using=using)
    if made is None:
        _refuse("overridden", _not_armed(fence), fence, actor=actor, reason=reason, using=using)
    found_id, is_new = made
    return Granted(fence=fence, override=reads.get_override(found_id, using=using), is_new=is_new)


def lift_override(
    override_id: str,
    *,
    actor: Actor,
    reason: str = "",
    wait_seconds: float = WAIT_SECONDS,
    using: str = "default",
) -> Override:
    """Take an override back; return when every admission and replay has ended that it had let through.

    Args:
        override_id: The override.
        actor: Who takes it back.
        reason: Why, if that is to be said.
        wait_seconds: How long to wait for what began before, 0 to 3600.
        using: The database alias.

    Returns:
        The override as it is now.

    Raises:
        NotAllowed: The actor may not run cutovers.
        InvalidInput: The reason or the time to wait is not valid.
        OverrideNotFound: There is no such override.
        OverrideNotLive: It was taken back already, or ran out.
        Busy: The database is busy; nothing was changed.
        AdmissionsUnderWay: It is taken back, but not everything that began before has ended in time.

    Locks: NAMESPACE, LEAF; then, each in a transaction of its own, PACK.
    """
    if not actor.reach(CUTOVER_PERMISSION):
        _demand("closed", "", actor=actor, namespace=None, using=using)
    before = reads.get_override(override_id, using=using)
    fence = _find("closed", before.fence_id, actor=actor, using=using, absent=OverrideNotFound)
    reason = check_reason(reason) if reason.strip() else ""
    policy.check_wait(wait_seconds)
    facts = {"override_id": override_id, "override_scope": before.scope, "granted_by": before.granted_by}

    def unit(tx: Tx) -> bool:
        held = lock_namespace(tx, fence.namespace)
        if tx.execute(sql.MARK_OVERRIDE_LIFTED, {"override_id": override_id, "lifted_by": actor.name}) != 1:
            return False
        _done(held, _fact("closed", fence.fence_id, fence.scope, actor=actor, reason=reason, facts=facts))
        return True

    def settle(reader: Reader) -> bool | None:
        row = reader.fetch_one(sql.FIND_OVERRIDE, {"override_id": override_id})
        is_own = row is not None and row["LiftedBy"] == actor.name
        return True if before.state is OverrideState.LIVE and is_own else None

    done = run_recording(unit, name="fences.lift_override", using=using, settle=settle)
    # Whoever asks again, since the first time did not come to the end of this, is refused after it.
    await_admissions(fence.namespace, wait_seconds=wait_seconds, fence_id=fence.fence_id, using=using)
    override = reads.get_override(override_id, using=using)
    if not done:
        message = f"The override is not in force: it {_ended(override.state)}; nothing was changed."
        refused = OverrideNotLive(message, override_id=override_id, state=override.state.value)
        _refuse("closed", refused, fence, actor=actor, reason=reason, using=using)
    return override


def _find(
    verb: str, fence_id: str, *, actor: Actor, using: str, absent: type[errors.NotFound] = FenceNotFound
) -> Fence:
    """Return a fence that the actor may change; one that he may not even see is none."""
    if not actor.reach(CUTOVER_PERMISSION):
        _demand(verb, fence_id, actor=actor, namespace=None, using=using)
    fence = reads.get_fence(fence_id, using=using)
    if not may_know(actor, fence.namespace):
        raise absent
    _demand(verb, fence_id, actor=actor, namespace=fence.namespace, using=using)
    return fence


def _demand(verb: str, ref_id: str, *, actor: Actor, namespace: str | None, using: str) -> None:
    """Demand the right to change fences; who lacks it is in the trail, with the fence that he named."""
    try:
        demand_cutover(actor, namespace)
    except errors.NotAllowed as refusal:
        named = ref_id if _ID.fullmatch(ref_id) else ""
        fact = _fact(verb, named, EVERY_SCOPE, actor=actor, reason="", facts={"code": refusal.code})
        record_alone(replace(fact, outcome=AuditOutcome.REFUSED), using=using)
        raise


def _find_same(tx: Tx, namespace: str, scope: str, expires_in: timedelta | None) -> str | None:
    armed = tx.fetch_all(sql.LIST_ARMED_FENCES, {"namespace": namespace})
    clock = tx.fetch_one(READ_DATABASE_TIME)
    if not armed or clock is None:
        return None
    live = tx.fetch_all(sql.LIST_LIVE_OVERRIDES, {"fence_ids": [row["FenceId"] for row in armed]})
    return policy.find_same_fence(armed, {row["FenceId"] for row in live}, scope, expires_in, clock["Now"])


def _ended(state: FenceState | OverrideState) -> str:
    return "was lifted" if state.value == FenceState.LIFTED.value else "has run out"


def _not_armed(fence: Fence) -> FenceNotArmed:
    message = f"The fence is not armed: it {_ended(fence.state)}; nothing was changed."
    return FenceNotArmed(message, fence_id=fence.fence_id, state=fence.state.value)


def _refuse(verb: str, error: errors.Refused, fence: Fence, *, actor: Actor, reason: str, using: str) -> NoReturn:
    facts = {"code": error.code, **error.data_fields}
    fact = _fact(verb, fence.fence_id, fence.scope, actor=actor, reason=reason, facts=facts)
    record_alone(replace(fact, outcome=AuditOutcome.REFUSED, namespace=fence.namespace), using=using)
    raise error


def _done(held: LockedNamespace, fact: AuditFact) -> None:
    """Record what was done to a fence, in the transaction that does it."""
    record_in(held.tx, replace(fact, org_id=held.row["OrgId"], namespace=held.row["Namespace"]))


def _fact(verb: str, fence_id: str, scope: str, *, actor: Actor, reason: str, facts: Mapping[str, Any]) -> AuditFact:
    return AuditFact(
        action=f"admission_fence.{verb}",
        outcome=AuditOutcome.DONE,
        actor=actor,
        ref_kind="admission_fence",
        ref_id=fence_id,
        event_kind=None if scope == EVERY_SCOPE else scope,
        reason=reason,
        facts=facts,
    )
