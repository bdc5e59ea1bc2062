"""Write to the trail.

Entries are chained within a stream: each covers its predecessor's digest, and (stream, seq) is unique. There
is no global chain, which would make every replay wait for every other one. An entry that is written inside a
pack transaction goes to the pack's stream, whose order the pack lock decides already; an entry that is
written alone goes to its actor's stream, so that two operators never wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from django.db import IntegrityError

from integration import errors
from integration.audit.policy import GENESIS_DIGEST, AuditFact, entry_digest
from integration.storage import db
from integration.storage.db import Reader, Row, Tx
from integration.storage.locks import LockedPack
from integration.storage.sql import audit
from integration.values import Actor, canonical_json, new_id

T = TypeVar("T")

_MAX_TRIES: Final = 20


def record(pack: LockedPack, fact: AuditFact) -> str:
    """Append an entry to a pack's stream, in the pack's transaction.

    Args:
        pack: The locked incarnation whose lock serializes the stream.
        fact: What to write.

    Returns:
        The entry's id.

    Locks: none; the pack is held.
    """
    return _append(pack.tx, f"pack/{pack.pack_install_id}", fact)


def record_in(tx: Tx, fact: AuditFact) -> str:
    """Append an entry to its actor's stream, in the caller's transaction, which holds no pack.

    Args:
        tx: The transaction whose writes the entry tells of; both are stored or neither.
        fact: What to write.

    Returns:
        The entry's id.

    Raises:
        IntegrityError: Another entry of the actor took the place; `run_recording` runs the transaction again.

    Locks: none.
    """
    return _append(tx, _stream_of(fact.actor), fact)


def record_alone(fact: AuditFact, *, using: str = "default") -> str:
    """Append an entry to its actor's stream, in a transaction of its own.

    Args:
        fact: What to write; used for refusals, lost races and whatever is not done under a pack lock.
        using: The database alias.

    Returns:
        The entry's id.

    Raises:
        Busy: The actor's own stream was contended in every try, or the database is busy.

    Locks: none; the unique key of (stream, seq) decides, and the loser appends after the winner.
    """
    return run_recording(lambda tx: record_in(tx, fact), name="audit.record_alone", using=using)


def record_once(fact: AuditFact, *, within_seconds: int, using: str = "default") -> str | None:
    """Append an entry to its actor's stream, unless the actor did the same to the same thing a short time ago.

    The stream's head is read before the earlier entry is looked for: of two requests at once both take the same place,
    and the one that loses it looks again and finds the winner's.

    Args:
        fact: What to write; its actor is an account.
        within_seconds: How long an entry stands for what follows it.
        using: The database alias.

    Returns:
        The entry's id, None where an earlier one stands for it.

    Raises:
        Busy: The actor's own stream was contended in every try, or the database is busy.

    Locks: none.
    """
    params = {
        "ref_id": fact.ref_id,
        "action": fact.action,
        "actor_id": fact.actor.user_id,
        "within_seconds": within_seconds,
    }

    def unit(tx: Tx) -> str | None:
        stream = _stream_of(fact.actor)
        head = tx.fetch_one(audit.READ_AUDIT_HEAD, {"stream": stream})
        if tx.fetch_one(audit.FIND_RECENT_AUDIT_ENTRY, params) is not None:
            return None
        return _append_behind(tx, stream, head, fact)

    return run_recording(unit, name="audit.record_once", using=using)


def run_recording(
    unit: Callable[[Tx], T], *, name: str, using: str = "default", settle: Callable[[Reader], T | None] | None = None
) -> T:
    """Run a unit of work that calls `record_in`, again whenever another entry of the actor takes its place.

    Args:
        unit: As for `db.run`, as are the others.
        name: The use case.
        using: The database alias.
        settle: Tells after an unknown COMMIT what was stored.

    Returns:
        What the unit returned, or `settle` found.

    Raises:
        Busy: The place was taken in every try.
    """
    for tries in range(_MAX_TRIES):
        try:
            return db.run(unit, name=name, using=using, settle=settle)
        except IntegrityError:
            # Who goes on at once meets the same others again, and one of many may lose every time.
            db.pause(tries)
    raise errors.Busy


def _stream_of(actor: Actor) -> str:
    """Return whose stream it is: the account's, a stranger's address, or the system's."""
    if actor.user_id is not None:
        return f"actor/{actor.user_id}"
    # Whoever guesses at sign-in contends with his own address alone.
    return f"address/{actor.remote_addr}" if actor.remote_addr else "actor/system"


def _append(tx: Tx, stream: str, fact: AuditFact) -> str:
    return _append_behind(tx, stream, tx.fetch_one(audit.READ_AUDIT_HEAD, {"stream": stream}), fact)


def _append_behind(tx: Tx, stream: str, head: Row | None, fact: AuditFact) -> str:
    clock = tx.fetch_one(audit.READ_DATABASE_TIME)
    if clock is None:
        raise errors.InvariantBroken
    row: Row = {
        "id": new_id(),
        "stream": stream,
        "seq": 1 if head is None else head["seq"] + 1,
        "previous_digest": GENESIS_DIGEST if head is None else head["digest"],
        "at": clock["Now"],
        "actor_id": fact.actor.user_id,
        "actor_name": fact.actor.name,
        "via": fact.actor.via,
        "remote_addr": fact.actor.remote_addr,
        "action": fact.action,
        "outcome": fact.outcome.value,
        "ref_kind": fact.ref_kind,
        "ref_id": fact.ref_id,
        "org_id": fact.org_id,
        "namespace": fact.namespace,
        "pack_install_id": fact.pack_install_id,
        "event_kind": fact.event_kind,
        "reason": fact.reason,
        "facts": canonical_json(dict(fact.facts)),
    }
    row["digest"] = entry_digest(row)
    tx.execute(audit.INSERT_AUDIT_ENTRY, row)
    return str(row["id"])
