"""The identity of a delivery: what makes two requests the same one.

The incarnation of the pack is left out on purpose: a delivery that is repeated across a rotation is the
same delivery.
"""

from __future__ import annotations

import json
from typing import Any

from jmespath.exceptions import JMESPathError

from integration.catalog.documents import IdentityRule, compile_expression
from integration.ingress.json_bodies import NotJson, read_json
from integration.values import digest_parts


def delivery_key(*, namespace: str, route_key: str, subscription_generation: int, delivery_id: str) -> str:
    """Return the key of a delivery that the provider numbers.

    Args:
        namespace: The namespace it was posted to.
        route_key: The webhook's key.
        subscription_generation: The generation of the provider's subscription, from 1.
        delivery_id: The provider's delivery identifier.

    Returns:
        64 lowercase hex characters.

    Rule: O-04.
    """
    return digest_parts("delivery-id", namespace, route_key, str(subscription_generation), delivery_id)


def deterministic_key(
    *, namespace: str, route_key: str, subscription_generation: int, body_hash: str, rule: IdentityRule, body: bytes
) -> str:
    """Return the key of a delivery that has no identifier of its own.

    Args:
        namespace: The namespace it was posted to.
        route_key: The webhook's key.
        subscription_generation: The generation of the provider's subscription, from 1.
        body_hash: SHA-256 of the raw body, hex.
        rule: Where event name, resource type, resource id and delivered-at stand.
        body: The raw body; what cannot be read leaves its part empty, and the body's hash still decides.

    Returns:
        64 lowercase hex characters.

    Rule: O-04.
    """
    try:
        value = read_json(body)
    except NotJson:
        value = None
    parts = (
        part_text(expression, value)
        for expression in (rule.event_name, rule.resource_type, rule.resource_id, rule.delivered_at)
    )
    return digest_parts("deterministic", namespace, route_key, str(subscription_generation), *parts, body_hash)


def item_key(*, namespace: str, route_key: str, subscription_generation: int, item_id: str) -> str:
    """Return the key of one event of a delivery that carries several, each with an id of its own.

    Returns:
        64 lowercase hex characters.
    """
    return digest_parts("item-id", namespace, route_key, str(subscription_generation), item_id)


def indexed_key(receipt_key: str, receipt_index: int) -> str:
    """Return the key of the event at a place in its receipt, from 0.

    Returns:
        64 lowercase hex characters.
    """
    return digest_parts("receipt", receipt_key, str(receipt_index))


def part_text(expression: str, value: Any) -> str:
    """Return what an expression finds, as a text that differs whenever the found value does.

    Args:
        expression: A JMESPath expression.
        value: The parsed body.

    Returns:
        ASCII JSON, or the empty text when there is nothing.
    """
    try:
        found = compile_expression(expression).search(value)
    except (JMESPathError, RecursionError):
        return ""
    return "" if found is None else json.dumps(found, sort_keys=True, separators=(",", ":"))
