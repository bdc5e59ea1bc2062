"""Where a list looks: where the account may, or in the one namespace of it that the address names."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.cache import cache
from django.http import HttpRequest

from console.access.reads import rights_of
from console.forms import NamespaceFilter
from console.permissions import VIEW
from integration.scopes import MOST_NAMESPACES, Scope
from integration.work.figures import namespaces

#: How long a list of suggestions may be behind.
SUGGESTIONS_SECONDS = 15


def suggested_namespaces() -> tuple[str, ...]:
    """Return the namespaces that there are, as a form suggests them; up to some seconds behind."""
    return cache.get_or_set("namespaces", namespaces, SUGGESTIONS_SECONDS) or ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Where a list looks.

    Attributes:
        within: Where the account may look.
        namespace: The one namespace that is listed; None for all of them.
    """

    within: Scope
    namespace: str | None

    @property
    def is_narrowed(self) -> bool:
        """Return whether some namespaces are listed, not everything."""
        return self.namespace is not None or not self.within.is_everywhere

    @property
    def may_see_all(self) -> bool:
        """Return whether one page can list all that the account may look at."""
        return self.within.is_everywhere or len(self.within.places) <= MOST_NAMESPACES

    @property
    def is_choice(self) -> bool:
        """Return whether there is more than one namespace to choose from."""
        return self.within.is_everywhere or len(self.within.places) > 1

    @property
    def suggestions(self) -> tuple[str, ...]:
        """The namespaces to choose from, as far as a form suggests them."""
        return suggested_namespaces() if self.within.is_everywhere else self.within.namespaces


def look_of(request: HttpRequest, permission: str = VIEW) -> Look:
    """Return where a list looks.

    Args:
        request: The list's request; `namespace` in its address narrows it.
        permission: What the account needs there.

    Returns:
        The places. Of more than a page can list, the first one unless the address names another.
    """
    within = rights_of(request.user).reach(permission)
    found = Look(within=within, namespace=NamespaceFilter(request.GET).namespace_or_none())
    if found.namespace is None and not found.may_see_all:
        return Look(within=within, namespace=within.namespaces[0])
    return found
