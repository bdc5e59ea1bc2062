"""Where a permission holds: everywhere, or in namespaces that are named. Pure; every context may ask."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from integration.errors import InvalidInput

#: Namespaces that one page merges, at most: each is a statement of its own.
MOST_NAMESPACES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """A namespace that exists, and the org that it belongs to."""

    org_id: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a permission holds.

    Attributes:
        is_everywhere: It holds in whatever there is; nothing else is asked then.
        places: Otherwise where it holds, sorted; nowhere if empty.
    """

    is_everywhere: bool = False
    places: tuple[Place, ...] = ()

    @classmethod
    def of(cls, places: Iterable[Place]) -> Self:
        """Return the scope of some places."""
        return cls(places=tuple(sorted(set(places))))

    def __bool__(self) -> bool:
        """Return whether the permission holds anywhere."""
        return self.is_everywhere or bool(self.places)

    def covers(self, namespace: str | None) -> bool:
        """Return whether the permission holds in a namespace; what names none is covered by everywhere alone."""
        return self.is_everywhere or any(place.namespace == namespace for place in self.places)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The names of the places, sorted."""
        return tuple(sorted(place.namespace for place in self.places))

    def within(self, other: Scope) -> Scope:
        """Return where both hold."""
        if other.is_everywhere:
            return self
        if self.is_everywhere:
            return other
        return Scope.of(set(self.places) & set(other.places))


EVERYWHERE: Final = Scope(is_everywhere=True)
NOWHERE: Final = Scope()


def names_to_read(within: Scope, chosen: str | None = None) -> tuple[str, ...] | None:
    """Return the namespaces that a list reads one by one.

    Args:
        within: Where the reader may look.
        chosen: The namespace that the list is narrowed to; one elsewhere is none.

    Returns:
        The names; None for a list of everything.

    Raises:
        InvalidInput: There are more than a page merges, and none is chosen.
    """
    if chosen is not None:
        return (chosen,) if within.covers(chosen) else ()
    if within.is_everywhere:
        return None
    if len(within.places) > MOST_NAMESPACES:
        message = f"You may look into {len(within.places)} namespaces: name one of them in the filter."
        raise InvalidInput(message, field="namespace")
    return within.namespaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What an account may do at one moment.

    Attributes:
        permissions: The keys that it holds everywhere.
        scopes: The keys that it holds in places only, and where.
    """

    permissions: frozenset[str] = frozenset()
    scopes: Mapping[str, Scope] = field(default_factory=dict)

    def narrowed_to(self, keys: Collection[str]) -> Rights:
        """Return what is left when only some keys count."""
        return Rights(
            permissions=frozenset(key for key in self.permissions if key in keys),
            scopes={key: scope for key, scope in self.scopes.items() if key in keys},
        )

    def reach(self, permission: str) -> Scope:
        """Return where a permission holds; an unknown key holds nowhere."""
        return EVERYWHERE if permission in self.permissions else self.scopes.get(permission, NOWHERE)
