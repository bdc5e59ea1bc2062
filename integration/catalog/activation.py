"""Make an installed incarnation the active one: retire, sweep, activate, and write what that proves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record
from integration.catalog import reads
from integration.catalog.documents import PackDocument
from integration.catalog.policy import ActivationFacts, active_key, decide_activation, live_key
from integration.states import PackStatus, stored
from integration.storage import db
from integration.storage.db import Row, Tx
from integration.storage.locks import LockedPack, lock_namespace, lock_packs
from integration.storage.sql import cutovers, events, packs, protocols, routes
from integration.storage.sql.audit import READ_DATABASE_TIME
from integration.values import Actor, PackInstallId, canonical_json, digest_text, new_id

PROTOCOL_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivatedPack:
    """What an activation came to.

    Attributes:
        pack_install_id: The incarnation that is active now.
        catalog_revision: The namespace's newest revision.
        receipt_id: The forward cutover receipt; None when it was active already.
        retired_pack_install_id: The incarnation that it replaced, if any.
        is_new: False when it was active already and nothing was changed.
    """

    pack_install_id: PackInstallId
    catalog_revision: int
    receipt_id: str | None
    retired_pack_install_id: PackInstallId | None
    is_new: bool


def activate_pack(pack_install_id: str, *, actor: Actor) -> ActivatedPack:
    """Make an installed incarnation the active one of its namespace and name.

    1. Lock the namespace, then this incarnation and the one it replaces, by id.
    2. Refuse what the rules refuse.
    3. Retire the replaced incarnation and sweep its routes.
    4. Activate this one under the next catalog revision, and make its routes live.
    5. Write the projection protocol with cutoff 0, and the forward receipt, owner generation 1.

    Args:
        pack_install_id: The incarnation.
        actor: Who activates it.

    Returns:
        What was done; nothing when it is active already.

    Raises:
        PackNotFound: There is no such incarnation.
        CatalogRefused: A rule refuses it; nothing was changed.

    Locks: NAMESPACE, PACK, ROUTE.
    """
    found = db.read().fetch_one(packs.FIND_PACK, {"pack_install_id": pack_install_id})
    if found is None:
        raise errors.PackNotFound
    document = PackDocument.model_validate_json(found["Definition"])
    activated = db.run(lambda tx: _activate(tx, found, document, actor), name="catalog.activate_pack")
    reads.forget_namespace(document.binding.namespace)
    return activated


def _activate(tx: Tx, found: Row, document: PackDocument, actor: Actor) -> ActivatedPack:
    namespace, pack_name = found["Namespace"], found["PackName"]
    lock_namespace(tx, namespace)
    incarnations = tx.fetch_all(packs.LIST_INCARNATIONS, {"namespace": namespace, "pack_name": pack_name})
    replaced_id = next((row["PackInstallId"] for row in incarnations if row["Status"] == PackStatus.ACTIVE), None)
    locked = {
        pack.pack_install_id: pack for pack in lock_packs(tx, [found["PackInstallId"], *filter(None, [replaced_id])])
    }
    pack = locked[PackInstallId(found["PackInstallId"])]
    if replaced_id == pack.pack_install_id:
        return ActivatedPack(
            pack_install_id=pack.pack_install_id,
            catalog_revision=pack.row["CatalogRevision"],
            receipt_id=None,
            retired_pack_install_id=None,
            is_new=False,
        )
    refusal = decide_activation(_activation_facts(tx, pack, document, incarnations[-1]["Incarnation"], replaced_id))
    if refusal is not None:
        raise refusal
    revision = _next_revision(tx)
    by_id = {"pack_install_id": pack.pack_install_id}
    if replaced_id is not None:
        _demand_one(tx.execute(packs.MARK_PACK_RETIRED, {"pack_install_id": replaced_id}))
    _demand_one(
        tx.execute(
            packs.MARK_PACK_ACTIVE,
            {**by_id, "active_key": active_key(namespace, pack_name), "catalog_revision": revision},
        )
    )
    receipt_id = _write_greenfield_receipt(pack, document, actor)
    if replaced_id is not None:
        tx.execute(routes.SWEEP_ROUTES, {"pack_install_id": replaced_id})
    tx.execute(routes.MARK_ROUTES_LIVE, {**by_id, "namespace": namespace})
    facts = {
        "catalog_digest": pack.row["CatalogDigest"],
        "catalog_revision": revision,
        "incarnation": pack.row["Incarnation"],
        "retired_pack_install_id": replaced_id,
        "cutover_receipt_id": receipt_id,
    }
    record(pack, pack_fact("pack.activated", actor, document, pack.pack_install_id, facts))
    return ActivatedPack(
        pack_install_id=pack.pack_install_id,
        catalog_revision=revision,
        receipt_id=receipt_id,
        retired_pack_install_id=None if replaced_id is None else PackInstallId(replaced_id),
        is_new=True,
    )


def _activation_facts(
    tx: Tx, pack: LockedPack, document: PackDocument, newest_incarnation: int, replaced_id: str | None
) -> ActivationFacts:
    namespace = pack.row["Namespace"]
    own = {pack.pack_install_id, replaced_id}
    others = [
        row
        for row in tx.fetch_all(packs.LIST_ACTIVE_PACKS_OF_NAMESPACE, {"namespace": namespace})
        if row["PackInstallId"] not in own
    ]
    names = {row["PackInstallId"]: row["PackName"] for row in others}
    live = tx.fetch_all(
        routes.LIST_ROUTES_BY_LIVE_KEY,
        {"live_keys": [live_key(namespace, route.event) for route in document.routes]},
    )
    return ActivationFacts(
        status=stored(PackStatus, pack.row["Status"]),
        incarnation=pack.row["Incarnation"],
        newest_incarnation=newest_incarnation,
        has_events=tx.fetch_one(events.FIND_EVENT_OF_PACK, {"pack_install_id": pack.pack_install_id}) is not None,
        document=document,
        kinds_live_elsewhere={
            row["EventKind"]: names.get(row["PackInstallId"], "of another incarnation")
            for row in live
            if row["PackInstallId"] not in own
        },
        webhook_keys_elsewhere={
            webhook.key: row["PackName"]
            for row in others
            for webhook in PackDocument.model_validate_json(row["Definition"]).webhooks
        },
    )


def _write_greenfield_receipt(pack: LockedPack, document: PackDocument, actor: Actor) -> str:
    """Write what a new, empty incarnation proves: there is no old work, so the WorkItem owns all of it."""
    tx = pack.tx
    tx.execute(
        protocols.INSERT_PROJECTION_PROTOCOL,
        {
            "pack_install_id": pack.pack_install_id,
            "protocol_version": PROTOCOL_VERSION,
            "legacy_max_ordinal": 0,
            "written_by": actor.name,
        },
    )
    now = read_now(tx)
    values = {
        "receipt_id": new_id(),
        "pack_install_id": pack.pack_install_id,
        "direction": "forward",
        "owner_generation": 1,
        "previous_receipt_id": None,
        "written_by": actor.name,
    }
    # What a receipt says of itself is what `integration.cutover.receipts`, which stands above, verifies.
    proof = canonical_json(
        {
            **values,
            "kind": "greenfield_activation",
            "namespace": document.binding.namespace,
            "catalog_digest": pack.row["CatalogDigest"],
            "owner": "work_item",
            "protocol_version": PROTOCOL_VERSION,
            "legacy_max_ordinal": 0,
            "counts": {"events": 0, "event_claims": 0, "event_leases": 0, "work_items": 0},
            "previous_proof_digest": None,
            "written_at": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
        }
    )
    tx.execute(
        cutovers.INSERT_CUTOVER_RECEIPT,
        {**values, "proof": proof, "proof_digest": digest_text(proof), "written_at": now},
    )
    return str(values["receipt_id"])


def _next_revision(tx: Tx) -> int:
    row = tx.fetch_one(packs.READ_GREATEST_REVISION)
    return 1 if row is None else int(row["CatalogRevision"]) + 1


def read_now(tx: Tx) -> Any:
    """Return the database's time, aware UTC."""
    row = tx.fetch_one(READ_DATABASE_TIME)
    if row is None:
        raise errors.InvariantBroken
    return row["Now"]


def _demand_one(count: int) -> None:
    if count != 1:
        message = f"one pack row must change, {count} did"
        raise errors.UnexpectedRowCount(message)


def pack_fact(action: str, actor: Actor, document: PackDocument, pack_install_id: str, facts: Row) -> AuditFact:
    """Return the audit fact of something done to a pack."""
    return AuditFact(
        action=action,
        outcome=AuditOutcome.DONE,
        actor=actor,
        ref_kind="pack",
        ref_id=pack_install_id,
        org_id=document.binding.org,
        namespace=document.binding.namespace,
        pack_install_id=pack_install_id,
        facts={"pack": document.pack, "version": document.version, **facts},
    )
