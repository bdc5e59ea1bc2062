"""How times, ids, states and counts are shown, the same on every page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django import template
from django.http import QueryDict
from django.template.context import RequestContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console import zones
from console.permissions import AUDIT, CUTOVER, REPLAY, VIEW, keeps_accounts
from integration.ingress.policy import EVERY_SCOPE
from integration.scopes import Scope

register = template.Library()

#: What a bulk replay's selection says of the looking, not of the rows.
_LOOKED_AT = frozenset({"seen_at", "arrived_since"})

#: State or verdict -> the badge that shows it: colour, shape (by the class) and word.
BADGES: dict[str, str] = {
    "dead": "dead",
    "failed": "dead",
    "quarantined": "dead",
    "legacy_outcome_unknown": "dead",
    "lost": "wait",
    "refused": "wait",
    "lost_race": "wait",
    "waiting": "wait",
    "paused": "wait",
    "halted": "dead",
    "finished": "good",
    "retry": "wait",
    "pending": "wait",
    "blocked": "wait",
    "armed": "wait",
    "proposed": "wait",
    "in_force": "good",
    "received": "wait",
    "awaiting_legacy_outcome": "wait",
    "processing": "run",
    "running": "run",
    "succeeded": "good",
    "processed": "good",
    "materialized": "good",
    "done": "good",
    "active": "good",
    "live": "good",
}

MINUTE, HOUR, DAY = 60, 3600, 86400
DIGEST_LENGTH = 64
#: How the ranks of locked rows are called elsewhere on the pages.
RANKS = {"PACK": "pack", "EVENT": "Event", "WORK_ITEM": "WorkItem"}


def relative(moment: datetime, now: datetime | None = None) -> str:
    """Return how far a moment is from now, in words.

    Args:
        moment: An aware moment.
        now: The moment to compare with; the current one when absent.

    Returns:
        For example `12 min ago`, `in 40 s`, `3 days ago`.
    """
    seconds = round(((now or timezone.now()) - moment) / timedelta(seconds=1))
    if abs(seconds) < 2:
        return "just now"
    return f"in {lasting(-seconds)}" if seconds < 0 else f"{lasting(seconds)} ago"


@register.filter
def lasting(seconds: float) -> str:
    """Write how long something takes, in the one unit that tells most: `12 min`."""
    size = round(seconds)
    if size < 2 * MINUTE:
        return f"{size} s"
    if size < 2 * HOUR:
        return f"{size // MINUTE} min"
    if size < 2 * DAY:
        return f"{size // HOUR} h"
    return f"{size // DAY} days"


@register.simple_tag
def when(moment: datetime | None, *, precise: bool = False, absent: str = "—") -> str:
    """Show a moment: absolute in the page's zone, the relative one under it."""
    if moment is None:
        return absent
    now = timezone.now()
    return format_html(
        '{}<span class="two" data-ago="{}">{}</span>',
        _absolute(moment, now, precise=precise),
        moment.isoformat(),
        relative(moment, now),
    )


@register.simple_tag
def at(moment: datetime | None, *, precise: bool = False, absent: str = "—") -> str:
    """Show a moment on one line, absolute, with its date and zone as the title."""
    return absent if moment is None else _absolute(moment, timezone.now(), precise=precise)


@register.simple_tag
def ago(moment: datetime | None, absent: str = "—") -> str:
    """Show only how long ago a moment was; the absolute one is the title."""
    if moment is None:
        return absent
    local = timezone.localtime(moment)
    return format_html(
        '<time datetime="{}" title="{}" data-ago="{}">{}</time>',
        moment.isoformat(),
        f"{local:%Y-%m-%d %H:%M:%S %Z}",
        moment.isoformat(),
        relative(moment),
    )


def _absolute(moment: datetime, now: datetime, *, precise: bool) -> SafeString:
    zone = timezone.get_current_timezone()
    local = moment.astimezone(zone)
    day, clock = local.date().isoformat(), local.strftime("%H:%M:%S")
    micros, name = f"{local.microsecond:06d}", local.tzname()
    shown = f"{clock}.{micros[:3]}" if precise else clock
    if local.date() != now.astimezone(zone).date():
        shown = f"{day} {shown}"
    return format_html(
        '<time datetime="{}" title="{} {}.{} {}">{}</time>', moment.isoformat(), day, clock, micros, name, shown
    )


