"""Two managers at once, as real processes: one is left, and a grant is confirmed once; without the guards not so."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.access import service
from console.access.managers import managers
from console.access.policy import Terms
from console.permissions import CUTOVER
from tests.concurrency.access import racers
from tests.support.access import account, acting
from tests.support.authority import audit_entries
from tests.support.processes import race
from tests.support.rows import Installation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900), pytest.mark.evidence("A-32")]
RACERS = racers.__name__


@pytest.fixture
def grant_id() -> str:
    installation = Installation()
    for name in ("agnes", "bruno", "clara"):
        account(name, "Admin")
    terms = Terms(permission=CUTOVER, namespace=installation.namespace)
    actor = acting(account("agnes", "Admin"))
    return service.grant(account("dora").pk, terms, expires_in=None, reason="Friday", actor=actor).id


def confirmations() -> list[str]:
    return [row["outcome"] for row in audit_entries() if row["action"] == "scope_grant.confirmed"]


def test_two_managers__who_close_each_other_leave_one(database_url: str, tmp_path: Path):
    for name in ("agnes", "bruno"):
        account(name, "Admin")
    sides = [{"name": name, "folder": str(tmp_path), "is_first": name == "agnes"} for name in ("agnes", "bruno")]
    assert ["closed", "refused"] == race(f"{RACERS}:close", sides, database_url)
    assert ["bruno"] == [user.username for user in managers()]


def test_two_managers__who_do_not_wait_for_each_other_would_leave_none(database_url: str, tmp_path: Path):
    for name in ("agnes", "bruno"):
        account(name, "Admin")
    pairs = (("agnes", "bruno"), ("bruno", "agnes"))
    sides = [{"name": name, "other": other, "folder": str(tmp_path)} for name, other in pairs]
    assert ["closed", "closed"] == race(f"{RACERS}:close_unlocked", sides, database_url)
    assert [] == list(managers())


@pytest.mark.parametrize("is_guarded", [True, False])
def test_two_managers__confirm_a_grant_once_thanks_to_the_guard(
    is_guarded: bool, grant_id: str, database_url: str, tmp_path: Path
):
    sides = [
        {
            "grant_id": grant_id,
            "name": name,
            "folder": str(tmp_path),
            "is_first": name == "bruno",
            "is_guarded": is_guarded,
        }
        for name in ("bruno", "clara")
    ]
    ends = race(f"{RACERS}:confirm", sides, database_url)
    if is_guarded:
        assert ["confirmed", "over"] == ends
        assert ["done", "refused"] == confirmations()
        assert "bruno" == service.get_grant(grant_id).confirmed_by_name
    else:
        assert ["confirmed", "confirmed"] == ends
        assert ["done", "done"] == confirmations()
