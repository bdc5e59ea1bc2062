"""`manage.py inbound_cutover`: what it prints, and its exit codes."""

from __future__ import annotations

import pytest

from integration.values import new_id
from tests.support.commands import run
from tests.support.dlq import operator
from tests.support.inbound import ATTESTED, actions, command, forward, receipts_of
from tests.support.legacy import LegacyPack
from tests.support.work import change, query

pytestmark = pytest.mark.django_db


@pytest.fixture
def pack() -> LegacyPack:
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    return pack


def test_status__names_what_stands_in_the_way_with_a_next_step(pack):
    pack.events(2)
    found = command(pack, "status")
    assert (found.code, found.document["newest"], found.document["is_forward"]) == (0, None, False)
    told = [(one["code"], one["count"], one["remedy"]) for one in found.document["obstacles"]]
    assert told == [
        ("attestation_missing", 1, "operator"),
        ("event_claims_open", 1, "forward"),
        ("events_without_work", 2, "forward"),
    ]
    assert all(one["next_step"] for one in found.document["obstacles"])
    plain = run("inbound_cutover", "status", "--pack-install-id", pack.pack_id)
    assert "no cutover receipt" in plain.out
    assert "events_without_work: 2 Events have no WorkItem yet." in plain.out


def test_forward__says_what_was_done_and_status_that_nothing_is_left(pack):
    pack.events(2)
    done = command(pack, "forward")
    assert (done.code, done.document["is_new"], done.document["materialized"]) == (0, True, 2)
    again = command(pack, "forward")
    assert (again.code, again.document["is_new"]) == (0, False)
    assert again.document["receipt_id"] == done.document["receipt_id"]
    status = command(pack, "status").document
    assert (status["is_forward"], status["obstacles"]) == (True, [])
    assert status["newest"]["receipt_id"] == done.document["receipt_id"]
    plain = run("inbound_cutover", "status", "--pack-install-id", pack.pack_id)
    assert "WorkItems are executed." in plain.out


@pytest.mark.evidence("C-01")
def test_forward__refused_is_exit_3_with_every_obstacle(pack):
    pack.events(RouteId=new_id())
    refused = command(pack, "forward")
    assert (refused.code, refused.document["error"]) == (3, "cutover_refused")
    assert [one["code"] for one in refused.document["obstacles"]] == ["events_without_route"]
    plain = run(
        *("inbound_cutover", "forward", "--pack-install-id", pack.pack_id, "--as", "owner", "--reason", "now"),
        *("--attest", ATTESTED),
    )
    assert plain.code == 3
    assert "events_without_route: 1 Events have no work" in plain.err


def test_abandon__says_whether_there_was_anything_to_abandon(pack):
    assert command(pack, "abandon").document == {"abandoned": False}
    (event_id,) = pack.events()
    pack.claim(event_id)
    assert command(pack, "forward", "--timeout", "soon").code == 2
    assert command(pack, "forward", "--timeout", "nan").code == 2
    assert command(pack, "status").document["is_under_way"] is False
    assert command(pack, "forward", "--timeout", "0").code == 3
    assert command(pack, "forward", "--timeout", "10ms").code == 3
    assert command(pack, "status").document["is_under_way"] is True
    plain = run("inbound_cutover", "status", "--pack-install-id", pack.pack_id)
    assert "under way" in plain.out
    assert command(pack, "abandon").document == {"abandoned": True}
    assert command(pack, "status").document["is_under_way"] is False


@pytest.mark.parametrize(
    ("pack_install_id", "code", "error"),
    [("nonsense", 2, "invalid_input"), ("caf\u00e9", 2, "invalid_input"), ("", 2, "invalid_input")],
)
@pytest.mark.parametrize("verb", ["forward", "status", "verify", "abandon"])
def test_verbs__refuse_what_is_no_id(pack, verb, pack_install_id, code, error):
    pack.pack_id = pack_install_id
    found = command(pack, verb)
    assert (found.code, found.document["error"], found.document["field"]) == (code, error, "pack_install_id")


@pytest.mark.parametrize("verb", ["forward", "status", "verify", "abandon"])
def test_verbs__find_no_pack_of_an_unknown_id(pack, verb):
    pack.pack_id = new_id()
    found = command(pack, verb)
    assert (found.code, found.document["error"]) == (4, "not_found")


def test_forward__of_a_retired_incarnation_is_refused(pack):
    change("UPDATE _System_ConnectorPackInstall SET Status = 'retired', ActiveKey = NULL")
    refused = command(pack, "forward")
    assert refused.code == 3
    assert [one["code"] for one in refused.document["obstacles"]] == ["pack_not_active"]


@pytest.mark.parametrize("verb", ["forward", "abandon"])
def test_verbs__that_change_something_need_the_permission(pack, verb):
    operator("replayer", "Replayer")
    refused = command(pack, verb, "--as", "replayer")
    assert (refused.code, refused.document["error"]) == (5, "permission_denied")
    assert command(pack, verb, "--as", "stranger").code == 5
    assert query("SELECT 1 FROM _System_ConnectorSchedulerLease") == []
    # A stranger has no account that the trail could name.
    assert actions() == [({"forward": "moved_forward", "abandon": "abandoned"}[verb], "refused")]


def test_forward__without_a_reason_or_an_operator_is_a_usage_error(pack):
    assert run("inbound_cutover", "forward", "--pack-install-id", pack.pack_id, "--as", "owner").code == 2
    assert run("inbound_cutover", "forward", "--pack-install-id", pack.pack_id, "--reason", "now").code == 2
    assert run("inbound_cutover").code == 2


def test_verify__of_a_pack_without_receipts_finds_none(pack):
    found = command(pack, "verify")
    assert (found.code, found.document["error"]) == (4, "not_found")


@pytest.mark.evidence("C-01")
def test_verify__holds_after_a_cutover_and_not_after_an_edit(pack):
    pack.events(1)
    forward(pack)
    held = command(pack, "verify")
    assert (held.code, held.document["holds"], held.document["faults"]) == (0, True, [])
    (row,) = receipts_of(pack)
    change(
        "UPDATE _System_ConnectorCutoverReceipt SET Proof = %s",
        row["Proof"].replace('"events_processing":0', '"events_processing":1'),
    )
    broken = command(pack, "verify")
    assert (broken.code, broken.document["holds"]) == (3, False)
    (fault,) = broken.document["faults"]
    assert (fault["code"], fault["receipt_id"]) == ("digest_mismatch", row["ReceiptId"])
    plain = run("inbound_cutover", "verify", "--pack-install-id", pack.pack_id)
    assert plain.code == 3
    assert "FAULT  digest_mismatch in generation 1" in plain.out
