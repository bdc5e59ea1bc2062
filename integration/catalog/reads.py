"""What other contexts read of the catalog: webhooks by address, routes by id; cached in the process.

A namespace's snapshot is asked for its revision at most once a second, so that a rotation is seen within a
second by every process. A route never changes, so it is read once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from integration import errors
from integration.catalog.documents import PackDocument, RetryRule, RouteRule, WebhookRule
from integration.states import ExecutionClass, WorkType
from integration.storage import db
from integration.storage.db import Row
from integration.storage.sql import packs, routes
from integration.values import PackInstallId, RouteId

REVALIDATE_SECONDS: Final = 1.0
_MAX_NAMESPACES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookBinding:
    """A webhook of an active pack, with what its namespace binds it to.

    Attributes:
        pack_install_id: The incarnation that was active when the snapshot was read.
        namespace: The namespace.
        org_id: The org.
        provider: The provider's name.
        route_key: The webhook's key in the address.
        subscription_generation: The generation of the provider's subscription, from 1.
        rule: The webhook's parameters.
        secret_references: The secrets by reference, in the rule's order.
    """

    pack_install_id: PackInstallId
    namespace: str
    org_id: str
    provider: str
    route_key: str
    subscription_generation: int
    rule: WebhookRule
    secret_references: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDefinition:
    """A route version, parsed.

    Attributes:
        route_id: The route.
        pack_install_id: Its incarnation.
        event_kind: The event kind that it routes.
        route_version: Its immutable version, from 1.
        provider: The provider's name.
        work_type: The work type of its WorkItems.
        execution_class: One WorkItem per Event, or a projection.
        flow_name: The flow.
        flow_version: The flow's version, from 1.
        companion_pack_name: The companion pack, if any.
        companion_pack_version: Its version.
        rule: Lanes, queue, retry and `on_dead` as the pack declares them.
        snapshot: The canonical text, as an Event keeps it.
    """

    route_id: RouteId
    pack_install_id: PackInstallId
    event_kind: str
    route_version: int
    provider: str
    work_type: WorkType
    execution_class: ExecutionClass
    flow_name: str
    flow_version: int
    companion_pack_name: str | None
    companion_pack_version: str | None
    rule: RouteRule
    snapshot: str

    @property
    def retry(self) -> RetryRule:
        """When a failed execution is tried again, and how often."""
        return self.rule.retry

    @property
    def on_dead(self) -> str:
        """What a dead head does to its lane: `pass` or `block`."""
        return self.rule.on_dead


@dataclass(slots=True, kw_only=True)
class _Snapshot:
    revision: int
    webhooks: Mapping[str, WebhookBinding]
    checked_at: float


_snapshots: dict[str, _Snapshot] = {}
_lock = threading.Lock()


def find_webhook(namespace: str, route_key: str, *, using: str = "default") -> WebhookBinding | None:
    """Return the webhook that an address names, if an active pack has one.

    Args:
        namespace: The namespace in the address; anything.
        route_key: The key in the address; anything.
        using: The database alias that the snapshot is read on.

    Returns:
        The webhook, as of at most a second ago; None when there is none.
    """
    snapshot = _snapshots.get(namespace)
    if snapshot is None or time.monotonic() - snapshot.checked_at > REVALIDATE_SECONDS:
        snapshot = _revalidate(namespace, snapshot, using)
    return snapshot.webhooks.get(route_key)


def forget_namespace(namespace: str) -> None:
    """Drop what this process remembers of a namespace; after a change that it made itself."""
    with _lock:
        _snapshots.pop(namespace, None)


def forget_all() -> None:
    """Drop every snapshot; between tests, whose databases start over."""
    with _lock:
        _snapshots.clear()
    get_route.cache_clear()


@lru_cache(maxsize=4096)
def get_route(route_id: str) -> RouteDefinition:
    """Return a route version.

    Args:
        route_id: The route.

    Returns:
        Its definition; a route never changes but for being live or swept.

    Raises:
        RouteNotFound: There is no such route.
    """
    row = db.read().fetch_one(routes.FIND_ROUTE, {"route_id": route_id})
    if row is None:
        raise errors.RouteNotFound
    return parse_route(row)


def parse_route(row: Row) -> RouteDefinition:
    """Parse a route's row, as FIND_ROUTE and LIST_LIVE_ROUTES return it."""
    return RouteDefinition(
        route_id=RouteId(row["RouteId"]),
        pack_install_id=PackInstallId(row["PackInstallId"]),
        event_kind=row["EventKind"],
        route_version=row["RouteVersion"],
        provider=row["Provider"],
        work_type=WorkType(row["WorkType"]),
        execution_class=ExecutionClass(row["ExecutionClass"]),
        flow_name=row["FlowName"],
        flow_version=int(row["FlowVersion"]),
        companion_pack_name=row["CompanionPackName"],
        companion_pack_version=row["CompanionPackVersion"],
        rule=_parse_rule(row["Definition"]),
        snapshot=row["Definition"],
    )


@lru_cache(maxsize=4096)
def _parse_rule(definition: str) -> RouteRule:
    return RouteRule.model_validate_json(definition)


@lru_cache(maxsize=256)
def parse_definition(definition: str) -> PackDocument:
    """Parse a stored pack document, once per text."""
    return PackDocument.model_validate_json(definition)


def bind_webhooks(row: Row) -> dict[str, WebhookBinding]:
    """Return the webhooks of a pack's row by key, as LIST_ACTIVE_PACKS_OF_NAMESPACE returns it."""
    document = parse_definition(row["Definition"])
    return {
        webhook.key: WebhookBinding(
            pack_install_id=PackInstallId(row["PackInstallId"]),
            namespace=row["Namespace"],
            org_id=row["OrgId"],
            provider=document.provider,
            route_key=webhook.key,
            subscription_generation=document.binding.subscription_generation,
            rule=webhook,
            secret_references=tuple(document.binding.secrets[name] for name in webhook.verifier.secrets),
        )
        for webhook in document.webhooks
    }


def _revalidate(namespace: str, snapshot: _Snapshot | None, using: str) -> _Snapshot:
    checked_at = time.monotonic()
    reader = db.read(using)
    found = reader.fetch_one(packs.READ_NAMESPACE_REVISION, {"namespace": namespace})
    revision = 0 if found is None else int(found["CatalogRevision"])
    if snapshot is not None and snapshot.revision == revision:
        snapshot.checked_at = checked_at
        return snapshot
    webhooks: dict[str, WebhookBinding] = {}
    for row in reader.fetch_all(packs.LIST_ACTIVE_PACKS_OF_NAMESPACE, {"namespace": namespace}):
        webhooks.update(bind_webhooks(row))
    fresh = _Snapshot(revision=revision, webhooks=webhooks, checked_at=checked_at)
    if revision:
        # A namespace that does not exist is not remembered: its name is a stranger's.
        with _lock:
            if len(_snapshots) >= _MAX_NAMESPACES:
                _snapshots.clear()
            _snapshots[namespace] = fresh
    return fresh
