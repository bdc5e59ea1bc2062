"""System checks of the console: what must hold before it may serve a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, register

from console import permissions


@register("security")
def check_every_route_declares_its_permission(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Refuse to start with a route that neither declares a permission nor is listed as anonymous.

    Returns:
        One error for each undeclared route.

    Rule:
        A-32
    """
    return [
        Error(
            f"The route {route.pattern} declares no permission.",
            hint="Decorate its view with @requires(...) or list its name in ANONYMOUS_ROUTES.",
            id="console.E001",
        )
        for route in permissions.walk_routes()
        if route.access is None
    ]
