"""The whole story in a real browser: sign in, find, understand, replay, watch the child; three ways."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from playwright.sync_api import Page, expect

from console.models import AuditEntry, User
from tests.browser.conftest import PASSWORD
from tests.support import flows
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)

assert flows.noop  # the child's flow is registered by importing it


def _work() -> None:
    call_command("work", "--until-idle", "--roles", "claim", "--concurrency", "1")


def _child_state(ref: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT State FROM _System_ConnectorWorkItem WHERE ReplayOfWorkId = %s", [ref])
        row = cursor.fetchone()
        return str(row[0]) if row else ""


def _sign_in(page: Page) -> None:
    page.get_by_label("Name").fill("ana")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_story__with_scripts_the_child_is_watched_live(
    open_page: Callable[..., Page], installation: Installation
) -> None:
    ref = installation.work()
    page = open_page("/dlq/", signed_in=False)
    _sign_in(page)
    page.get_by_role("link", name=re.compile(f"^{ref[:8]}")).click()
    expect(page.get_by_text("Yes. Every rule agrees.")).to_be_visible()
    page.get_by_role("link", name="Replay…").click()
    page.get_by_label(re.compile("^Why")).fill("Stage names are fixed")
    page.get_by_role("button", name="Replay it").click()
    expect(page.get_by_text("waits for a worker")).to_be_visible()
    address = page.url
    page.evaluate("window.stayed = true")
    _work()
    assert "succeeded" == _child_state(ref)
    expect(page.get_by_text("The child succeeded.")).to_be_visible()
    expect(page.locator("#said")).to_have_text("The child is succeeded.")
    assert (address, True) == (page.url, page.evaluate("window.stayed"))
    page.get_by_role("link", name="Dead letters").first.click()
    expect(page.get_by_text("its child")).to_be_visible()


def test_story__without_scripts_every_step_works(open_page: Callable[..., Page], installation: Installation) -> None:
    ref = installation.work()
    page = open_page("/", signed_in=False, scripts=False)
    _sign_in(page)
    page.get_by_role("link", name=re.compile("^Dead letters")).click()
    page.locator("summary", has_text="Filter").click()
    page.get_by_label("Event kind").fill("prospect.updated")
    page.get_by_role("button", name="Apply").click()
    assert "event_kind=prospect.updated" in page.url
    page.get_by_role("link", name=re.compile(f"^{ref[:8]}")).click()
    page.get_by_role("link", name="Replay…").click()
    open_page.expected = ("422 (Unprocessable Entity)",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Replay it").click()
    expect(page.get_by_text("Say why")).to_be_visible()
    page.get_by_label(re.compile("^Why")).fill("Stage names are fixed")
    page.get_by_role("button", name="Replay it").click()
    expect(page.get_by_text("waits for a worker")).to_be_visible()
    _work()
    page.get_by_role("link", name="Refresh").click()
    expect(page.get_by_text("The child succeeded.")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_story__by_keyboard_alone(open_page: Callable[..., Page], installation: Installation) -> None:
    installation.work()
    ref = installation.work()
    page = open_page("/")
    keys = page.keyboard
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("Escape")
    keys.press("g")
    keys.press("d")
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    keys.press("/")
    keys.type(ref)
    keys.press("Enter")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.locator("body").click(position={"x": 700, "y": 5})
    keys.press("j")
    keys.press("Enter")
    expect(page.get_by_text("May it be replayed?")).to_be_visible()
    keys.press("r")
    expect(page.get_by_label(re.compile("^Why"))).to_be_focused()
    keys.type("By keyboard")
    keys.press("Tab")
    expect(page.get_by_role("button", name="Replay it")).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_text("waits for a worker")).to_be_visible()
    assert "By keyboard" == AuditEntry.objects.get(ref_id=ref, action="work_item.replayed", outcome="done").reason


def test_story__a_second_try_reads_that_one_replayed_it_oneself(
    open_page: Callable[..., Page], installation: Installation, operator: User
) -> None:
    ref = installation.work()
    page = open_page(f"/dlq/{ref}/replay")
    page.get_by_label(re.compile("^Why")).fill("Me too")
    other = open_page(f"/dlq/{ref}/replay")
    other.get_by_label(re.compile("^Why")).fill("Me first")
    other.get_by_role("button", name="Replay it").click()
    expect(other.get_by_text("waits for a worker")).to_be_visible()
    open_page.expected = ("409 (Conflict)",)  # type: ignore[attr-defined]
    page.get_by_role("button", name="Replay it").click()
    expect(page.get_by_role("heading", name="You replayed it already")).to_be_visible()
    expect(page.get_by_text("It was replayed already")).to_have_count(1)
    expect(page.get_by_text("Your request wrote nothing")).to_be_visible()


def test_refresh__shows_new_rows_can_be_paused_and_keeps_the_focus(
    open_page: Callable[..., Page], installation: Installation
) -> None:
    first = installation.work()
    page = open_page("/dlq/")
    expect(page.locator("[data-row]")).to_have_count(1)
    refresh: Any = "document.querySelector('#rows').dispatchEvent(new CustomEvent('refresh'))"
    installation.work()
    page.evaluate(refresh)
    expect(page.locator("[data-row]")).to_have_count(2)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.get_by_text("Refresh is paused.")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert first
