"""Which namespaces there are, and whose."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from integration.scopes import Place
from integration.storage import db
from integration.storage.sql import namespaces as sql

#: Namespaces that one account's rights may name, at most; what lies beyond is not covered.
MOST_PLACES: Final = 1_000


def find_place(namespace: str, *, using: str = "default") -> Place | None:
    """Return a namespace with its org, or None.

    Locks: none.
    """
    row = db.read(using).fetch_one(sql.FIND_NAMESPACE, {"namespace": namespace})
    return None if row is None else Place(org_id=row["OrgId"], namespace=row["Namespace"])


def list_places(
    org_ids: Collection[str], namespaces: Collection[str], *, limit: int = MOST_PLACES, using: str = "default"
) -> tuple[Place, ...]:
    """Return the namespaces of some orgs, and the named ones that exist.

    Args:
        org_ids: Orgs, ASCII.
        namespaces: Names.
        limit: Of either, at most so many.
        using: The database alias.

    Locks: none.
    """
    # MariaDB refuses to compare its ASCII column with anything else; an empty id or name matches none.
    params = {
        "org_ids": tuple(sorted({org_id for org_id in org_ids if org_id.isascii()})) or ("",),
        "namespaces": tuple(sorted(set(namespaces))) or ("",),
        "limit": limit,
    }
    rows = db.read(using).fetch_all(sql.LIST_NAMESPACES_AT, params)
    return tuple(sorted(Place(org_id=row["OrgId"], namespace=row["Namespace"]) for row in rows))
