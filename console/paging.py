"""Addresses of neighbouring pages: everything the list stands on stays in the URL."""

from __future__ import annotations

from django.http import HttpRequest


def neighbour(request: HttpRequest, cursor: str | None) -> str | None:
    """Return the address of a neighbouring page, or None where there is none.

    Args:
        request: The list's request; its filters, zone and sort are kept.
        cursor: The neighbour's cursor.

    Returns:
        A path with its query.
    """
    if cursor is None:
        return None
    params = request.GET.copy()
    params["cursor"] = cursor
    return f"{request.path}?{params.urlencode()}"


def without(request: HttpRequest, *names: str) -> str:
    """Return this list's address without some of its parameters; the cursor always goes with them.

    Args:
        request: The list's request.
        *names: Parameters to leave out.

    Returns:
        A path, with a query if anything is left.
    """
    params = request.GET.copy()
    for name in (*names, "cursor"):
        params.pop(name, None)
    query = params.urlencode()
    return f"{request.path}?{query}" if query else request.path


def query_of(request: HttpRequest) -> str:
    """Return the query of this list's address without its place: filter, order and zone."""
    return without(request).partition("?")[2]


def order_links(request: HttpRequest, *, oldest_first: bool) -> list[tuple[str, str, bool]]:
    """Return (label, address, is current) of a list's two orders; the page goes with the order, the filter stays.

    Args:
        request: The list's request.
        oldest_first: Which of them it is in.
    """
    newest = without(request, "sort")
    oldest = f"{newest}{'&' if '?' in newest else '?'}sort=oldest"
    return [("Newest first", newest, not oldest_first), ("Oldest first", oldest, oldest_first)]
