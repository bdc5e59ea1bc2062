"""A browser, an operator who is signed in, and an installation with work in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, Permission
from playwright.sync_api import Browser, Page, expect, sync_playwright

from console.models import User
from tests.support.rows import Installation

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PASSWORD = "the-keeper-decides-9"
#: Against what never comes, not against a busy machine.
LONGEST_MILLISECONDS = 120_000
expect.set_options(timeout=LONGEST_MILLISECONDS)


@pytest.fixture(scope="package")
def browser(django_db_setup: None) -> Iterator[Browser]:
    """Start Debian's Chromium once, after the database: its loop would forbid the set-up."""
    # Playwright's own loop runs in this thread: Django would take the tests' queries for async ones.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", CHROMIUM), args=FLAGS)
        yield started
        started.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def operator(transactional_db: None) -> User:
    """Make an operator who may view, replay, arm fences, read the audit trail and manage access."""
    user = User.objects.create_user("ana", password=PASSWORD)
    user.groups.add(*Group.objects.filter(name__in=["Replayer", "Auditor"]))
    user.user_permissions.add(*Permission.objects.filter(codename__in=["run_cutover", "manage_access"]))
    return user


@pytest.fixture
def installation(transactional_db: None) -> Installation:
    """Make a namespace with an active pack and a live route."""
    return Installation()


@pytest.fixture
def open_page(browser: Browser, live_server: Any, operator: User, client: Any) -> Iterator[Any]:
    """Open pages as the operator; every error of a page's console fails the test."""
    contexts = []
    complaints: list[str] = []

    def open_(
        path: str,
        *,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        scripts: bool = True,
        signed_in: bool = True,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(LONGEST_MILLISECONDS)
        if signed_in:
            client.force_login(operator)
            cookie = client.cookies[settings.SESSION_COOKIE_NAME]
            context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": live_server.url}])
        page = context.new_page()
        page.on(
            "console",
            lambda message: complaints.append(message.text) if message.type == "error" else None,
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(live_server.url + path)
        return page

    open_.complaints = complaints  # type: ignore[attr-defined]
    yield open_
    for context in contexts:
        context.close()
    expected = getattr(open_, "expected", ())
    assert [text for text in complaints if not any(part in text for part in expected)] == []
