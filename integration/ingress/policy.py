"""What a receipt becomes: which events its body holds, and whether a fence lets them in. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from jmespath.exceptions import JMESPathError

from integration.catalog.documents import OccurredRule, WebhookRule, compile_expression
from integration.catalog.reads import RouteDefinition
from integration.ingress.idempotency import part_text
from integration.ingress.json_bodies import NotJson, read_json
from integration.states import ExecutionClass

EVERY_SCOPE: Final = "*"
MAX_LANE_CHARACTERS: Final = 255
MAX_ITEMS: Final = 1000
EVENT_KIND: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)


class QuarantineCode(StrEnum):
    """Why a stored receipt did not become work; the closed set, and all that an operator is told."""

    #: The body is not JSON.
    BODY_NOT_JSON = "body_not_json"
    #: The body, or one of its events, is not an object.
    BODY_NOT_OBJECT = "body_not_object"
    #: The body carries no event, or more than 1,000.
    ITEM_COUNT = "item_count"
    #: The pack's expression finds no event kind in the body.
    EVENT_KIND_UNRESOLVED = "event_kind_unresolved"
    #: No live route takes the event kind.
    ROUTE_NOT_LIVE = "route_not_live"
    #: The route's lane expression finds nothing that can name a lane.
    LANE_UNRESOLVED = "lane_unresolved"
    #: The same for the source lane of a source projection, without which the input has no projection.
    SOURCE_LANE_UNRESOLVED = "source_lane_unresolved"
    #: What the lane expression finds is longer than a lane can be.
    LANE_TOO_LONG = "lane_too_long"
    #: The stored body does not open: it was changed, or it belongs to another row.
    BODY_UNREADABLE = "body_unreadable"
    #: Another writer stored an Event with one of its identities.
    EVENT_CONFLICT = "event_conflict"
    #: It repeats an input of a source projection that no generation holds.
    COVERAGE_MISSING = "coverage_missing"


class Unmaterializable(Exception):
    """A receipt cannot become work as it stands."""

    def __init__(self, code: QuarantineCode) -> None:
        """Keep the code; there is nothing else to say that is not the caller's text."""
        self.code = code
        super().__init__(code.value)


