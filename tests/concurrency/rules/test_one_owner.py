"""Rule 6: one live route a namespace and event kind, so that one active pack owns a source scope."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.catalog.service import install_pack
from integration.values import SYSTEM_ACTOR
from tests.concurrency.rules import racers
from tests.support import webhooks
from tests.support.processes import race
from tests.support.work import query

pytestmark = pytest.mark.django_db(transaction=True)
PLAY = f"{racers.__name__}:play"
RIVAL = (("pack: demo", "pack: rival"), ("- key: deals", "- key: rivals"))


def activate_both(database_url: str, folder: Path, removed: str = "") -> tuple[list[str], list[str], list[str]]:
    """Activate two packs of one namespace with the same event kinds at once.

    Returns:
        What came of each; which of them are active; the packs of the live routes, once for each kind.
    """
    documents = [webhooks.pack(), webhooks.variant("demo", *RIVAL)]
    names = {install_pack(one, actor=SYSTEM_ACTOR).pack_install_id: one.pack for one in documents}
    place = {"folder": str(folder), "removed": removed}
    outcomes = race(
        PLAY,
        [
            {"part": "activate", "pack_install_id": pack_id, "is_first": name == "demo", **place}
            for pack_id, name in names.items()
        ],
        database_url,
    )
    active = query("SELECT PackName FROM _System_ConnectorPackInstall WHERE Status = 'active' ORDER BY PackName")
    live = query("SELECT PackInstallId FROM _System_ConnectorRoute WHERE Status = 'live'")
    return outcomes, [row["PackName"] for row in active], sorted(names[row["PackInstallId"]] for row in live)


KINDS = len(webhooks.pack().routes)


def test_activation__of_two_packs_with_one_kind__has_one_owner_and_a_refusal(database_url: str, tmp_path: Path) -> None:
    outcomes, active, live = activate_both(database_url, tmp_path)

    assert outcomes == ["active", "route_live_elsewhere"]
    assert (active, live) == (["demo"], ["demo"] * KINDS)


def test_activation__without_the_lock_of_the_namespace__is_stopped_by_the_key_without_a_refusal(
    database_url: str, tmp_path: Path
) -> None:
    """The first guard is gone: the second has decided on what it read before, and the key undoes all it wrote."""
    outcomes, active, live = activate_both(database_url, tmp_path, "lock")

    assert outcomes == ["active", "IntegrityError"]
    assert (active, live) == (["demo"], ["demo"] * KINDS)


def test_activation__without_the_lock_and_the_key__leaves_two_owners(database_url: str, tmp_path: Path) -> None:
    """The negative control: both packs are active, and both route every kind."""
    outcomes, active, live = activate_both(database_url, tmp_path, "key")

    assert outcomes == ["active", "active"]
    assert (active, live) == (["demo", "rival"], ["demo"] * KINDS + ["rival"] * KINDS)
