"""Who may arm fences and run cutovers."""

from __future__ import annotations

from typing import Final

from integration import errors
from integration.values import Actor

CUTOVER_PERMISSION: Final = "integration.run_cutover"
_VIEW_PERMISSION: Final = "integration.view_connector_event"


def demand_cutover(actor: Actor, namespace: str | None = None) -> None:
    """Refuse an actor who may not run cutovers.

    Args:
        actor: Who asks.
        namespace: Where; None for what is not of one namespace.

    Raises:
        NotAllowed: He did not hold the permission there when the request was checked.
    """
    if not actor.reach(CUTOVER_PERMISSION).covers(namespace):
        raise errors.NotAllowed


def may_know(actor: Actor, namespace: str) -> bool:
    """Return whether an actor may be told that there is something in a namespace, which he may not change maybe."""
    return any(actor.reach(key).covers(namespace) for key in (CUTOVER_PERMISSION, _VIEW_PERMISSION))
