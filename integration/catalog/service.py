"""Install a pack as an incarnation, and make one the active one (`activation.py`)."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from typing import Final

from django.db import IntegrityError

from integration.audit.service import record_alone
from integration.catalog.activation import ActivatedPack, activate_pack, pack_fact, read_now
from integration.catalog.documents import PackDocument, RouteRule
from integration.catalog.policy import (
    CatalogRefusalCode,
    CatalogRefused,
    decide_route_versions,
)
from integration.states import PackStatus, stored
from integration.storage import db
from integration.storage.db import Row, Tx
from integration.storage.locks import lock_namespace
from integration.storage.sql import namespaces, packs, routes
from integration.values import Actor, PackInstallId, canonical_json, new_id

__all__ = ["ActivatedPack", "InstalledPack", "activate_pack", "install_pack"]

#: Names the app installation of an org that declares none, the same one in every incarnation.
_APP_INSTALLATIONS: Final = uuid.UUID("6f1c2f57-0f0e-5d0b-9a53-2c1f4a3f7d10")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPack:
    """What an installation came to.

    Attributes:
        pack_install_id: The incarnation.
        incarnation: Its number, from 1.
        status: Where it stands.
        is_new: False when the same document was installed already and nothing was changed.
        catalog_digest: The document's digest.
    """

    pack_install_id: PackInstallId
    incarnation: int
    status: PackStatus
    is_new: bool
    catalog_digest: str


def install_pack(document: PackDocument, *, actor: Actor) -> InstalledPack:
    """Install a pack as a new incarnation, unless the newest one is this very document.

    Args:
        document: The validated pack; its binding names the namespace and the org.
        actor: Who installs it.

    Returns:
        The incarnation; not active yet, unless the same document is.

    Raises:
        CatalogRefused: The namespace is another org's, or a route version was changed in place.

    Locks: NAMESPACE.
    """
    binding = document.binding
    if db.read().fetch_one(namespaces.FIND_NAMESPACE, {"namespace": binding.namespace}) is None:
        # Another installation may make it in the meantime; whose it is, is decided under the lock.
        with contextlib.suppress(IntegrityError):
            db.execute_alone(namespaces.INSERT_NAMESPACE, {"namespace": binding.namespace, "org_id": binding.org})
    installed = db.run(lambda tx: _install(tx, document), name="catalog.install_pack")
    if installed.is_new:
        facts = {"catalog_digest": installed.catalog_digest, "incarnation": installed.incarnation}
        record_alone(pack_fact("pack.installed", actor, document, installed.pack_install_id, facts))
    return installed


def _install(tx: Tx, document: PackDocument) -> InstalledPack:
    binding = document.binding
    namespace = lock_namespace(tx, binding.namespace)
    if namespace.row["OrgId"] != binding.org:
        raise CatalogRefused(
            CatalogRefusalCode.NAMESPACE_OF_ANOTHER_ORG,
            f"The namespace {binding.namespace} belongs to another org.",
            namespace=binding.namespace,
        )
    incarnations = tx.fetch_all(packs.LIST_INCARNATIONS, {"namespace": binding.namespace, "pack_name": document.pack})
    digest = document.digest()
    newest = incarnations[-1] if incarnations else None
    if newest is not None and newest["Status"] != PackStatus.RETIRED and _is_installed(tx, newest, document):
        return InstalledPack(
            pack_install_id=PackInstallId(newest["PackInstallId"]),
            incarnation=newest["Incarnation"],
            status=stored(PackStatus, newest["Status"]),
            is_new=False,
            catalog_digest=newest["CatalogDigest"],
        )
    if incarnations:
        earlier = tx.fetch_all(
            routes.LIST_ROUTES_OF_PACKS, {"pack_install_ids": [row["PackInstallId"] for row in incarnations]}
        )
        refusal = decide_route_versions(
            document,
            [(row["RouteVersion"], RouteRule.model_validate_json(row["Definition"])) for row in earlier],
        )
        if refusal is not None:
            raise refusal
    installed = InstalledPack(
        pack_install_id=PackInstallId(new_id()),
        incarnation=1 if newest is None else newest["Incarnation"] + 1,
        status=PackStatus.INSTALLED,
        is_new=True,
        catalog_digest=digest,
    )
    _insert_incarnation(tx, document, installed)
    return installed


def _is_installed(tx: Tx, newest: Row, document: PackDocument) -> bool:
    """Compare as parsed: a build that knows one default more digests the same file differently."""
    found = tx.fetch_one(packs.FIND_PACK, {"pack_install_id": newest["PackInstallId"]})
    return found is not None and PackDocument.model_validate_json(found["Definition"]) == document


def _insert_incarnation(tx: Tx, document: PackDocument, installed: InstalledPack) -> None:
    binding = document.binding
    app_installation = binding.app_installation or str(
        uuid.uuid5(_APP_INSTALLATIONS, f"{binding.org}/{binding.namespace}/{document.pack}")
    )
    tx.execute(
        packs.INSERT_PACK,
        {
            "pack_install_id": installed.pack_install_id,
            "org_id": binding.org,
            "app_installation_id": app_installation,
            "namespace": binding.namespace,
            "pack_name": document.pack,
            "pack_version": document.version,
            "incarnation": installed.incarnation,
            "catalog_digest": installed.catalog_digest,
            "definition": document.canonical(),
        },
    )
    created_at = read_now(tx)
    tx.execute_many(
        routes.INSERT_ROUTES,
        [
            {
                "route_id": new_id(),
                "pack_install_id": installed.pack_install_id,
                "event_kind": route.event,
                "route_version": route.version,
                "provider": document.provider,
                "work_type": route.work_type.value,
                "execution_class": route.execution.value,
                "flow_name": route.flow.name,
                "flow_version": str(route.flow.version),
                "definition": canonical_json(route.model_dump(mode="json")),
                "created_at": created_at,
                "status": "swept",
                "live_key": None,
                "swept_at": None,
            }
            for route in document.routes
        ],
    )
