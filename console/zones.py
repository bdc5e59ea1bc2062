"""In which time zone a page shows its times: what its address says, else what was chosen before, else UTC."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Final

from django.http import HttpRequest, QueryDict

PARAMETER: Final = "tz"
COOKIE: Final = "lockhouse-zone"
COOKIE_SECONDS: Final = 365 * 24 * 3600
UTC: Final = "UTC"
#: Parameters of a list that are times of the page's clock.
MOMENTS: Final = ("died_after", "died_before")


@cache
def _names() -> Mapping[str, str]:
    """Return the IANA names that this machine knows, by their small letters; read from its files once."""
    return {name.casefold(): name for name in zoneinfo.available_timezones()}


def names() -> list[str]:
    """Return every name that may be chosen, in order."""
    return sorted(_names().values())


def find(wanted: str | None) -> str | None:
    """Return a zone's name as IANA spells it, or None if there is no such zone.

    Args:
        wanted: What somebody typed; anything.
    """
    return _names().get(wanted.strip().casefold()) if wanted and len(wanted) <= 64 else None


def zone_of(request: HttpRequest) -> str:
    """Return the zone of a request's page; a name that is unknown counts as none."""
    return find(request.GET.get(PARAMETER)) or find(request.COOKIES.get(COOKIE)) or UTC


def moved(address: str, *, old: str, new: str) -> str:
    """Return a list's address for another zone; what it is narrowed to stays the same moments.

    Args:
        address: A path with its query.
        old: The zone whose clock the address means.
        new: The zone whose clock it shall mean.
    """
    path, _, query = address.partition("?")
    params = QueryDict(query, mutable=True)
    for name in MOMENTS:
        try:
            moment = datetime.fromisoformat(params.get(name, ""))
            if moment.tzinfo is None:
                local = moment.replace(tzinfo=zoneinfo.ZoneInfo(old)).astimezone(zoneinfo.ZoneInfo(new))
                params[name] = local.replace(tzinfo=None).isoformat(timespec="minutes" if not local.second else "auto")
        except (ValueError, OverflowError):
            # The list itself says what is wrong with it.
            continue
    params[PARAMETER] = new
    return f"{path}?{params.urlencode(safe='/')}"
