"""How a worker process runs, and what it did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from integration.projection.gate import require_activation
from integration.work.claim import LEASE_SECONDS
from integration.work.families import CONNECTOR, Family
from integration.work.reap import SLACK_SECONDS

CLAIM: Final = "claim"
MATERIALIZE: Final = "materialize"
REAP: Final = "reap"
RESOLVE: Final = "resolve"
BATCHES: Final = "batches"
ROLES: Final = frozenset({CLAIM, MATERIALIZE, REAP, RESOLVE, BATCHES})


class Loop(Protocol):
    """What a role does in a thread of its own."""

    def run(self, stopping: threading.Event, wake: Callable[[], None]) -> None:
        """Run until `stopping` is set; call `wake` when there may be work to claim."""

    def is_idle(self) -> bool:
        """Return whether nothing waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a worker runs.

    Attributes:
        roles: What it does.
        families: Whose work it does.
        concurrency: How many flows run at once.
        drain_seconds: How long running flows may take to finish after a stop was asked for.
        poll_seconds: How often an idle worker asks whether other work is due. For a moment after it had some it asks
            sooner; the receipts that wait to be materialized it looks for less often, up to every half second.
        lease_seconds: How long a claim's lease runs; it is renewed after a third of it.
        slack_seconds: How far past its end a lease must be before it is reaped.
        per_event_only: Claim no source projection, so that projections need not be activated.
        until_idle: Stop by itself when nothing waits, runs or is to be retried.
        build_version: Which build this is.
    """

    roles: frozenset[str] = ROLES
    families: tuple[Family, ...] = (CONNECTOR,)
    concurrency: int = 8
    drain_seconds: float = 30.0
    poll_seconds: float = 0.05
    lease_seconds: int = LEASE_SECONDS
    slack_seconds: int = SLACK_SECONDS
    per_event_only: bool = False
    until_idle: bool = False
    build_version: str = ""

    def check_activation(self) -> None:
        """Make sure that the source projections which it would claim may be executed.

        Raises:
            ProjectionsNotActivated: A pack's may not, or not on this schema.
        """
        if CLAIM in self.roles and CONNECTOR in self.families and not self.per_event_only:
            require_activation()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker did before it stopped.

    Attributes:
        executed: How many items it ran to an end.
        materialized: How many receipts it made into work.
        drained: Whether every flow had ended when it stopped.
    """

    executed: int
    materialized: int
    drained: bool
