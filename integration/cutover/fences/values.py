"""What an admission fence is: its terms, its overrides, and how each can be refused. Nothing here reads or writes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from integration import errors


class FenceState(StrEnum):
    """Where a fence stands, by the database's clock."""

    ARMED = "armed"
    #: Its time ran out before anybody lifted it.
    EXPIRED = "expired"
    LIFTED = "lifted"


class OverrideState(StrEnum):
    """Where an override stands, by the database's clock."""

    LIVE = "live"
    EXPIRED = "expired"
    LIFTED = "lifted"


class FenceNotFound(errors.NotFound):
    """There is no such admission fence."""


class OverrideNotFound(errors.NotFound):
    """There is no such override of an admission fence."""


class FenceNotArmed(errors.Refused):
    """The fence is not armed any more; nothing was changed."""

    code = "fence_not_armed"


class OverrideNotLive(errors.Refused):
    """The override is not in force any more; nothing was changed."""

    code = "override_not_live"


class AdmissionsUnderWay(errors.IntegrationError):
    """It is stored, but not every admission that began before it has ended yet: ask again to wait for it."""

    code = "admissions_under_way"
    http_status = 503
    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One scope that an armed fence lets through.

    Attributes:
        override_id: Its id; later ones sort after earlier ones.
        fence_id: The fence.
        scope: `*` or an event kind.
        state: Where it stands.
        expires_at: When it ends by itself; None for not before its fence.
    """

    override_id: str
    fence_id: str
    scope: str
    state: OverrideState
    expires_at: datetime | None
    granted_at: datetime
    granted_by: str
    reason: str
    lifted_at: datetime | None
    lifted_by: str | None

    @property
    def duration(self) -> timedelta | None:
        """Return for how long it was granted."""
        return None if self.expires_at is None else self.expires_at - self.granted_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """One admission fence: what it stops, until when, who armed it and why.

    Attributes:
        fence_id: Its id; later ones sort after earlier ones.
        namespace: Where it stops admission and replay.
        scope: `*` for every event kind, or the one.
        state: Where it stands.
        expires_at: When it ends by itself; None for when somebody lifts it.
        overrides: What it lets through or did, the newest first, at most 200.
    """

    fence_id: str
    namespace: str
    scope: str
    state: FenceState
    expires_at: datetime | None
    armed_at: datetime
    armed_by: str
    reason: str
    lifted_at: datetime | None
    lifted_by: str | None
    overrides: tuple[Override, ...] = ()

    @property
    def live_overrides(self) -> tuple[Override, ...]:
        """Return the overrides that are in force."""
        return tuple(override for override in self.overrides if override.state is OverrideState.LIVE)

    @property
    def ended_at(self) -> datetime | None:
        """Return since when it stops nothing any more; None while it is armed."""
        return self.lifted_at or (None if self.state is FenceState.ARMED else self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """What arming came to.

    Attributes:
        fence: The fence, behind which nothing is admitted or replayed any more.
        is_new: False when a fence of the same terms was armed already.
        waited_for: The active incarnations whose admissions and replays were waited for.
    """

    fence: Fence
    is_new: bool
    waited_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What granting an override came to; `is_new` is False when one of the same terms was in force."""

    fence: Fence
    override: Override
    is_new: bool
