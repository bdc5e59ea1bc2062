"""One's own account on a phone and without scripts: found, and its password changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from console.models import User
from tests.browser.conftest import PASSWORD

pytestmark = pytest.mark.django_db(transaction=True)

NEW = "a-better-keeper-decides-7"


def test_account__is_reached_on_a_phone_and_its_password_changed_without_scripts(
    open_page: Callable[..., Page], operator: User
) -> None:
    open_page.expected = ("422 (Unprocessable",)  # type: ignore[attr-defined]
    page = open_page("/dlq/", width=320, scripts=False)
    page.get_by_role("link", name="ana", exact=True).click()
    page.get_by_role("link", name="Change the password").click()
    page.get_by_label("Your password of now").fill("not-the-password-1")
    page.get_by_label("New password", exact=True).fill(NEW)
    page.get_by_label("New password again").fill(NEW)
    page.get_by_role("button", name="Change the password").click()
    expect(page.get_by_text("entered incorrectly")).to_be_visible()
    expect(page.get_by_label("New password", exact=True)).to_have_value("")
    page.get_by_label("Your password of now").fill(PASSWORD)
    page.get_by_label("New password", exact=True).fill(NEW)
    page.get_by_label("New password again").fill(NEW)
    page.keyboard.press("Enter")
    expect(page.get_by_text("The password is changed.")).to_be_visible()
    operator.refresh_from_db()
    assert operator.check_password(NEW)
