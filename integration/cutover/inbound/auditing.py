"""How what is asked of a pack's ownership is checked, and what of it goes to the trail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome, check_printable
from integration.audit.service import record_alone
from integration.cutover.inbound.rollback_policy import RollbackRefused
from integration.cutover.rights import demand_cutover
from integration.storage import db, probe
from integration.storage.db import Row
from integration.storage.sql import packs
from integration.values import Actor

T = TypeVar("T")

ATTESTATION_CHARACTERS: Final = 500


def audited(
    action: str, pack_install_id: str, run: Callable[[Row], T], *, actor: Actor, reason: str, using: str = "default"
) -> T:
    """Do what an actor asks of a pack, and write to the trail what is refused.

    Args:
        action: `noun.past`.
        pack_install_id: The incarnation.
        run: Is given the pack's row, as it was read without a lock.
        actor: Who asks.
        reason: Why; empty when none is asked for.
        using: The database alias.

    Raises:
        NotAllowed: The actor may not run cutovers.
        PackNotFound: There is no such incarnation.
        SchemaMismatch: The database has no columns for a rollback.
    """
    pack: Row | None = None
    try:
        demand_cutover(actor)
        pack = db.read(using).fetch_one(packs.FIND_PACK, {"pack_install_id": pack_install_id})
        if pack is None:
            raise errors.PackNotFound
        if not probe.capabilities(using).has_rollback:
            message = "The database has no columns for a rollback: run install_schema."
            raise errors.SchemaMismatch(message)
        return run(pack)
    except (errors.NotAllowed, errors.NotFound, RollbackRefused) as error:
        facts = {"code": error.finding.code.value if isinstance(error, RollbackRefused) else error.code}
        fact = fact_of(
            action, pack or {"PackInstallId": pack_install_id}, facts, actor, reason, outcome=AuditOutcome.REFUSED
        )
        record_alone(fact, using=using)
        raise


def fact_of(
    action: str,
    pack: Row,
    facts: Mapping[str, Any],
    actor: Actor,
    reason: str,
    *,
    outcome: AuditOutcome = AuditOutcome.DONE,
) -> AuditFact:
    """Return what the trail is told of a pack.

    Args:
        action: `noun.past`.
        pack: The pack's row, or its id alone.
        facts: Ids, codes and counts.
        actor: Who asked.
        reason: Why.
        outcome: How it ended.
    """
    return AuditFact(
        action=action,
        outcome=outcome,
        actor=actor,
        ref_kind="pack",
        ref_id=pack["PackInstallId"],
        org_id=pack.get("OrgId"),
        namespace=pack.get("Namespace"),
        pack_install_id=pack["PackInstallId"],
        reason=reason,
        facts=facts,
    )


def check_attestation(attestation: str) -> str:
    """Return what an operator says of unregistered processes, without the space around it; empty for nothing.

    Raises:
        InvalidInput: It is too long, or would not stand on one line.
    """
    text = attestation.strip()
    if len(text) > ATTESTATION_CHARACTERS:
        message = f"The attestation has {len(text)} characters: shorten it to {ATTESTATION_CHARACTERS}."
        raise errors.InvalidInput(message, field="attest", found=f"{len(text)} characters")
    check_printable("attest", text)
    return text
