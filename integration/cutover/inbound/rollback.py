"""The inbound rollback: a pack's waiting work goes back to the Event executor, proved and bound by one receipt.

Two kinds of transactions. The first one opens the rollback's fence and evicts every process that may claim; from then
on no claim begins and no process registers, until the receipt is written or the rollback is abandoned. Each later one
proves that nothing is in hand, then hands over the next items; the one that leaves none outside seals the fence, gives
the Events back and writes the receipt. Killed anywhere, the next run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from integration import errors
from integration.audit.policy import check_printable, check_reason
from integration.cutover.inbound import rollback_steps as steps
from integration.cutover.inbound.auditing import audited, check_attestation
from integration.cutover.inbound.rollback_policy import decide_attestation, refuse
from integration.cutover.inbound.rollback_proof import survey
from integration.cutover.inbound.rollback_steps import Request, RolledBack, find_rolled_back
from integration.failpoints import failpoint
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.values import Actor, new_id

#: How many items one transaction hands over.
CHUNK: Final = 500
#: And how many at the most: their rows are locked, and their ids are in one statement.
LARGEST_CHUNK: Final = 10_000
_LONGEST_BUILD: Final = 64


def roll_back(
    pack_install_id: str,
    *,
    actor: Actor,
    reason: str,
    attestation: str,
    approved_builds: Sequence[str],
    chunk: int = CHUNK,
    using: str = "default",
) -> RolledBack:
    """Give a pack's waiting work back to the Event executor.

    The steps: survey without locks, so that what is refused anyway stops no claim; open the fence and evict every
    process that may claim; then, until none is left outside, prove and hand over; seal, give the Events back, write
    the receipt.

    Args:
        pack_install_id: The incarnation.
        actor: Who asks, with the permissions of this moment.
        reason: Why, 1 to 500 characters on one line; it goes into the receipt and the audit trail.
        attestation: What the operator says of unregistered processes that claim WorkItems; the receipt carries it.
        approved_builds: The build versions whose Event executor is admitted; at least one.
        chunk: How many items one transaction hands over, 1 to 10 000.
        using: The database alias.

    Returns:
        The rollback; the same one to whoever asks again.

    Raises:
        InvalidInput: The reason, the builds or the chunk are not valid.
        NotAllowed: The actor may not run cutovers.
        PackNotFound: There is no such incarnation.
        SchemaMismatch: The database has no columns for a rollback.
        RollbackRefused: Something stands against it. Claims stay stopped if they were: run it again, or abandon it.
        ConcurrentChange: Rows changed between two statements, or another abandoned it; run it again.
        Busy: A lock was not free in time; run it again.

    Locks: NAMESPACE, PACK, PROCESS, EVENT, WORK_ITEM, LEAF.
    Rule: C-02, C-03, C-04, C-09, C-10.
    """
    text, builds, said = check_reason(reason), _check_builds(approved_builds), check_attestation(attestation)
    if not 1 <= chunk <= LARGEST_CHUNK:
        message = f"A transaction hands over 1 to {LARGEST_CHUNK} items."
        raise errors.InvalidInput(message, field="chunk", found=str(chunk))

    def run(pack: Row) -> RolledBack:
        request = Request(
            pack_install_id=pack_install_id,
            namespace=pack["Namespace"],
            actor=actor,
            reason=text,
            attestation=said,
            approved_builds=builds,
            chunk=chunk,
            receipt_id=new_id(),
        )
        return _roll_back(request, using)

    return audited("inbound_cutover.rolled_back", pack_install_id, run, actor=actor, reason=text, using=using)


def _roll_back(request: Request, using: str) -> RolledBack:
    reader = db.read(using)
    if find_rolled_back(reader, request.pack_install_id) is None:
        refuse(steps.find_not_forward(reader, request.pack_install_id))
        refuse(decide_attestation(request.attestation))
        survey(reader, request.pack_install_id, are_claims_stopped=False)
    failpoint("rollback.before_open")
    step = db.run(partial(steps.open_fence, request=request), name="cutover.open_rollback", using=using)
    failpoint("rollback.after_open")
    if not isinstance(step, RolledBack):
        survey(reader, request.pack_install_id, are_claims_stopped=True)

    def settle(found: Reader) -> RolledBack | str | None:
        done = find_rolled_back(found, request.pack_install_id)
        return None if done is None else replace(done, is_new=done.receipt_id == request.receipt_id)

    while not isinstance(step, RolledBack):
        unit = partial(steps.hand_over, request=request, fence_id=step)
        step = db.run(unit, name="cutover.roll_back", using=using, settle=settle)
        failpoint("rollback.after_chunk")
    failpoint("rollback.after_commit")
    return step


def abandon(pack_install_id: str, *, actor: Actor, reason: str, using: str = "default") -> str:
    """Give up a rollback whose receipt is not written: the pack's workers may claim again.

    What it has handed over is given back first, in transactions of a few hundred items; killed in between, it is run
    again, or the rollback is. Each item becomes what it was.

    Args:
        pack_install_id: The incarnation.
        actor: Who asks, with the permissions of this moment.
        reason: Why, 1 to 500 characters on one line; it goes into the audit trail.
        using: The database alias.

    Returns:
        The id of the fence, which is closed.

    Raises:
        InvalidInput: The reason is not valid.
        NotAllowed: The actor may not run cutovers.
        PackNotFound: There is no such incarnation.
        RollbackRefused: None is open.
        Busy: A lock was not free in time; run it again.

    Locks: NAMESPACE, PACK, WORK_ITEM, LEAF.
    Rule: C-03.
    """
    text = check_reason(reason)

    def run(pack: Row) -> str:
        unit = partial(steps.give_back, pack=pack, actor=actor, reason=text)
        while (fence_id := db.run(unit, name="cutover.abandon_rollback", using=using)) is None:
            failpoint("rollback.after_given_back")
        return fence_id

    return audited("inbound_cutover.rollback_abandoned", pack_install_id, run, actor=actor, reason=text, using=using)


def _check_builds(builds: Sequence[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(build.strip() for build in builds))
    if not found or not all(1 <= len(build) <= _LONGEST_BUILD for build in found):
        message = f"Name the builds that may execute the Events, each in 1 to {_LONGEST_BUILD} characters."
        raise errors.InvalidInput(message, field="approved_builds", found=f"{len(found)} builds")
    for build in found:
        check_printable("approved_builds", build)
    return found
