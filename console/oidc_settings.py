"""Signing in through an OpenID Connect provider, as the environment switches it on: all of it, or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured

PREFIX: Final = "LOCKHOUSE_OIDC_"
_REQUIRED: Final = ("ISSUER", "CLIENT_ID", "CLIENT_SECRET")
_OPTIONAL: Final = ("NAME", "CREATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """What the provider knows this console by.

    Attributes:
        issuer: The provider, letter for letter as its tokens name it; its own description lies under this address.
        client_id: This console's name there.
        client_secret: What proves it.
        name: What the sign-in page calls the provider.
        creates: Somebody whom no account is linked to gets one, without any right, instead of a refusal.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str
    creates: bool


def read_oidc(env: Any, *, is_local: bool) -> OidcSettings | None:
    """Return what the environment says of the provider; None when it names none.

    Args:
        env: The environment's reader.
        is_local: This run may talk to a provider over plain HTTP.

    Raises:
        ImproperlyConfigured: A part is missing, or the issuer's address is not one that can be trusted.
    """
    given = {name: env.str(PREFIX + name, "") for name in (*_REQUIRED, *_OPTIONAL)}
    if not any(given.values()):
        return None
    missing = [PREFIX + name for name in _REQUIRED if not given[name]]
    if missing:
        message = f"{', '.join(missing)} is not set. Signing in through a provider needs all of it, or none."
        raise ImproperlyConfigured(message)
    if not given["ISSUER"].startswith(("https://", "http://") if is_local else "https://"):
        message = f"{PREFIX}ISSUER is the provider's address and begins with https://."
        raise ImproperlyConfigured(message)
    return OidcSettings(
        issuer=given["ISSUER"],
        client_id=given["CLIENT_ID"],
        client_secret=given["CLIENT_SECRET"],
        name=given["NAME"] or "your organization",
        creates=env.bool(PREFIX + "CREATE", default=False),
    )
