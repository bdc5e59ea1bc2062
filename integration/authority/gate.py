"""The ownership gate."""

from __future__ import annotations

from integration.authority.values import Owner


def owner_of(event_id: str) -> Owner:
    """Return who owns an Event's work; raises EventNotFound; signature only for the moment."""
    raise NotImplementedError
