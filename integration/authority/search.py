"""What an operator types to find one row: an id, the beginning of one, or an idempotency key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from integration import errors
from integration.authority import details
from integration.authority.values import Ref
from integration.storage.db import Reader
from integration.storage.sql import dead_letters as sql

#: The most rows that a search shows.
SEARCH_ROWS: Final = 50
#: How many ids that begin like it are looked at, in each index: eight characters of an id stand for a minute's work.
PREFIX_WINDOW: Final = 5_000
#: The beginning of an id, and the end of it where it is written as the lists shorten it: `0192a5b3…9f04`.
_PREFIX: Final = re.compile(r"([0-9a-f]{8}[0-9a-f-]{0,27})(?:(?:…|\.{3})([0-9a-f]{1,4}))?")


def find_event_ids(
    reader: Reader, text: str, filters: Mapping[str, Any], *, has_additive: bool
) -> tuple[tuple[str, ...], bool]:
    """Return the Events whose rows a search may show.

    Args:
        reader: Where to read.
        text: What was typed.
        filters: The values of the other filters; a key is looked up within their namespace and kind.
        has_additive: Whether the schema's WorkItems can be dead.

    Returns:
        Their ids, and whether more ids begin like the text than were looked at.

    Locks: none.
    """
    typed = text.strip()
    try:
        ref = Ref.parse(typed)
    except errors.InvalidInput:
        keyed = reader.fetch_all(sql.FIND_EVENTS_BY_KEY, {**filters, "idempotency_key": typed})
        begun, is_cut = _find_by_prefix(reader, typed.lower(), filters["namespace"], has_additive=has_additive)
        return tuple(dict.fromkeys([*(row["EventId"] for row in keyed), *begun])), is_cut
    return details.event_ids_of(reader, ref, has_additive=has_additive), False


def _find_by_prefix(reader: Reader, text: str, namespace: str | None, *, has_additive: bool) -> tuple[list[str], bool]:
    found = _PREFIX.fullmatch(text)
    if found is None:
        return [], False
    begin, end = found.groups()
    params = {
        "first_id": begin,
        # After every character that an id may hold.
        "last_id": f"{begin}~",
        "namespace": namespace,
        "ending": f"%{end or ''}",
        "window": PREFIX_WINDOW,
        "last": PREFIX_WINDOW - 1,
        "limit": SEARCH_ROWS,
    }
    rows = reader.fetch_all(sql.FIND_DEAD_BY_PREFIX if has_additive else sql.FIND_EVENT_DEAD_BY_PREFIX, params)
    found_ids = [row["EventId"] for row in rows if row["What"] == "found"]
    # What lies behind a full part may match the other filters where the part does not.
    return found_ids, len(found_ids) >= SEARCH_ROWS or len(found_ids) < len(rows)
