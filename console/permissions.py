"""The single way into a page: every route declares a permission key, or is on the anonymous list.

Rule: A-32
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, cast

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from console.answers import say
from console.api.problems import is_api

VIEW = "integration.view_connector_event"
REPLAY = "integration.replay_connector_event"
BULK = "integration.replay_in_bulk"
REPAIR = "integration.repair_effect"
CUTOVER = "integration.run_cutover"
ACCESS = "integration.manage_access"
AUDIT = "integration.view_audit"

#: Any signed-in account; for pages about the account itself.
SIGNED_IN = "signed-in"
#: Guarded by the Django admin itself (`AdminSite.has_permission`).
ADMIN_SITE = "admin-site"
#: No account needed; what these routes may say is fixed text, and to this machine alone, counts.
ANONYMOUS = "anonymous"

#: Route names that anybody may call. Each is tested to disclose nothing.
ANONYMOUS_ROUTES = frozenset(
    {
        "sign-in",
        "sign-in-code",
        "admin-sign-in",
        "sign-in-provider",
        "sign-in-provider-back",
        "healthz",
        "readyz",
        "metrics",
        "hook",
        "favicon",
        "csp-report",
    }
)

#: Groups that every installation starts with, and what each may do.
GROUPS: dict[str, tuple[str, ...]] = {
    "Viewer": (VIEW,),
    "Replayer": (VIEW, REPLAY),
    "Auditor": (AUDIT,),
    "Admin": (
        VIEW,
        REPLAY,
        REPAIR,
        CUTOVER,
        ACCESS,
        AUDIT,
        "console.view_user",
        "console.add_user",
        "console.change_user",
        "auth.view_group",
        "auth.add_group",
        "auth.change_group",
    ),
}

#: What opens the account pages, beside being staff.
ACCOUNTS = ("console.view_user", "console.change_user")

P = ParamSpec("P")
View: TypeAlias = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def requires(permission: str, *, scoped: bool = False) -> Callable[[View[P]], View[P]]:
    """Guard a view by one permission key, read again from the database on every request.

    Args:
        permission: A key of this module, or SIGNED_IN.
        scoped: The view asks its queries for the place as well, so that an account may enter that holds the key in
            some places only. Without it such an account is refused.

    Returns:
        A decorator. Without a session the view answers with a redirect to the sign-in page (or, for a
        fragment, with 401 and `HX-Redirect`, and to the API with 401); without the permission it raises
        PermissionDenied, which the 403 page answers without naming what lies behind it.

    Rule:
        A-32
    """

    def decorate(view: View[P]) -> View[P]:
        @wraps(view)
        def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_sign_in(request)
            if permission != SIGNED_IN and not _may_enter(request.user, permission, scoped=scoped):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        guarded.required_permission = permission  # type: ignore[attr-defined]
        guarded.is_scoped = scoped  # type: ignore[attr-defined]
        return cast("View[P]", guarded)

    return decorate


def _may_enter(user: Any, permission: str, *, scoped: bool) -> bool:
    return user.has_perm(permission) or (scoped and bool(user.rights().reach(permission)))


def keeps_accounts(user: Any) -> bool:
    """Say whether the account pages show this user anything."""
    return bool(user.is_authenticated and user.is_staff and any(user.has_perm(key) for key in ACCOUNTS))


def _to_sign_in(request: HttpRequest) -> HttpResponseBase:
    if is_api(request):
        response = say(request, 401, code="signed_out")
        response["WWW-Authenticate"] = 'Bearer realm="lockhouse"'
        return response
    if getattr(request, "htmx", False):
        # A fragment swapped into a page would show the form inside a table: move the whole page instead.
        response = HttpResponse(status=401)
        response["HX-Redirect"] = reverse("sign-in")
        return response
    return redirect_to_login(request.get_full_path())


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One reachable URL pattern and what it asks for.

    Attributes:
        pattern: The pattern from the root, as Django prints it.
        name: The route's name, namespaces in front; empty if it has none.
        access: A permission key, SIGNED_IN, ADMIN_SITE or ANONYMOUS; None when nothing is declared.
        callback: The view.
    """

    pattern: str
    name: str
    access: str | None
    callback: Callable[..., Any]


def walk_routes() -> Iterator[Route]:
    """Yield every route of the URLconf with the access that it declares.

    Returns:
        Routes in the order of the URLconf.
    """
    yield from _walk(get_resolver().url_patterns, prefix="", namespace="")


def _walk(patterns: list[Any], *, prefix: str, namespace: str) -> Iterator[Route]:
    for entry in patterns:
        if isinstance(entry, URLResolver):
            inner = f"{namespace}{entry.namespace}:" if entry.namespace else namespace
            yield from _walk(entry.url_patterns, prefix=prefix + str(entry.pattern), namespace=inner)
        elif isinstance(entry, URLPattern):
            name = f"{namespace}{entry.name}" if entry.name else ""
            yield Route(
                pattern=prefix + str(entry.pattern),
                name=name,
                access=_access_of(name, namespace, entry.callback),
                callback=entry.callback,
            )


def _access_of(name: str, namespace: str, callback: Callable[..., Any]) -> str | None:
    if namespace.startswith("admin:"):
        return ADMIN_SITE
    if name in ANONYMOUS_ROUTES:
        return ANONYMOUS
    return getattr(callback, "required_permission", None)
