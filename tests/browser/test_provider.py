"""Signing in through a provider in a real browser: the policy lets it there and back, with and without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as running
from playwright.sync_api import Page, expect

from console import identities
from console.backends import PROVIDER_BACKEND
from console.models import User
from console.oidc_settings import OidcSettings
from integration.values import SYSTEM_ACTOR
from tests.browser.test_shape import AXE, _violations
from tests.support.provider import CLIENT_ID, CLIENT_SECRET, SUBJECT, Provider

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def provider(settings: Any, operator: User) -> Iterator[Provider]:
    """A provider that knows the operator."""
    started = Provider()
    settings.LOCKHOUSE_OIDC = OidcSettings(
        issuer=started.issuer, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, name="Acme", creates=False
    )
    settings.AUTHENTICATION_BACKENDS = [*running.AUTHENTICATION_BACKENDS, PROVIDER_BACKEND]
    identities.link(operator, started.issuer, SUBJECT, actor=SYSTEM_ACTOR)
    yield started
    started.stop()


@pytest.mark.parametrize("scripts", [True, False])
def test_provider__is_gone_to_and_come_back_from(
    open_page: Callable[..., Page], provider: Provider, *, scripts: bool
) -> None:
    page = open_page("/dlq/?replayed=no", signed_in=False, scripts=scripts)
    page.get_by_role("link", name="Sign in with Acme").click()
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    assert page.url.endswith("/dlq/?replayed=no")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_provider__what_it_adds_to_the_sign_in_page_is_accessible(
    open_page: Callable[..., Page], provider: Provider, scheme: str
) -> None:
    open_page.expected = ("403 (Forbidden)", "503 (Service")  # type: ignore[attr-defined]
    script = AXE.read_text(encoding="utf-8")
    page = open_page("/sign-in/", signed_in=False, scheme=scheme, width=375)
    found = _violations(page, script)
    base = page.url.removesuffix("/sign-in/")
    page.goto(base + "/sign-in/provider/back?code=x&state=y")
    expect(page.get_by_role("alert")).to_contain_text("That did not work.")
    found += _violations(page, script)
    provider.stop()
    page.goto(base + "/sign-in/provider")
    expect(page.get_by_role("alert")).to_contain_text("Acme does not answer.")
    assert [] == found + _violations(page, script)
