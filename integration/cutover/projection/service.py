"""The projection cutover: one row that says where an incarnation's old protocol ended, and nothing else.

The history is audited first without locks, behind an admission fence that keeps it as it is and ends nothing: what has
ended stays so. Under the locks only what could have changed is asked again, each by one short range of an index.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import structlog
from django.db import IntegrityError

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record, record_alone
from integration.cutover.projection import reads
from integration.cutover.projection.audit import Audit, Progress, audit, look_again, refusal_of
from integration.cutover.projection.history import Finding
from integration.cutover.projection.patience import Patience
from integration.cutover.projection.policy import CutoverRefused
from integration.failpoints import failpoint
from integration.projection.coverage import PROTOCOL_VERSION
from integration.projection.gate import missing_of_schema
from integration.storage import db
from integration.storage.db import Reader, Tx
from integration.storage.locks import lock_namespace, lock_pack
from integration.storage.probe import capabilities
from integration.storage.sql import protocols
from integration.values import Actor

ACTION: Final = "projection.cut_over"
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where an incarnation's old protocol ended.

    Attributes:
        pack_install_id: The incarnation.
        protocol_version: The protocol that follows.
        legacy_max_ordinal: The last ordinal that was given under the old one; 0 for an incarnation without it.
        written_at: When it was written, aware UTC.
        written_by: By whom.
        is_new: False when it was there already and nothing was done.
    """

    pack_install_id: str
    protocol_version: int
    legacy_max_ordinal: int
    written_at: datetime
    written_by: str
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a cutover would come to now.

    Attributes:
        pack_install_id: The incarnation.
        checkpoint: The row that is there already; nothing else was read then.
        cutoff: The last ordinal of the old protocol, as it would be written.
        findings: Everything that refuses, in the order in which it is asked; empty when it would go through.
        events: How many Events were read.
        inputs: How many of them are inputs of source projections.
        indirect: How many of those no WorkItem names.
    """

    pack_install_id: str
    checkpoint: Checkpoint | None = None
    cutoff: int | None = None
    findings: tuple[Finding, ...] = ()
    events: int = 0
    inputs: int = 0
    indirect: int = 0


def preview(
    pack_install_id: str, *, patience: Patience, progress: Progress = lambda done, of: None, using: str = "default"
) -> Preview:
    """Find out everything that would refuse a cutover; writes and locks nothing.

    Args:
        pack_install_id: The incarnation.
        patience: When to give up.
        progress: Told as the history is read.
        using: The database alias.

    Returns:
        Every reason with its rows, the first of them; the checkpoint, when there is one already.

    Raises:
        InvalidInput: The id is none.
        PackNotFound: There is no such incarnation.
        SchemaMismatch: The schema cannot hold ranges.
        TimeIsUp: It took too long.
        Stopped: It was asked to stop.

    Locks: none.
    Rule: P-14, P-15.
    """
    reader = db.read(using)
    known = _begin(reader, pack_install_id, patience, using)
    if known is not None:
        return Preview(pack_install_id=pack_install_id, checkpoint=known)
    found = audit(reader, reads.read_pack(reader, pack_install_id), patience, progress, is_whole=True)
    return Preview(
        pack_install_id=pack_install_id,
        cutoff=found.conditions.cutoff,
        findings=found.findings,
        events=found.events,
        inputs=found.inputs,
        indirect=found.indirect,
    )


def cut_over(
    pack_install_id: str,
    *,
    actor: Actor,
    patience: Patience,
    progress: Progress = lambda done, of: None,
    using: str = "default",
) -> Checkpoint:
    """Write where an incarnation's old projection protocol ended, once.

    1. Return the checkpoint that is there already.
    2. Refuse by the conditions, by unended work, and by the history, read without locks.
    3. Lock the namespace, then the incarnation.
    4. Return the checkpoint that another has written meanwhile.
    5. Refuse if a condition does not hold any more, or work is unended after all.
    6. Write the row and the audit entry.

    Who may call it is decided by who holds the database's address; a surface with accounts demands
    `integration.run_cutover` itself.

    Args:
        pack_install_id: The active incarnation.
        actor: Who makes the cutover.
        patience: When to give up. A lock is waited for as long as the session says, beyond it if need be.
        progress: Told as the history is read.
        using: The database alias.

    Returns:
        The checkpoint; the same one for whoever calls, and however often.

    Raises:
        InvalidInput: The id is none.
        PackNotFound: There is no such incarnation.
        SchemaMismatch: The schema cannot hold ranges.
        CutoverRefused: The first reason, with what else was found until then.
        TimeIsUp: It took too long; nothing was written.
        Stopped: It was asked to stop; nothing was written.
        CommitUnknown: Whether it was written is not known; calling again tells.

    Locks: NAMESPACE, PACK.
    Rule: P-14, P-16, P-17.
    """
    reader = db.read(using)
    known = _begin(reader, pack_install_id, patience, using)
    if known is not None:
        return known
    found = audit(reader, reads.read_pack(reader, pack_install_id), patience, progress, is_whole=False)
    try:
        if found.findings:
            raise refusal_of(found.findings)
        return _write(found, actor, patience, using)
    except CutoverRefused as refused:
        record_alone(_fact(found.pack, actor, AuditOutcome.REFUSED, refused.data_fields), using=using)
        raise


def _begin(reader: Reader, pack_install_id: str, patience: Patience, using: str) -> Checkpoint | None:
    if _ID.fullmatch(pack_install_id) is None:
        message = "pack-install-id must be an incarnation's id: 36 characters, hexadecimal in small letters."
        raise errors.InvalidInput(message, field="pack-install-id")
    patience.check()
    missing = missing_of_schema(capabilities(using, fresh=True))
    if missing:
        message = f"The schema lacks {', '.join(missing)}: run manage.py install_schema first."
        raise errors.SchemaMismatch(message, missing=list(missing))
    return _find(reader, pack_install_id)


def _find(reader: Reader, pack_install_id: str) -> Checkpoint | None:
    row = reader.fetch_one(protocols.FIND_PROJECTION_PROTOCOL, {"pack_install_id": pack_install_id})
    if row is None:
        return None
    if row["ProtocolVersion"] != PROTOCOL_VERSION:
        message = "The incarnation has a checkpoint of a protocol that this build does not know; update the build."
        raise errors.SchemaMismatch(message, protocol_version=row["ProtocolVersion"])
    return Checkpoint(
        pack_install_id=row["PackInstallId"],
        protocol_version=row["ProtocolVersion"],
        legacy_max_ordinal=row["LegacyMaxOrdinal"],
        written_at=row["WrittenAt"],
        written_by=row["WrittenBy"],
    )


def _write(audited: Audit, actor: Actor, patience: Patience, using: str) -> Checkpoint:
    pack_install_id = audited.pack.pack_install_id
    tried: Checkpoint | None = None

    def unit(tx: Tx) -> Checkpoint:
        nonlocal tried
        patience.check()
        tried = _write_once(tx, audited, actor, patience)
        return tried

    def settle(reader: Reader) -> Checkpoint | None:
        found = _find(reader, pack_install_id)
        # By the time that the database gave it: the row is this run's, or another was faster after all.
        is_own = tried is not None and found == replace(tried, is_new=False)
        return tried if is_own else found

    while True:
        try:
            written = db.run(unit, name="projection.cut_over", using=using, settle=settle)
        except (errors.LockTimeout, errors.Deadlock):
            # Somebody admits, or moves something else of the namespace; there may be time left to wait for it.
            patience.check()
            continue
        except IntegrityError:
            # By whoever does not lock.
            found = _find(db.read(using), pack_install_id)
            if found is None:
                raise
            return found
        failpoint("projection_cutover.after_commit")
        log.info("projection.cut_over", pack_install_id=pack_install_id, is_new=written.is_new)
        return written


def _write_once(tx: Tx, audited: Audit, actor: Actor, patience: Patience) -> Checkpoint:
    pack_install_id = audited.pack.pack_install_id
    lock_namespace(tx, audited.pack.namespace)
    locked = lock_pack(tx, pack_install_id)
    failpoint("projection_cutover.locked")
    known = _find(tx, pack_install_id)
    if known is not None:
        return known
    refusing = look_again(tx, audited)
    if refusing:
        raise refusal_of(refusing)
    failpoint("projection_cutover.before_insert")
    patience.check()
    tx.execute(
        protocols.INSERT_PROJECTION_PROTOCOL,
        {
            "pack_install_id": pack_install_id,
            "protocol_version": PROTOCOL_VERSION,
            "legacy_max_ordinal": audited.conditions.cutoff,
            "written_by": actor.name,
        },
    )
    failpoint("projection_cutover.after_insert")
    written = _find(tx, pack_install_id)
    if written is None:
        raise errors.InvariantBroken
    facts = {
        "protocol_version": PROTOCOL_VERSION,
        "legacy_max_ordinal": audited.conditions.cutoff,
        "fence_ids": sorted(audited.conditions.fence_ids),
        "counts": {
            "events": audited.events,
            "inputs": audited.inputs,
            "indirect": audited.indirect,
        },
    }
    record(locked, _fact(audited.pack, actor, AuditOutcome.DONE, facts))
    failpoint("projection_cutover.before_commit")
    patience.check()
    return replace(written, is_new=True)


def _fact(pack: reads.Pack, actor: Actor, outcome: AuditOutcome, facts: dict[str, Any]) -> AuditFact:
    return AuditFact(
        action=ACTION,
        outcome=outcome,
        actor=actor,
        ref_kind="pack",
        ref_id=pack.pack_install_id,
        org_id=pack.org_id,
        namespace=pack.namespace,
        pack_install_id=pack.pack_install_id,
        facts=facts,
    )
