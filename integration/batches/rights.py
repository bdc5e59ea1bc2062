"""Where somebody may replay in bulk, and whether a bulk replay's namespaces all lie there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from integration import errors
from integration.authority.values import BULK_PERMISSIONS, REPLAY_PERMISSION
from integration.scopes import EVERYWHERE, Rights, Scope
from integration.values import Actor


def bulk_reach(rights: Actor | Rights) -> Scope:
    """Return where somebody may replay in bulk.

    Rule: A-32.
    """
    within = EVERYWHERE
    for permission in BULK_PERMISSIONS:
        within = within.within(rights.reach(permission))
    return within


def covers(within: Scope, names: Iterable[str]) -> bool:
    """Return whether a reach holds in all of a bulk replay's namespaces; `UNKNOWN` is covered by everywhere alone."""
    return within.is_everywhere or all(within.covers(name) for name in names)


def demand_bulk(actor: Actor, names: Iterable[str] = ()) -> Scope:
    """Return where an actor may replay in bulk.

    Args:
        actor: Who asks.
        names: The namespaces of a bulk replay that is to be made or moved.

    Raises:
        NotAllowed: He may not replay in bulk there, or anywhere.
    """
    within = bulk_reach(actor)
    if not within or not covers(within, names):
        raise errors.NotAllowed
    return within


def in_bulk(actor: Actor) -> Actor:
    """Return an actor who replays where he may do so in bulk, whatever more he may do row by row."""
    within = bulk_reach(actor)
    if within.is_everywhere:
        return actor
    return replace(
        actor,
        permissions=actor.permissions - {REPLAY_PERMISSION},
        scopes={**actor.scopes, REPLAY_PERMISSION: within},
    )