@register.filter
def short_id(value: object) -> str:
    """Shorten an id for a list, without its kind: its first eight and last four characters tell rows apart."""
    text = str(value or "").rpartition(":")[2]
    return f"{text[:8]}…{text[-4:]}" if len(text) > 16 else text


@register.filter
def words(value: object) -> str:
    """Write a code as words."""
    return str(value or "").replace("_", " ")


@register.filter
def scope(value: str) -> str:
    """Write what a fence stops or lets through."""
    return "every kind" if value == EVERY_SCOPE else value


@register.filter
def fact(value: object) -> str:
    """Write a fact that a rule read: a digest short, a list joined, a pair named, nothing as none."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(
            f"{words(name)} ({fact(item)})" if isinstance(item, Mapping) else f"{words(name)} {fact(item)}"
            for name, item in value.items()
        ) or fact(None)
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(fact(item) for item in value) or "none"
    if isinstance(value, datetime):
        return f"{timezone.localtime(value):%Y-%m-%d %H:%M:%S}"
    text = str(value)
    return f"{text[:12]}…" if len(text) == DIGEST_LENGTH and text.isalnum() else text


@register.simple_tag
def state(value: object, label: str = "") -> str:
    """Show a state as colour, shape and word."""
    return _badge(str(value or ""), str(label))


@lru_cache(maxsize=256)
def _badge(name: str, label: str) -> SafeString:
    return format_html('<span class="state {}">{}</span>', BADGES.get(name, "mute"), label or words(name))


@register.filter
def capped(count: Any) -> str:
    """Write a count, with a plus where counting stopped at its cap."""
    if isinstance(count, int):
        return f"{count:,}"
    if hasattr(count, "value"):
        return f"{count.value:,}" + ("+" if count.capped else "")
    return str(count)


@register.filter
def ranks(names: Iterable[str]) -> str:
    """Write the order in which rows are locked."""
    return " → ".join(RANKS.get(name, name.lower()) for name in names)


@register.simple_tag(takes_context=True)
def may(context: RequestContext) -> str:
    """Say in words what the signed-in user may do here."""
    user = context["user"]
    sees = _held(user, VIEW, "view")
    held = [
        *sees,
        *(_held(user, REPLAY, "replay") if sees else []),
        *(_held(user, CUTOVER, "run cutovers") if sees else []),
        *_held(user, AUDIT, "read the audit"),
        *(["keep accounts"] if keeps_accounts(user) else []),
    ]
    if not held:
        return "holds no permission yet"
    *first, last = held
    return f"may {', '.join(first)} and {last}" if first else f"may {last}"


def _held(user: Any, permission: str, verb: str) -> list[str]:
    """Return the verb of a permission, with where it holds if that is not everywhere; nothing if nowhere."""
    if user.has_perm(permission):
        return [verb]
    names = user.rights().reach(permission).namespaces
    if not names:
        return []
    return [f"{verb} in {names[0]}" if len(names) == 1 else f"{verb} in {len(names)} namespaces"]


@register.filter
def narrowed_to(selection: Mapping[str, Any]) -> str:
    """Say what a bulk replay was narrowed to; when it was looked at is no part of that."""
    if "ids" in selection:
        return f"{selection['ids']} row{'' if selection['ids'] == 1 else 's'} by id"
    named = [f"{name.replace('_', ' ')} {value}" for name, value in selection.items() if name not in _LOOKED_AT]
    return ", ".join(named) or "everything that was dead and not replayed"


@register.filter
def moment(text: str) -> datetime:
    """Return the moment that a stored fact names."""
    return datetime.fromisoformat(text)


@register.filter
def covers(reach: Scope, namespace: str) -> bool:
    """Say whether a permission that holds there holds in a namespace."""
    return reach.covers(namespace)


@register.simple_tag(takes_context=True)
def link(context: RequestContext, name: str, *args: object, **query: object) -> str:
    """Reverse a route and keep the page's zone in the address; UTC goes without saying until an address says it."""
    path = reverse(name, args=args)
    request = context.get("request")
    zone = getattr(request, "zone", zones.UTC)
    params = QueryDict(mutable=True)
    for key, value in query.items():
        if value not in (None, ""):
            params[key] = str(value)
    if zone != zones.UTC or (request is not None and zones.PARAMETER in request.GET):
        params[zones.PARAMETER] = zone
    return f"{path}?{params.urlencode(safe='/')}" if params else path
