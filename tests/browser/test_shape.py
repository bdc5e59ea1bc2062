"""What holds of every page in a browser: accessible, within the policy, never wider than the screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Page

from console.models import User
from console.permissions import CUTOVER, REPLAY
from console.saved import save_view
from tests.support.access import account, granted, proposal
from tests.support.authority import MARIA, change, rows_of
from tests.support.batches import batch_of
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)

AXE = Path(settings.BASE_DIR) / "node_modules" / "axe-core" / "axe.min.js"
LONG = "a-very-long-value-that-somebody-chose-without-thinking-of-the-page-" * 3


def _paths(installation: Installation) -> list[str]:
    dead = installation.work()
    replayed = installation.work(ReplayedAt=installation.now)
    child = installation.work("succeeded", Attempt=1, ReplayOfWorkId=replayed)
    long = installation.work(SourceLane=LONG[:250])
    live = installation.work("pending")
    installation.work("blocked", SourceLane=LONG[:250], BlockedOn=LONG[:200], Attempt=0)
    receipt = installation.quarantined()
    installation.worker()
    fence = installation.fence("*")
    override = installation.override(fence, LONG[:128])
    installation.fence(LiftedAt=installation.now, LiftedBy="ana", Reason=LONG)
    batch = batch_of(MARIA)
    change("UPDATE console_replaybatch SET state = 'halted', halt_code = 'admission_fenced'")
    grant = granted(account("carla"), REPLAY, namespace=installation.namespace)
    proposed = proposal(account(LONG[:150]), CUTOVER, org_id=installation.org_id)
    paused = batch_of(MARIA)
    change("UPDATE console_replaybatch SET state = 'paused', halt_code = '' WHERE id = %s", paused.id)
    for name, is_shared in ((LONG[:60], True), ("mine", False)):
        save_view(User.objects.get(username="ana"), "dlq", name=name, query="namespace=x", is_shared=is_shared)
    return [
        "/access/",
        "/access/new",
        f"/access/new?user=carla&permission={CUTOVER}&namespace={installation.namespace}&expires=86400",
        "/access/new?user=nobody",
        f"/access/{grant.id}/",
        f"/access/{proposed.id}/",
        "/access/why",
        f"/access/why?user=carla&action={REPLAY}&ref={dead}",
        f"/access/why?user={LONG[:150]}&action={REPLAY}&ref={dead}",
        "/",
        "/batches/",
        "/batches/new",
        f"/batches/new?ticked=1&ref={dead}&ref={replayed}&ref={long}&seen_at=2020-01-01T00:00:00Z",
        "/batches/new?seen_at=2020-01-01T00:00:00Z",
        f"/batches/{batch.id}/",
        f"/batches/{paused.id}/",
        "/dlq/",
        "/dlq/?sort=oldest",
        "/dlq/views/",
        "/dlq/views/new?namespace=acme-sales",
        "/dlq/?namespace=acme-sales&replayed=no",
        "/dlq/?died_after=nonsense",
        f"/dlq/{dead}/",
        f"/dlq/{long}/",
        f"/dlq/{dead}/replay",
        f"/dlq/{replayed}/replayed",
        "/work/",
        "/work/?state=pending",
        f"/work/{child}/",
        "/receipts/",
        f"/receipts/{receipt}/",
        "/fences/",
        "/fences/new",
        "/fences/new?namespace=acme-sales",
        f"/fences/{fence}/",
        f"/fences/{fence}/lift",
        f"/fences/{fence}/override",
        f"/fences/overrides/{override}/lift",
        "/dlq/groups/",
        "/dlq/groups/?hours=1&namespace=nobody",
        "/lanes/",
        "/cutovers/",
        f"/cutovers/{installation.pack_id}/",
        f"/cutovers/{installation.pack_id}/verify",
        f"/cutovers/{installation.pack_id}/obstacles",
        f"/cutovers/receipts/{_receipt()}/",
        f"/work/{live}/cancel",
        "/zone/",
        "/audit/",
        "/account/",
        "/account/password",
        "/account/second-factor",
        "/audit/?sort=oldest&actor=ana&since=2020-01-01T00:00",
        "/nowhere",
    ]


def _receipt() -> str:
    (row,) = rows_of("_System_ConnectorCutoverReceipt")
    return str(row["ReceiptId"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1440])
def test_shape__axe_finds_nothing(
    open_page: Callable[..., Page], installation: Installation, scheme: str, width: int
) -> None:
    open_page.expected = ("404 (Not Found)", "400 (Bad Request)", "422 (Unprocessable")  # type: ignore[attr-defined]
    script = AXE.read_text(encoding="utf-8")
    found: list[str] = []
    page = open_page("/sign-in/", signed_in=False, scheme=scheme, width=width)
    found += _violations(page, script)
    page.context.close()
    page = open_page("/", scheme=scheme, width=width)
    base = page.url.rstrip("/")
    for path in _paths(installation):
        page.goto(base + path)
        for summary in page.locator("summary").all():
            summary.click()
        found += _violations(page, script)
    assert [] == sorted(set(found))


def _violations(page: Page, script: str) -> list[str]:
    page.evaluate(script)
    result: dict[str, Any] = page.evaluate(
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
    )
    return [
        f"{page.url} {violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in result["violations"]
        for node in violation["nodes"]
    ]


@pytest.mark.parametrize("width", [320, 3840])
def test_shape__no_page_is_wider_than_the_screen(
    open_page: Callable[..., Page], installation: Installation, width: int
) -> None:
    open_page.expected = ("404 (Not Found)", "400 (Bad Request)", "422 (Unprocessable")  # type: ignore[attr-defined]
    page = open_page("/", width=width)
    base = page.url.rstrip("/")
    wide = []
    for path in _paths(installation):
        page.goto(base + path)
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if over > 0:
            wide.append((path, over))
    assert [] == wide


def test_shape__the_policy_is_in_force_and_a_breach_is_seen(
    open_page: Callable[..., Page], installation: Installation
) -> None:
    page = open_page("/")
    page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)"
    )
    assert page.evaluate("window.ran") is None
    complaints = open_page.complaints  # type: ignore[attr-defined]
    assert ["Content Security Policy" in text for text in complaints] == [True]
    complaints.clear()


def test_shape__nothing_is_stored_of_a_page_that_was_left(
    open_page: Callable[..., Page], installation: Installation
) -> None:
    installation.work()
    page = open_page("/dlq/")
    page.evaluate("document.querySelector('#rows').dispatchEvent(new CustomEvent('refresh'))")
    page.goto(page.url.replace("/dlq/", "/work/"))
    stored = page.evaluate("JSON.stringify([Object.keys(localStorage), Object.keys(sessionStorage)])")
    assert "htmx-history-cache" not in stored


def test_shape__the_account_pages_keep_to_the_policy_too(
    open_page: Callable[..., Page], installation: Installation, operator: User
) -> None:
    User.objects.filter(pk=operator.pk).update(is_staff=True, is_superuser=True)
    page = open_page("/admin/")
    base = page.url.removesuffix("/admin/")
    for path in ("/admin/console/user/", f"/admin/console/user/{operator.pk}/change/", "/admin/auth/group/"):
        page.goto(base + path)
        assert page.title().endswith("Lockhouse accounts")
