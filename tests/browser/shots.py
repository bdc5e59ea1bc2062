"""Pictures of every page: wide and narrow, light and dark, empty, one row, many rows, very long values.

Run by `bin/shots`; the pictures go to `test-results/shots`.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from console.models import User
from console.permissions import BULK, CUTOVER, REPLAY, VIEW
from console.saved import save_view
from integration.audit import service as audit
from integration.audit.policy import AuditFact, AuditOutcome
from integration.values import Actor
from tests.support.access import account, granted, proposal
from tests.support.authority import change
from tests.support.batches import batch_of, replayer, run_to_rest
from tests.support.inbound import forward
from tests.support.legacy import LegacyPack
from tests.support.old_projections import OldPack
from tests.support.rows import Installation

FOLDER = Path(os.environ.get("SHOTS", "test-results/shots"))
LONG = "a-very-long-value-that-somebody-chose-without-thinking-of-the-page-" * 3
SIZES = {"wide": (1440, 900), "narrow": (375, 800)}


def _audit(
    work_id: str,
    outcome: str = "done",
    reason: str = "Stage names were fixed at the provider",
) -> None:
    audit.record_alone(
        AuditFact(
            action="work_item.replayed",
            outcome=AuditOutcome(outcome),
            actor=Actor(user_id=1, name="ana", remote_addr="10.0.0.7", via="console"),
            ref_kind="work_item",
            ref_id=work_id,
            reason=reason,
            facts={"route_version": 12},
        )
    )


def _fenced() -> str:
    fenced = Installation(namespace="beta-success", pack_name="crm-sync", kind="account.merged")
    fenced.fence("account.merged")
    for minutes in (31, 47, 95):
        fenced.work(ended_ago=timedelta(minutes=minutes), SourceLane=f"account:{4000 + minutes}")
    return fenced.work(ended_ago=timedelta(minutes=16), SourceLane="account:4711")


def _fill(installation: Installation) -> dict[str, str]:
    refs = {
        "dead": installation.work(),
        "refused": _fenced(),
    }
    for minutes in range(2, 60):
        installation.work(ended_ago=timedelta(minutes=minutes * 11))
    for minutes in range(40):
        installation.work("succeeded", ended_ago=timedelta(minutes=minutes * 13), Attempt=1)
    for state in ("pending", "pending", "processing", "retry", "retry"):
        installation.work(state, Attempt=0 if state == "pending" else 2)
    refs["replayed"] = installation.work(ReplayedAt=installation.now, ended_ago=timedelta(minutes=5))
    refs["child"] = installation.work(
        "succeeded",
        Attempt=1,
        ended_ago=timedelta(seconds=3),
        ReplayOfWorkId=refs["replayed"],
    )
    refs["receipt"] = installation.quarantined()
    installation.quarantined("body_unreadable")
    installation.worker()
    installation.fence()
    _audit(refs["replayed"])
    _audit(refs["dead"], "refused", "Trying whether it goes now. " * 8)
    return refs


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures(open_page: Any, installation: Installation, operator: User, scheme: str) -> None:
    """Take them all."""
    open_page.expected = ("404 (Not Found)", "400 (Bad Request)")
    FOLDER.mkdir(parents=True, exist_ok=True)

    def shot(name: str, path: str, sizes: tuple[str, ...] = ("wide", "narrow")) -> None:
        for size in sizes:
            width, height = SIZES[size]
            page = open_page(path, width=width, height=height, scheme=scheme)
            page.wait_for_function("document.fonts.ready.then(() => true)")
            page.screenshot(path=FOLDER / f"{name}-{size}-{scheme}.png", full_page=size == "narrow")
            page.context.close()

    shot("empty-overview", "/")
    shot("empty-dlq", "/dlq/")
    shot("empty-audit", "/audit/", ("wide",))
    shot("empty-batches", "/batches/", ("wide",))
    shot("empty-batch-new", "/batches/new", ("wide",))
    shot("empty-fences", "/fences/", ("wide",))
    refs = _fill(installation)
    shot("overview", "/")
    shot("dlq", "/dlq/")
    shot("dlq-misread", "/dlq/?died_after=nonsense")
    shot(
        "dlq-filtered",
        "/dlq/?namespace=acme-sales&event_kind=prospect.updated&replayed=no",
    )
    page = open_page("/dlq/", width=1280, height=800, scheme=scheme)
    page.wait_for_function("document.fonts.ready.then(() => true)")
    page.screenshot(path=FOLDER / f"readme-dead-letters-{scheme}.png")
    page.goto(page.url.replace("/dlq/", f"/dlq/{refs['refused']}/"))
    page.screenshot(path=FOLDER / f"readme-plan-{scheme}.png")
    page.context.close()
    refs["long"] = installation.work(SourceLane=LONG[:250], ended_ago=timedelta(seconds=20))
    for name in ("dead", "refused", "long", "replayed"):
        shot(f"detail-{name}", f"/dlq/{refs[name]}/")
    shot("dlq-oldest", "/dlq/?sort=oldest", ("wide",))
    shot("batch-new", "/batches/new?event_kind=prospect.updated")
    shot("batch-drifted", f"/batches/new?seen_at={(installation.now - timedelta(minutes=30)).isoformat()[:19]}Z")
    ticked = "&".join(f"ref={refs[name]}" for name in ("dead", "refused", "replayed", "long"))
    shot("batch-ticked", f"/batches/new?ticked=1&{ticked}")
    shot("batch-none", "/batches/new?ticked=1", ("wide",))
    for name, is_shared in ((LONG[:60], True), ("Sales, not replayed", False)):
        save_view(operator, "dlq", name=name, query="namespace=acme-sales&replayed=no", is_shared=is_shared)
    shot("views", "/dlq/views/?namespace=acme-sales&replayed=no")
    shot("view-new", "/dlq/views/new?namespace=acme-sales&replayed=no")
    for size, (width, height) in SIZES.items():
        page = open_page("/dlq/?namespace=acme-sales", width=width, height=height, scheme=scheme)
        for summary in page.locator("summary").all():
            summary.click()
        page.locator('input[name="ref"]').first.check()
        page.screenshot(path=FOLDER / f"dlq-open-{size}-{scheme}.png", full_page=True)
        page.context.close()
    batch = batch_of(replayer("rolf"), canary=3)
    run_to_rest()
    for state in ("waiting", "running", "paused", "halted", "finished"):
        code = "admission_fenced" if state == "halted" else ""
        change("UPDATE console_replaybatch SET state = %s, halt_code = %s", state, code)
        shot(f"batch-{state}", f"/batches/{batch.id}/", ("wide", "narrow") if state == "paused" else ("wide",))
    shot("batches", "/batches/")
    shot("replay", f"/dlq/{refs['dead']}/replay")
    shot("replay-refused", f"/dlq/{refs['refused']}/replay", ("wide",))
    shot("replayed", f"/dlq/{refs['replayed']}/replayed")
    shot("work", "/work/")
    shot("work-item", f"/work/{refs['child']}/")
    shot("receipts", "/receipts/")
    shot("receipt", f"/receipts/{refs['receipt']}/", ("wide",))
    fence = installation.fence("*", ExpiresAt=installation.now + timedelta(hours=9))
    override = installation.override(fence, "prospect.updated")
    for number in range(3):
        installation.fence(LiftedAt=installation.now - timedelta(hours=number), LiftedBy="boris")
    shot("fences", "/fences/")
    shot("fence", f"/fences/{fence}/")
    shot("fence-new", "/fences/new")
    shot("fence-confirm", "/fences/new?namespace=acme-sales&expires=3600")
    shot("fence-lift", f"/fences/{fence}/lift", ("wide",))
    shot("fence-override", f"/fences/{fence}/override", ("wide",))
    shot("override-lift", f"/fences/overrides/{override}/lift", ("wide",))
    shot("empty-lanes", "/lanes/", ("wide",))
    for number, state in enumerate(("retry", "blocked", "retry")):
        lane = LONG[:200] if number == 2 else f"account:{4_700 + number}"
        waits = {"BlockedOn": "account.created", "BlockedSince": installation.now} if state == "blocked" else {}
        refs[state] = installation.work(state, SourceLane=lane, Attempt=1, **waits)
        for _ in range(number + 1):
            installation.work("pending", SourceLane=lane, Attempt=0)
    shot("lanes", "/lanes/")
    shot("groups", "/dlq/groups/")
    shot("groups-empty", "/dlq/groups/?hours=1&namespace=nobody", ("wide",))
    shot("cutovers", "/cutovers/")
    shot("cutover", f"/cutovers/{installation.pack_id}/")
    shot("cutover-verify", f"/cutovers/{installation.pack_id}/verify", ("wide",))
    shot("cutover-obstacles", f"/cutovers/{installation.pack_id}/obstacles", ("wide",))
    forwarded = forward(LegacyPack(namespace="gamma-ops", flow="tests.noop"))
    shot("cutover-receipt", f"/cutovers/receipts/{forwarded.receipt_id}/")
    old = OldPack(namespace="delta")
    old.lane(1).coalesced(4)
    shot("cutover-dry-run", f"/cutovers/{old.settle(armed=False)}/dry-run")
    shot("work-cancel", f"/work/{refs['retry']}/cancel")
    shot("work-live", f"/work/{refs['retry']}/", ("wide",))
    shot("zone", "/zone/?next=/dlq/")
    shot("overview-held", "/")
    shot("audit", "/audit/")
    shot("account", "/account/")
    shot("password", "/account/password")
    shot("second-factor", "/account/second-factor")
    shot("access-empty", "/access/", ("wide",))
    grant = granted(account("carla", "Viewer"), REPLAY, namespace=installation.namespace, expires_in=timedelta(days=1))
    proposed = proposal(account("dora"), CUTOVER, org_id=installation.org_id)
    granted(account(LONG[:150]), VIEW)
    shot("access", "/access/")
    shot("grant", f"/access/{grant.id}/", ("wide",))
    shot("grant-proposed", f"/access/{proposed.id}/")
    shot("grant-new", "/access/new", ("wide",))
    shot("grant-confirm", f"/access/new?user=dora&permission={BULK}&namespace={installation.namespace}&expires=86400")
    shot("why-no", f"/access/why?user=dora&action={REPLAY}&ref={refs['dead']}")
    shot("why-yes", f"/access/why?user=carla&action={REPLAY}&ref={refs['dead']}", ("wide",))
    shot("not-found", "/nowhere", ("wide",))
