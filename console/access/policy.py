"""What a grant gives, and who may give it. Pure.

Two things give rights, and they add up:

- a permission of Django's, held by a group or by the account itself, holds everywhere until it is taken away;
- a grant holds in its place, and ends by itself if it has an expiry.

What neither gives, nobody has. The right to manage access itself comes from the first alone, so that the last one who
holds it can be told from the accounts' own rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from console.permissions import ACCESS, AUDIT, BULK, CUTOVER, REPAIR, REPLAY, VIEW
from integration import errors
from integration.scopes import Place, Rights, Scope

#: What may be granted, in words; the right to manage access may not.
GRANTABLE: Final[dict[str, str]] = {
    VIEW: "View connector work",
    REPLAY: "Replay, row by row",
    BULK: "Replay, also in bulk",
    REPAIR: "Repair effects",
    CUTOVER: "Arm fences and run cutovers",
    AUDIT: "Read the audit trail",
}
#: What a superuser has.
EVERY_KEY: Final = frozenset({*GRANTABLE, ACCESS})
#: What a grant gives besides its own key: nobody works on what he cannot see.
IMPLIED: Final[dict[str, tuple[str, ...]]] = {
    REPLAY: (VIEW,),
    BULK: (REPLAY, VIEW),
    REPAIR: (VIEW,),
    CUTOVER: (VIEW,),
}
SHORTEST: Final = timedelta(minutes=5)
LONGEST: Final = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a grant gives.

    Attributes:
        permission: A key of `GRANTABLE`.
        org_id: In namespaces of this org; None in those of every org.
        namespace: In this namespace; None in every one.
    """

    permission: str
    org_id: str | None = None
    namespace: str | None = None

    @property
    def is_everywhere(self) -> bool:
        """Return whether it names no place."""
        return self.org_id is None and self.namespace is None

    def covers(self, place: Place) -> bool:
        """Return whether a namespace lies in its place."""
        return self.org_id in {None, place.org_id} and self.namespace in {None, place.namespace}


def decide_rights(held: Collection[str], grants: Iterable[Terms], places: Collection[Place]) -> Rights:
    """Return what an account may do.

    Args:
        held: Keys that Django's permissions give; each everywhere.
        grants: Grants that are in force.
        places: The namespaces that the grants may cover.

    Returns:
        The keys that are held everywhere, and where the others are held. Keys that no grant may give are left out of
        the grants; a key that holds nowhere is not there.

    Rule: A-32.
    """
    permissions = set(held)
    found: dict[str, set[Place]] = defaultdict(set)
    for terms in grants:
        if terms.permission not in GRANTABLE:
            continue
        given = (terms.permission, *IMPLIED.get(terms.permission, ()))
        if terms.is_everywhere:
            permissions.update(given)
            continue
        covered = {place for place in places if terms.covers(place)}
        for key in given:
            found[key] |= covered
    # Who may replay everything by Django's permission always could in bulk.
    if {VIEW, REPLAY} <= permissions:
        permissions.add(BULK)
    scopes = {key: Scope.of(at) for key, at in found.items() if at and key not in permissions}
    return Rights(permissions=frozenset(permissions), scopes=scopes)


def needs_second_person(terms: Terms) -> bool:
    """Return whether another manager has to confirm a grant before it counts.

    Bulk replays and cutovers change more than one can look at. To replay without a place is to replay in bulk.
    """
    return terms.permission in {BULK, CUTOVER} or (terms.permission == REPLAY and terms.is_everywhere)


def check_terms(terms: Terms, expires_in: timedelta | None) -> None:
    """Refuse terms that no grant may have.

    Raises:
        InvalidInput: Names the field.
    """
    if terms.permission not in GRANTABLE:
        message = "This permission is not one that a grant gives; a group gives the right to manage access."
        raise errors.InvalidInput(message, field="permission")
    if terms.org_id is not None and not terms.org_id.isascii():
        message = "An org's id is plain ASCII."
        raise errors.InvalidInput(message, field="org_id")
    if expires_in is not None and not SHORTEST <= expires_in <= LONGEST:
        message = "A grant lasts from 5 minutes to 366 days, or until it is revoked."
        raise errors.InvalidInput(message, field="expires")
