"""The pages of cutovers: who owns what, every receipt with its proof, what verifies and what refuses."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client

from integration.cutover import reads
from integration.errors import InvalidInput
from integration.legacy.process import register_executor
from tests.support.inbound import forward, receipts_of, roll_back
from tests.support.legacy import LegacyPack
from tests.support.old_projections import OldPack
from tests.support.work import Pack, change

pytestmark = pytest.mark.django_db
NOWHERE = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def pack() -> LegacyPack:
    """A pack that went forward, back, and forward again."""
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    register_executor(pack.pack_id, build_version="v1")
    pack.events(2)
    forward(pack)
    roll_back(pack)
    forward(pack)
    return pack


@pytest.fixture
def keeper(signed_in) -> Client:
    """Return a client that may run cutovers."""
    return signed_in("karl", "Admin")


def test_cutovers__list_every_incarnation_with_its_owner(pack: LegacyPack, viewer: Client) -> None:
    Pack(namespace="beta", name="old", direction=None)
    Pack(namespace="gamma", name="back", direction="rollback")
    text = viewer.get("/cutovers/").content.decode()
    rows = re.findall(r'data-row href="/cutovers/([0-9a-f-]{36})/"', text)
    assert (len(rows), pack.pack_id in rows) == (3, True)
    assert "forward, generation 3" in text
    assert (text.count(">WorkItems</span>"), text.count(">Event executor</span>")) == (1, 2)
    only = viewer.get("/cutovers/", {"namespace": "beta"}).content.decode()
    assert ("old" in only, pack.pack_id in only) == (True, False)


def test_cutovers__are_paged_by_key(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Pack(namespace=f"n{number % 3}", name=f"p{number}").pack_id for number in range(7)]
    monkeypatch.setattr(reads.list_incarnations, "__defaults__", (None, None, 2))
    path, met = "/cutovers/", []
    while path:
        text = viewer.get(path).content.decode()
        met += re.findall(r'data-row href="/cutovers/([0-9a-f-]{36})/"', text)
        older = re.search(r'href="([^"]+)" data-older', text)
        path = older.group(1).replace("&amp;", "&") if older else ""
    assert (sorted(made), 7) == (sorted(met), len(met))
    assert 400 == viewer.get("/cutovers/", {"cursor": "x"}).status_code


@pytest.mark.parametrize(
    "cursor", ["", "[]", '["a","b"]', '["a","b","c"]', "[1,2,3]", '["a","b",-1]', "[" * 900, '"\\ud800"']
)
def test_cutovers__a_forged_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput):
        reads.list_incarnations(None, cursor)


def test_incarnation__shows_each_receipt_and_that_it_holds(pack: LegacyPack, viewer: Client) -> None:
    text = viewer.get(f"/cutovers/{pack.pack_id}/").content.decode()
    generations = re.findall(r">Generation (\d)</a>", text)
    assert (generations, text.count(">hold</span>")) == (["3", "2", "1"], 3)
    change("UPDATE _System_ConnectorCutoverReceipt SET WrittenBy = 'mallory' WHERE OwnerGeneration = 2")
    text = viewer.get(f"/cutovers/{pack.pack_id}/").content.decode()
    assert (text.count(">hold</span>"), text.count(">broken</span>")) == (2, 1)


def test_receipt__shows_its_whole_proof_and_prints(pack: LegacyPack, viewer: Client) -> None:
    first, second, third = receipts_of(pack)
    text = viewer.get(f"/cutovers/receipts/{second['ReceiptId']}/").content.decode()
    for value in (second["ReceiptId"], second["ProofDigest"], first["ReceiptId"], third["ReceiptId"], pack.pack_id):
        assert value in text
    assert "Digest and chain hold" in text
    assert "data-print" in text
    newest = viewer.get(f"/cutovers/receipts/{third['ReceiptId']}/").content.decode()
    for name in json.loads(third["Proof"]):
        assert f"<dt>{name.replace('_', ' ')}</dt>" in newest
    proof = viewer.get(f"/cutovers/receipts/{third['ReceiptId']}/proof")
    assert proof.content.decode() == third["Proof"]
    assert proof["Content-Disposition"].startswith("attachment")


def test_receipt__that_was_edited_says_so(pack: LegacyPack, viewer: Client) -> None:
    third = receipts_of(pack)[2]
    change("UPDATE _System_ConnectorCutoverReceipt SET Proof = 'x' WHERE ReceiptId = %s", third["ReceiptId"])
    text = viewer.get(f"/cutovers/receipts/{third['ReceiptId']}/").content.decode()
    assert "This receipt is not what was written" in text
    assert "The stored proof cannot be read" in text
    assert (
        "No. Something is not what the receipts say" in viewer.get(f"/cutovers/{pack.pack_id}/verify").content.decode()
    )


def test_verify__asks_every_receipt_and_the_rows_of_today(pack: LegacyPack, viewer: Client) -> None:
    text = viewer.get(f"/cutovers/{pack.pack_id}/verify").content.decode()
    assert "Yes. What was written stands" in text
    assert text.count('<li class="ok">') >= 8
    change("UPDATE _System_ConnectorClaimProcess SET StoppedAt = NULL, EvictedAt = NULL")
    text = viewer.get(f"/cutovers/{pack.pack_id}/verify").content.decode()
    assert ("No. Something" in text, '<li class="no">' in text) == (True, True)


def test_obstacles__name_what_a_person_has_to_take_away(viewer: Client) -> None:
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    pack.events(1)
    text = viewer.get(f"/cutovers/{pack.pack_id}/obstacles").content.decode()
    assert "Needs a person" in text
    assert "It has no receipt" in viewer.get(f"/cutovers/{pack.pack_id}/verify").content.decode()


def test_dry_run__lists_the_rows_that_refuse_and_writes_nothing(keeper: Client, viewer: Client) -> None:
    pack = OldPack()
    pack.lane(1).coalesced(4)
    pack_id = pack.settle()
    change("UPDATE _System_ConnectorWorkItem SET State = 'pending' WHERE PackInstallId = %s", pack_id)
    text = keeper.get(f"/cutovers/{pack_id}/dry-run").content.decode()
    assert "unended_work" in text
    assert re.search(r'WorkItem <a class="id" href="/work/[0-9a-f-]{36}/"', text)
    assert 403 == viewer.get(f"/cutovers/{pack_id}/dry-run").status_code
    shown = viewer.get(f"/cutovers/{pack_id}/").content.decode()
    assert "You may view, not audit" in shown


def test_dry_run__of_a_history_that_is_too_long_names_the_command(
    keeper: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import timedelta

    from console.views import cutovers

    pack = OldPack()
    pack.lane(1).coalesced(4)
    pack_id = pack.settle()
    monkeypatch.setattr(cutovers, "DRY_RUN", timedelta(0))
    text = keeper.get(f"/cutovers/{pack_id}/dry-run").content.decode()
    assert "The history is longer than" in text
    assert "connector-projection-cutover" in text


def test_dry_run__of_a_settled_history_is_ready(keeper: Client) -> None:
    pack = OldPack()
    pack.lane(1).coalesced(4)
    assert (
        "A cutover would end the old protocol at ordinal"
        in keeper.get(f"/cutovers/{pack.settle()}/dry-run").content.decode()
    )


@pytest.mark.parametrize(
    "path", ["/cutovers/{}/", "/cutovers/{}/verify", "/cutovers/{}/obstacles", "/cutovers/receipts/{}/"]
)
@pytest.mark.parametrize("name", [NOWHERE, "é", "x"])
def test_cutovers__of_nothing_are_nothing_here(path: str, name: str, viewer: Client) -> None:
    assert 404 == viewer.get(path.format(name)).status_code


def test_overview__shows_every_active_pack_and_its_owner(pack: LegacyPack, viewer: Client) -> None:
    text = viewer.get("/").content.decode()
    assert f'href="/cutovers/{pack.pack_id}/"' in text
    assert "Active packs" in text
