"""Bulk replay, saved views and exports in a real browser: tick, confirm, pause, resume; with scripts and without."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support import flows
from tests.support.batches import children_by_original, run_to_rest
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)

assert flows.noop  # the child's flow is registered by importing it


def test_bulk__without_scripts_rows_are_ticked_paused_resumed_and_replayed(
    open_page: Callable[..., Page], installation: Installation
) -> None:
    refs = [installation.work() for _ in range(3)]
    page = open_page("/dlq/?attempts=1", scripts=False)
    for ref in refs[:2]:
        page.locator(f'input[value="work_item:{ref}"]').check()
    page.get_by_role("button", name="Replay the ticked").click()
    expect(page.get_by_role("heading", name="Replay 2 rows")).to_be_visible()
    expect(page.get_by_text("All 2 would be replayed now")).to_be_visible()
    page.get_by_role("link", name="Back").click()
    assert page.url.endswith("/dlq/?attempts=1")
    page.go_back()
    page.get_by_label(re.compile("^Why")).fill("Stage names are fixed")
    page.get_by_role("button", name="Replay 2 rows").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("with 2 of 2 left")).to_be_visible()
    assert 0 == run_to_rest()
    page.get_by_role("button", name="Resume").click()
    assert 2 == run_to_rest()
    page.reload()
    expect(page.get_by_text("2 of 2, 100 %")).to_be_visible()
    assert dict.fromkeys(refs[:2], 1) == children_by_original()


def test_bulk__with_scripts_a_page_is_ticked_at_once_and_the_progress_follows(
    open_page: Callable[..., Page], installation: Installation
) -> None:
    for _ in range(3):
        installation.work()
    page = open_page("/dlq/")
    page.get_by_role("button", name="Tick all on this page").click()
    expect(page.get_by_role("button", name="Replay the ticked 3…")).to_be_visible()
    expect(page.locator("#said")).to_have_text("3 rows ticked")
    page.locator('input[name="ref"]').first.uncheck()
    expect(page.get_by_role("button", name="Replay the ticked 2…")).to_be_visible()
    page.get_by_role("button", name="Replay the ticked 2…").click()
    page.get_by_label(re.compile("^Why")).fill("Stage names are fixed")
    page.get_by_role("button", name="Replay 2 rows").click()
    bar = page.get_by_role("progressbar", name="How far it is")
    expect(bar).to_have_attribute("value", "0")
    page.get_by_role("button", name="Pause").focus()
    assert 2 == run_to_rest()
    expect(bar).to_have_attribute("value", "2")
    expect(page.locator("#said")).to_have_text("2 of 2 done; finished.")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_bulk__the_focus_stays_on_pause_while_the_progress_moves(
    open_page: Callable[..., Page], installation: Installation
) -> None:
    for _ in range(2):
        installation.work()
    page = open_page("/batches/new")
    page.get_by_label(re.compile("^Why")).fill("Stage names are fixed")
    page.get_by_label(re.compile("^First only")).fill("1")
    page.get_by_role("button", name="Replay 2 rows").click()
    page.get_by_role("button", name="Cancel the rest").focus()
    assert 1 == run_to_rest()
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel the rest")).to_be_focused()


@pytest.mark.parametrize("scripts", [True, False])
def test_views__are_saved_opened_and_deleted_and_the_list_is_downloaded(
    open_page: Callable[..., Page], installation: Installation, scripts: bool
) -> None:
    ref = installation.work()
    page = open_page("/dlq/?namespace=acme-sales", scripts=scripts)
    page.get_by_role("link", name="Saved views").click()
    page.get_by_role("link", name="Save this view").click()
    page.get_by_label("Name", exact=True).fill("Sales")
    page.get_by_label("Share it").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved as Sales.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    assert f"work_item:{ref}" in download.value.path().read_text(encoding="utf-8")
    page.get_by_role("link", name="Saved views").click()
    page.get_by_role("link", name="Sales", exact=True).click()
    assert page.url.endswith("/dlq/?namespace=acme-sales")
    page.get_by_role("link", name="Saved views").click()
    page.get_by_role("button", name="Delete view Sales").click()
    expect(page.get_by_text("The view is deleted.")).to_be_visible()
