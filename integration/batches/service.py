"""Make a bulk replay, pause and resume it, let it go on, cancel it. The runner replays; nothing here does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome, check_reason
from integration.audit.service import record_alone, record_in, run_recording
from integration.authority import requests
from integration.authority.values import VIEW_PERMISSION
from integration.batches.reads import get_batch, list_places
from integration.batches.rights import covers, demand_bulk
from integration.batches.selection import Selection
from integration.batches.values import (
    HALT_AFTER,
    LARGEST,
    UNKNOWN,
    Batch,
    BatchState,
    BatchStateRefused,
    ItemOutcome,
    SelectionDrifted,
    SelectionEmpty,
)
from integration.storage import db
from integration.storage.db import Reader, Tx
from integration.storage.sql import replay_batches as sql
from integration.values import Actor, canonical_json, digest_parts, new_id

_INSERT_ROWS: Final = 500


def create(
    selection: Selection,
    *,
    actor: Actor,
    reason: str,
    canary: int = 0,
    halt_after: int = HALT_AFTER,
    per_minute: int = 0,
    expected_digest: str | None = None,
    idempotency_key: str | None = None,
    using: str = "default",
) -> Batch:
    """Store a bulk replay; a runner begins with it at once.

    Args:
        selection: The rows, as `select` read them.
        actor: Who asks, with the permissions of this moment; each item reads them again.
        reason: Why, 1 to 500 characters on one line; every item's audit entry has it.
        canary: Rows to replay before somebody has to say go; 0 for none.
        halt_after: How many same refusals, or dead children, in a row stop it; 1 to 1,000.
        per_minute: Replays a minute at most; 0 for as fast as they go.
        expected_digest: The digest of the selection that was looked at; another one refuses.
        idempotency_key: Names this request: the same actor's same key gets the first batch again.
        using: The database alias.

    Returns:
        The batch.

    Raises:
        NotAllowed: The actor may not replay in bulk, or not in the namespace of one of the rows.
        InvalidInput: A value is not valid.
        SelectionEmpty: There is nothing to replay.
        SelectionDrifted: It is not the selection that was looked at.

    Locks: none.
    """
    within = demand_bulk(actor)
    reason = check_reason(reason)
    _check_range("canary", canary, 0, LARGEST)
    _check_range("halt_after", halt_after, 1, 1_000)
    _check_range("per_minute", per_minute, 0, 60_000)
    named = requests.digest_request(actor, idempotency_key)
    digest = None if named is None else digest_parts("batch", named)
    before = _find_before(digest, actor, using)
    if before is not None:
        return before
    named_places = {item.namespace for item in selection.items if item.namespace is not None}
    if not selection.items or not (named_places or within.is_everywhere):
        raise SelectionEmpty
    if not covers(within, named_places):
        raise errors.NotAllowed
    if expected_digest is not None and expected_digest != selection.digest:
        raise SelectionDrifted(found=selection.digest, total=len(selection.items))
    batch_id = new_id()
    values = {
        "id": batch_id,
        "created_by_id": actor.user_id,
        "created_by_name": actor.name,
        "reason": reason,
        "selection": canonical_json(dict(selection.asked)),
        "selection_digest": selection.digest,
        "request_digest": digest,
        "total": len(selection.items),
        "is_capped": selection.is_capped,
        "left_out": selection.left_out,
        "canary": canary,
        "halt_after": halt_after,
        "per_minute": per_minute,
    }
    places = sorted(named_places)
    if within.is_everywhere and any(item.namespace is None for item in selection.items):
        places.append(UNKNOWN)
    facts = {name: values[name] for name in ("total", "selection_digest", "canary", "halt_after", "per_minute")}

    def write(tx: Tx) -> bool:
        if digest is not None and tx.fetch_one(sql.FIND_BATCH_OF_REQUEST, {"request_digest": digest}) is not None:
            return False
        tx.execute(sql.INSERT_BATCH, values)
        rows = _item_rows(batch_id, selection)
        for start in range(0, len(rows), _INSERT_ROWS):
            tx.execute_many(sql.INSERT_BATCH_ITEMS, rows[start : start + _INSERT_ROWS])
        tx.execute_many(
            sql.INSERT_BATCH_PLACES,
            [{"id": new_id(), "batch_id": batch_id, "namespace": name} for name in places],
        )
        return True

    def settle(reader: Reader) -> bool | None:
        return True if reader.fetch_one(sql.FIND_BATCH, {"id": batch_id}) else None

    fact = _fact("created", batch_id, actor, reason=reason, facts=facts, places=places)
    if not run_audited(write, fact, settle=settle, using=using):
        before = _find_before(digest, actor, using)
        if before is None:
            raise errors.InvariantBroken
        return before
    return get_batch(batch_id, using=using)


def go(batch_id: str, *, actor: Actor, reason: str = "", using: str = "default") -> Batch:
    """Let a batch go on that waits after its canary, or that was halted; what repeated before counts no more.

    Raises:
        NotAllowed: The actor may not replay in bulk in one of its namespaces.
        BatchNotFound: There is no such batch where he may look.
        BatchStateRefused: It neither waits nor was it halted.

    Locks: LEAF, the batch.
    """
    return _move("continued", batch_id, BatchState.RUNNING, actor=actor, reason=reason, using=using)


def pause(batch_id: str, *, actor: Actor, reason: str = "", using: str = "default") -> Batch:
    """Stop a running batch for a while: no further item is begun; one that is under way is still replayed and noted.

    Raises:
        NotAllowed: The actor may not replay in bulk in one of its namespaces.
        BatchNotFound: There is no such batch where he may look.
        BatchStateRefused: It is not running.

    Locks: LEAF, the batch.
    """
    return _move("paused", batch_id, BatchState.PAUSED, actor=actor, reason=reason, using=using)


def resume(batch_id: str, *, actor: Actor, reason: str = "", using: str = "default") -> Batch:
    """Let a paused batch go on where it was, with the same canary, pace and count of what repeats.

    Raises:
        NotAllowed: The actor may not replay in bulk in one of its namespaces.
        BatchNotFound: There is no such batch where he may look.
        BatchStateRefused: It is not paused.

    Locks: LEAF, the batch.
    """
    return _move("resumed", batch_id, BatchState.RUNNING, actor=actor, reason=reason, using=using)


def cancel(batch_id: str, *, actor: Actor, reason: str = "", using: str = "default") -> Batch:
    """Stop a batch for good; a row whose replay is under way is still replayed, and the ledger says so.

    Raises:
        NotAllowed: The actor may not replay in bulk in one of its namespaces.
        BatchNotFound: There is no such batch where he may look.
        BatchStateRefused: It has ended.

    Locks: LEAF, the batch.
    """
    return _move("cancelled", batch_id, BatchState.CANCELLED, actor=actor, reason=reason, using=using)


_STATEMENTS: Final = {
    "continued": sql.CONTINUE_BATCH,
    "paused": sql.PAUSE_BATCH,
    "resumed": sql.RESUME_BATCH,
    "cancelled": sql.CANCEL_BATCH,
}


def _move(verb: str, batch_id: str, to: BatchState, *, actor: Actor, reason: str, using: str) -> Batch:
    demand_bulk(actor)
    reason = check_reason(reason) if reason.strip() else ""
    before = get_batch(batch_id, within=actor.reach(VIEW_PERMISSION), using=using)
    places = list_places(batch_id, using=using)
    demand_bulk(actor, places)
    facts = {"was": before.state.value, "left": before.totals.left}
    fact = _fact(verb, batch_id, actor, reason=reason, facts=facts, places=places)

    def write(tx: Tx) -> bool:
        return tx.execute(_STATEMENTS[verb], {"id": batch_id}) == 1

    def settle(reader: Reader) -> bool | None:
        row = reader.fetch_one(sql.FIND_BATCH, {"id": batch_id})
        return True if row is not None and row["state"] == to and before.state is not to else None

    if not run_audited(write, fact, settle=settle, using=using):
        _refuse(fact, get_batch(batch_id, using=using), using)
    return get_batch(batch_id, using=using)


def _refuse(fact: AuditFact, batch: Batch, using: str) -> NoReturn:
    refused = AuditFact(
        action=fact.action,
        outcome=AuditOutcome.REFUSED,
        actor=fact.actor,
        ref_kind=fact.ref_kind,
        ref_id=fact.ref_id,
        namespace=fact.namespace,
        reason=fact.reason,
        facts={"code": BatchStateRefused.code, "state": batch.state.value},
    )
    record_alone(refused, using=using)
    message = f"The bulk replay is {batch.state}; nothing was changed."
    raise BatchStateRefused(message, state=batch.state.value)


def run_audited(
    write: Callable[[Tx], bool],
    fact: AuditFact,
    *,
    settle: Callable[[Reader], bool | None] | None = None,
    using: str = "default",
) -> bool:
    """Write something and its audit entry in one transaction.

    Args:
        write: Writes; False means that nothing was written, and then no entry is.
        fact: The entry.
        settle: Tells after an unknown COMMIT whether it was stored.
        using: The database alias.

    Returns:
        What `write` returned.

    Raises:
        Busy: A unique key was taken in every try.
    """

    def unit(tx: Tx) -> bool:
        if not write(tx):
            return False
        record_in(tx, fact)
        return True

    return run_recording(unit, name="batches.write", using=using, settle=settle)


def stop_fact(batch: Batch, verb: str, actor: Actor, code: str) -> AuditFact:
    """Return the entry of a batch that a runner stopped or finished."""
    facts = {"code": code, "total": batch.total}
    return _fact(verb, batch.id, actor, reason="", facts=facts, places=list_places(batch.id))


def _fact(
    verb: str, batch_id: str, actor: Actor, *, reason: str, facts: Mapping[str, Any], places: Sequence[str]
) -> AuditFact:
    return AuditFact(
        action=f"replay_batch.{verb}",
        outcome=AuditOutcome.DONE,
        actor=actor,
        ref_kind="replay_batch",
        ref_id=batch_id,
        # An entry is of one namespace or of none.
        namespace=places[0] or None if len(places) == 1 else None,
        reason=reason,
        facts=facts,
    )


def _item_rows(batch_id: str, selection: Selection) -> list[dict[str, Any]]:
    return [
        {
            "id": new_id(),
            "batch_id": batch_id,
            "position": position,
            "ref_kind": item.ref.kind.value,
            "ref_id": item.ref.id,
            "namespace": item.namespace,
            "event_kind": item.event_kind,
            "source_lane": item.source_lane,
            "outcome": ItemOutcome.LEFT.value,
            "code": "",
        }
        for position, item in enumerate(selection.items, start=1)
    ]


def _find_before(digest: str | None, actor: Actor, using: str) -> Batch | None:
    if digest is None:
        return None
    row = db.read(using).fetch_one(sql.FIND_BATCH_OF_REQUEST, {"request_digest": digest})
    return None if row is None else get_batch(row["id"], within=actor.reach(VIEW_PERMISSION), using=using)


def _check_range(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        message = f"{field} is {least} to {most}."
        raise errors.InvalidInput(message, field=field)
