"""What the parts of a pack document say of each other, which none of them can know alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integration.catalog.documents import PackDocument


def cross_problems(pack: PackDocument) -> list[tuple[tuple[str | int, ...], str, str]]:
    """Return what no single part can know, as (path, expected, found)."""
    problems: list[tuple[tuple[str | int, ...], str, str]] = []
    keys = [webhook.key for webhook in pack.webhooks]
    kinds = [route.event for route in pack.routes]
    problems += [
        (("webhooks", index, "key"), "each webhook key once", "it twice")
        for index, key in enumerate(keys)
        if key in keys[:index]
    ]
    problems += [
        (("routes", index, "event"), "each event kind once", "it twice")
        for index, kind in enumerate(kinds)
        if kind in kinds[:index]
    ]
    problems += [
        (("webhooks", index, "verifier", "secrets", position), "a name that binding.secrets maps", "one it does not")
        for index, webhook in enumerate(pack.webhooks)
        for position, name in enumerate(webhook.verifier.secrets)
        if name not in pack.binding.secrets
    ]
    awaited = {route.event: route.waits_for for route in pack.routes}
    problems += [
        (("routes", index, "waits_for"), "an event that does not wait for this one in turn", "one that does")
        for index, kind in enumerate(kinds)
        if _waits_for_itself(kind, awaited)
    ]
    return problems


def _waits_for_itself(kind: str, awaited: Mapping[str, str | None]) -> bool:
    """Return whether a kind waits for itself by way of others: the first of each could never run."""
    found = awaited.get(kind)
    for _ in awaited:
        if found is None or found == kind:
            break
        found = awaited.get(found)
    return found == kind