class Fenced(Exception):
    """A fence stops an event kind of a receipt, which therefore stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedEvent:
    """One event that a body holds.

    Attributes:
        receipt_index: Its place in the receipt, from 0.
        route: The live route that takes it.
        payload: The bytes that the Event keeps.
        source_lane: The lane that orders it, if the route has one.
        target_lane: The lane that serializes its effect, if the route has one.
        occurred_at: When it happened at the provider, if the body says so readably.
        item_id: What identifies it among the deliveries of its subscription, if the pack declares that.
    """

    receipt_index: int
    route: RouteDefinition
    payload: bytes
    source_lane: str | None
    target_lane: str | None
    occurred_at: datetime | None
    item_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmedFence:
    """An armed, unexpired admission fence.

    Attributes:
        fence_id: The fence.
        scope: `*` or an event kind.
        overrides: The scopes that its live overrides let through.
    """

    fence_id: str
    scope: str
    overrides: frozenset[str] = frozenset()


def find_fence(fences: Sequence[ArmedFence], event_kind: str) -> ArmedFence | None:
    """Return the first fence that stops an event kind, or None.

    Args:
        fences: The namespace's armed fences.
        event_kind: The kind to admit.

    Returns:
        A fence whose scope covers the kind and none of whose overrides does.
    """
    for fence in fences:
        covered = fence.scope in {EVERY_SCOPE, event_kind}
        if covered and not fence.overrides & {EVERY_SCOPE, event_kind}:
            return fence
    return None


def is_closed(fences: Sequence[ArmedFence]) -> bool:
    """Return whether a fence stops whatever kind there is: one over the namespace that lets nothing through."""
    return any(fence.scope == EVERY_SCOPE and not fence.overrides for fence in fences)


def derive_events(
    webhook: WebhookRule,
    live_routes: Mapping[str, RouteDefinition],
    body: bytes,
    fences: Sequence[ArmedFence] = (),
) -> tuple[DerivedEvent, ...]:
    """Return the events that a body holds, in its order.

    Args:
        webhook: The webhook's parameters.
        live_routes: The pack's live routes by event kind.
        body: The raw body.
        fences: The namespace's armed fences. A kind is held against them before its route and its lanes are looked
            for: what a fence stops may still get the route that it lacks.

    Returns:
        At least one event.

    Raises:
        Fenced: A fence stops one of them, so that all of them wait.
        Unmaterializable: One of its events cannot become work, so none of them does.
    """
    value = parse_json(body)
    try:
        if webhook.items is None:
            return (_derive(webhook, live_routes, value, body, 0, fences=fences),)
        items = _search(webhook.items.value, value)
        if not isinstance(items, list) or not 0 < len(items) <= MAX_ITEMS:
            raise Unmaterializable(QuarantineCode.ITEM_COUNT)
        return tuple(
            _derive(webhook, live_routes, item, _item_bytes(item), index, fences=fences)
            for index, item in enumerate(items)
        )
    except RecursionError:
        raise Unmaterializable(QuarantineCode.BODY_NOT_JSON) from None


def parse_json(body: bytes) -> Any:
    """Return a body's JSON value.

    Args:
        body: The raw body.

    Returns:
        The value; every number in it is finite.

    Raises:
        Unmaterializable: The body is not JSON, or is nested beyond what is read.
    """
    try:
        return read_json(body)
    except NotJson:
        raise Unmaterializable(QuarantineCode.BODY_NOT_JSON) from None


def _item_bytes(item: Any) -> bytes:
    # ASCII, because a body may hold half a surrogate pair, which UTF-8 does not.
    return json.dumps(item, sort_keys=True, separators=(",", ":")).encode()


def _search(expression: str, value: Any) -> Any:
    try:
        return compile_expression(expression).search(value)
    except JMESPathError:
        return None


def _derive(
    webhook: WebhookRule,
    live_routes: Mapping[str, RouteDefinition],
    value: Any,
    payload: bytes,
    index: int,
    *,
    fences: Sequence[ArmedFence],
) -> DerivedEvent:
    if not isinstance(value, dict):
        raise Unmaterializable(QuarantineCode.BODY_NOT_OBJECT)
    found = _search(webhook.event_kind, value)
    if not isinstance(found, str):
        raise Unmaterializable(QuarantineCode.EVENT_KIND_UNRESOLVED)
    kind = found if webhook.event_kinds is None else webhook.event_kinds.get(found, "")
    if not EVENT_KIND.fullmatch(kind):
        raise Unmaterializable(QuarantineCode.EVENT_KIND_UNRESOLVED)
    if find_fence(fences, kind) is not None:
        raise Fenced
    route = live_routes.get(kind)
    if route is None:
        raise Unmaterializable(QuarantineCode.ROUTE_NOT_LIVE)
    item_id = None
    if webhook.items is not None and webhook.items.id is not None:
        item_id = part_text(webhook.items.id, value) or None
    return DerivedEvent(
        receipt_index=index,
        route=route,
        payload=payload,
        source_lane=_source_lane(route, value),
        target_lane=_lane(route.rule.target_lane, value),
        occurred_at=None if webhook.occurred_at is None else parse_occurred_at(webhook.occurred_at, value),
        item_id=item_id,
    )


def _source_lane(route: RouteDefinition, value: Any) -> str | None:
    if route.execution_class is ExecutionClass.SOURCE_PROJECTION:
        # Refused at activation already; without a lane there is no projection to be an input of.
        if route.rule.source_lane is None:
            raise Unmaterializable(QuarantineCode.SOURCE_LANE_UNRESOLVED)
        return _lane(route.rule.source_lane, value, missing=QuarantineCode.SOURCE_LANE_UNRESOLVED)
    return _lane(route.rule.source_lane, value)


def _lane(
    expression: str | None, value: Any, *, missing: QuarantineCode = QuarantineCode.LANE_UNRESOLVED
) -> str | None:
    if expression is None:
        return None
    found = _search(expression, value)
    lane = str(found) if isinstance(found, int) and not isinstance(found, bool) else found
    # Lanes stand on operator pages and in index keys.
    if not isinstance(lane, str) or not lane or not lane.isprintable():
        raise Unmaterializable(missing)
    if len(lane) > MAX_LANE_CHARACTERS:
        raise Unmaterializable(QuarantineCode.LANE_TOO_LONG)
    return lane


def parse_occurred_at(rule: OccurredRule, value: Any) -> datetime | None:
    """Return when an event happened, in UTC; None if the body does not say it readably."""
    found = _search(rule.value, value)
    try:
        match rule.format:
            case "rfc3339":
                parsed = datetime.fromisoformat(found) if isinstance(found, str) else None
                return None if parsed is None or parsed.tzinfo is None else parsed.astimezone(UTC)
            case "epoch_seconds" | "epoch_milliseconds":
                if isinstance(found, bool) or not isinstance(found, int | float):
                    return None
                return datetime.fromtimestamp(found / (1000 if rule.format == "epoch_milliseconds" else 1), UTC)
    except (ValueError, OverflowError, OSError):
        return None
