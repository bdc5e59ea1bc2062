"""Who may arm fences and run cutovers."""

from __future__ import annotations

from typing import Final

from integration import errors
from integration.values import Actor

CUTOVER_PERMISSION: Final = "integration.run_cutover"


def demand_cutover(actor: Actor) -> None:
    """Refuse an actor who may not run cutovers.

    Raises:
        NotAllowed: He did not hold the permission when the request was checked.
    """
    if not actor.may(CUTOVER_PERMISSION):
        raise errors.NotAllowed
