"""What may be installed and activated. Pure: decides on facts that were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from integration import errors
from integration.catalog.documents import PackDocument, RouteRule
from integration.states import ExecutionClass, PackStatus


class CatalogRefusalCode(StrEnum):
    """Why a pack is not installed or activated."""

    #: The namespace belongs to another org.
    NAMESPACE_OF_ANOTHER_ORG = "namespace_of_another_org"
    #: A route version is immutable, and this one says something else than the installed one.
    ROUTE_VERSION_CHANGED = "route_version_changed"
    #: Only an installed incarnation that was never active can be activated.
    PACK_NOT_INSTALLED = "pack_not_installed"
    #: A newer incarnation of the pack exists.
    PACK_SUPERSEDED = "pack_superseded"
    #: The incarnation holds Events already, so that it is not a new one.
    INCARNATION_NOT_EMPTY = "incarnation_not_empty"
    #: A source projection without a source lane would have no source to project.
    SOURCE_LANE_REQUIRED = "source_lane_required"
    #: Another active pack of the namespace has a live route for the event kind.
    ROUTE_LIVE_ELSEWHERE = "route_live_elsewhere"
    #: Another active pack of the namespace has a webhook of this key.
    WEBHOOK_KEY_TAKEN = "webhook_key_taken"


class CatalogRefused(errors.Refused):
    """A rule of the catalog refuses this; nothing was changed."""

    def __init__(self, code: CatalogRefusalCode, sentence: str, **data_fields: object) -> None:
        """Keep the code that names the rule."""
        self.refusal_code = code
        super().__init__(sentence, refusal=code.value, **data_fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationFacts:
    """What was read under the namespace's and the packs' locks.

    Attributes:
        status: The incarnation's status.
        incarnation: Its number, from 1.
        newest_incarnation: The pack's greatest number in the namespace.
        has_events: An Event names this incarnation.
        document: The pack.
        kinds_live_elsewhere: Event kind to the name of the other active pack that routes it.
        webhook_keys_elsewhere: Webhook key to the name of the other active pack that has it.
    """

    status: PackStatus
    incarnation: int
    newest_incarnation: int
    has_events: bool
    document: PackDocument
    kinds_live_elsewhere: Mapping[str, str]
    webhook_keys_elsewhere: Mapping[str, str]


def active_key(namespace: str, pack_name: str) -> str:
    """Return what is unique while an incarnation is active; neither part holds a colon."""
    return f"{namespace}:{pack_name}"


def live_key(namespace: str, event_kind: str) -> str:
    """Return what is unique while a route is live; a namespace holds no colon."""
    return f"{namespace}:{event_kind}"


def decide_route_versions(document: PackDocument, earlier: Sequence[tuple[int, RouteRule]]) -> CatalogRefused | None:
    """Refuse a route version that says something else than before.

    Args:
        document: The new pack.
        earlier: Version and rule of every route of the pack's incarnations.

    Returns:
        The refusal, or None.
    """
    known = {(rule.event, version): rule for version, rule in earlier}
    for route in document.routes:
        before = known.get((route.event, route.version))
        if before is not None and before != route:
            return CatalogRefused(
                CatalogRefusalCode.ROUTE_VERSION_CHANGED,
                f"Route {route.event} version {route.version} exists and is immutable: give the changed route "
                f"version {max(version for version, rule in earlier if rule.event == route.event) + 1}.",
                event_kind=route.event,
                route_version=route.version,
            )
    return None


def decide_activation(facts: ActivationFacts) -> CatalogRefused | None:  # noqa: PLR0911
    """Decide whether an incarnation may become the active one.

    Args:
        facts: What was read under the locks.

    Returns:
        The first refusal, or None.
    """
    code = CatalogRefusalCode
    if facts.status is not PackStatus.INSTALLED:
        return CatalogRefused(
            code.PACK_NOT_INSTALLED,
            f"The incarnation is {facts.status}; only one that was installed and never active can be activated.",
        )
    if facts.incarnation != facts.newest_incarnation:
        return CatalogRefused(
            code.PACK_SUPERSEDED,
            f"Incarnation {facts.newest_incarnation} is newer than {facts.incarnation}; activate that one.",
        )
    if facts.has_events:
        return CatalogRefused(
            code.INCARNATION_NOT_EMPTY, "The incarnation holds Events already; a new incarnation must be empty."
        )
    for route in facts.document.routes:
        if route.execution is ExecutionClass.SOURCE_PROJECTION and route.source_lane is None:
            # Documents are validated when they are installed; an older build's may say less.
            return CatalogRefused(
                code.SOURCE_LANE_REQUIRED,
                f"Route {route.event} is a source_projection and has no source_lane; give it one, or use per_event.",
                event_kind=route.event,
            )
        if route.event in facts.kinds_live_elsewhere:
            return CatalogRefused(
                code.ROUTE_LIVE_ELSEWHERE,
                f"The active pack {facts.kinds_live_elsewhere[route.event]} routes {route.event} in this namespace.",
                event_kind=route.event,
            )
    for webhook in facts.document.webhooks:
        if webhook.key in facts.webhook_keys_elsewhere:
            return CatalogRefused(
                code.WEBHOOK_KEY_TAKEN,
                f"The active pack {facts.webhook_keys_elsewhere[webhook.key]} has the webhook {webhook.key} in this "
                "namespace.",
                webhook_key=webhook.key,
            )
    return None
