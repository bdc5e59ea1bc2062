"""What the routes of a pack say about its lanes and dependencies, read once a process: a route never changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from integration.storage import db
from integration.storage.db import Reader
from integration.storage.sql import routes


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRules:
    """The rules of one incarnation that the claim asks about.

    Attributes:
        waits_for: Route to the event kind that its items wait for.
        stopping_routes: The routes whose dead items stop their source lane.
    """

    waits_for: Mapping[str, str] = field(default_factory=dict)
    stopping_routes: frozenset[str] = frozenset()


@lru_cache(maxsize=1024)
def rules_of(pack_install_id: str) -> PackRules:
    """Return the rules of an incarnation.

    Args:
        pack_install_id: The incarnation; its routes exist before its first item does.

    Returns:
        Its rules, of live and swept routes alike: swept ones have work that is still to be done.
    """
    return read_rules(db.read(), pack_install_id)


def read_rules(reader: Reader, pack_install_id: str) -> PackRules:
    """Read the rules of an incarnation, as `rules_of` returns them.

    Args:
        reader: Where to read.
        pack_install_id: The incarnation.
    """
    waits_for: dict[str, str] = {}
    stopping: set[str] = set()
    for row in reader.fetch_all(routes.LIST_ROUTES_OF_PACKS, {"pack_install_ids": (pack_install_id,)}):
        # Not parsed as a whole: what another build wrote must not keep this one from the rest of the pack's work.
        rule = json.loads(row["Definition"])
        if rule.get("waits_for"):
            waits_for[row["RouteId"]] = rule["waits_for"]
        if rule.get("on_dead") == "block":
            stopping.add(row["RouteId"])
    return PackRules(waits_for=waits_for, stopping_routes=frozenset(stopping))
