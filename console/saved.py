"""Saved views: a list's filter and order under a name, for oneself or for all who may see the list.

What is kept is the checked filter alone, as the query that opens it: no row, no cursor, nothing else of the address.
"""

from __future__ import annotations

from typing import Final

from django.db import IntegrityError, transaction
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from console.forms import Filter, Moment
from console.models import SavedView, User
from integration.errors import InvalidInput

#: Views of one account on one page, at most, and how many of the others' a page shows.
MOST_OF_ONE: Final = 50
MOST_SHARED: Final = 50


def list_views(user: User, page: str, *, with_shared: bool) -> list[SavedView]:
    """Return the account's own views of a page by name, and behind them the first ones that others share.

    Args:
        user: Who looks.
        page: The page's route name.
        with_shared: The account may look everywhere: another's filter may name what is elsewhere.
    """
    own = SavedView.objects.filter(owner=user, page=page).order_by("name")[:MOST_OF_ONE]
    if not with_shared:
        return list(own)
    shared = SavedView.objects.filter(page=page, is_shared=True).exclude(owner=user).select_related("owner")
    return [*own, *shared.order_by("name", "id")[:MOST_SHARED]]


def query_of_view(filters: Filter, *, sort: str, zone: str) -> str:
    """Return the address's query that opens a checked filter again, without anything else.

    Args:
        filters: The filter, valid.
        sort: The order's word, empty for the usual one.
        zone: The page's zone, which the filter's times were read in.
    """
    chosen = {name for name, _, _ in filters.chosen()}
    kept = QueryDict(mutable=True)
    for name in filters.fields:
        if name in chosen:
            kept[name] = filters.data[name].strip()
    if sort:
        kept["sort"] = sort
    # Times are read in the page's zone: without it they would be other times for a colleague elsewhere.
    if zone != "UTC" and any(isinstance(filters.fields[name], Moment) for name in chosen):
        kept["tz"] = zone
    return kept.urlencode()


def address_of(view: SavedView, *, zone: str) -> str:
    """Return the address that opens a view: in its own zone if it has times, else in the page's."""
    kept = QueryDict(view.query, mutable=True)
    if zone != "UTC":
        kept.setdefault("tz", zone)
    return f"{reverse(view.page)}?{kept.urlencode()}" if kept else reverse(view.page)


def save_view(user: User, page: str, *, name: str, query: str, is_shared: bool) -> SavedView:
    """Keep a view.

    Args:
        user: Whose it is.
        page: The page's route name.
        name: What it is called, checked; one of its kind among the account's views of the page.
        query: As `query_of_view` returned it.
        is_shared: Whether others see it too.

    Raises:
        InvalidInput: The account has a view of this name, or as many as it may have.
    """
    if SavedView.objects.filter(owner=user, page=page)[:MOST_OF_ONE].count() >= MOST_OF_ONE:
        message = f"You have {MOST_OF_ONE} views: delete one first."
        raise InvalidInput(message, field="name")
    try:
        with transaction.atomic():
            return SavedView.objects.create(
                owner=user, page=page, name=name, query=query, is_shared=is_shared, created_at=timezone.now()
            )
    except IntegrityError:
        message = "You have a view of this name: choose another one."
        raise InvalidInput(message, field="name") from None


def delete_view(user: User, view_id: str) -> str | None:
    """Delete an account's own view; return the address of its page, None if it has no such view."""
    view = SavedView.objects.filter(owner=user, id=view_id).first()
    if view is None:
        return None
    view.delete()
    return reverse(view.page)
