"""`manage.py inbound_cutover rollback` and `reconcile` as a terminal runs them: exit codes, words, JSON."""

from __future__ import annotations

import pytest

from console.models import User
from integration.management.builds import build_version
from integration.values import new_id
from tests.support.authority import system_rows
from tests.support.commands import Ended, run
from tests.support.dlq import operator
from tests.support.rollback import MovedPack, deliver_end, outcome_rows
from tests.support.work import change, item_row

pytestmark = pytest.mark.django_db
REASON = ("--reason", "The new build loses deals")
ATTESTED = ("--attest", "none runs; seen to by K.")


@pytest.fixture(autouse=True)
def olga(db: None) -> None:
    User.objects.create_superuser("olga")


def cutover(pack: MovedPack, verb: str, *options: str, name: str = "olga") -> Ended:
    return run("inbound_cutover", verb, "--pack-install-id", pack.pack_id, "--as", name, *options)


def test_rollback__says_what_it_did_and_says_it_again():
    pack = MovedPack()
    (work_id,) = pack.waiting()
    done = cutover(pack, "rollback", *REASON, *ATTESTED)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("rolled back: receipt ")
    assert "1 WorkItems wait for the Event executor under fence " in done.out
    again = cutover(pack, "rollback", *REASON, "--json")
    assert (again.code, again.document["is_new"], again.document["item_count"]) == (0, False, 1)
    assert item_row(work_id)["RollbackExecutionFenceId"] == again.document["fence_id"]


def test_rollback__says_which_builds_it_admits_and_that_no_later_call_changes_that():
    pack = MovedPack()
    pack.waiting()
    assert f"of these builds: {build_version()}\n" in cutover(pack, "rollback", *REASON, *ATTESTED).out
    again = cutover(pack, "rollback", *REASON, "--approve-build", build_version(), "--approve-build", "9.9.9")
    assert again.out.startswith("was rolled back already: ")
    assert again.out.endswith("not admitted, since a receipt is never changed: 9.9.9\n")


def test_rollback__is_not_chained_to_receipts_that_are_not_what_was_written():
    pack = MovedPack()
    (work_id,) = pack.waiting()
    change("UPDATE _System_ConnectorCutoverReceipt SET WrittenBy = 'eve' WHERE PackInstallId = %s", pack.pack_id)
    before = system_rows()
    refused = cutover(pack, "rollback", *REASON, *ATTESTED)
    assert refused.code == 3
    assert "receipts_broken: The pack's cutover receipts are not what was written: 1 faults." in refused.err
    assert "restore the rows from a backup. (faults 1)" in refused.err
    assert system_rows() == before
    assert item_row(work_id)["State"] == "pending"
    status = run("inbound_cutover", "status", "--pack-install-id", pack.pack_id)
    assert "receipts_broken: " in status.out
    assert status.out.endswith("WorkItems are executed.\n"), "whose the work is does not change by it"


def test_rollback__refused_names_the_obstacle_and_what_to_do():
    pack = MovedPack()
    work_id = pack.tried("retry", FailureClass="flow_error")
    refused = cutover(pack, "rollback", *REASON, *ATTESTED, "--json")
    assert (refused.code, refused.document["error"], refused.document["refusal"]) == (
        3,
        "rollback_refused",
        "prior_dispatch",
    )
    (obstacle,) = refused.document["obstacles"]
    assert (obstacle["code"], obstacle["facts"]["work_id"]) == ("prior_dispatch", work_id)
    said = cutover(pack, "rollback", *REASON, *ATTESTED)
    assert said.code == 3
    assert "prior_dispatch: The flow of a waiting item was called before. Let the item end, or cancel it" in said.err
    assert f"(work_id {work_id}, state retry, attempt 1, of_attempt 1)" in said.err
    assert "canary" not in said.said


def test_rollback__is_given_up_with_abandon():
    pack = MovedPack()
    pack.tried("processing", LeaseToken="t")
    assert cutover(pack, "rollback", *REASON, *ATTESTED).code == 3
    abandoned = cutover(pack, "rollback", "--abandon", *REASON, "--json")
    assert (abandoned.code, abandoned.document["abandoned"]) == (0, True)
    assert cutover(pack, "rollback", "--abandon", *REASON).code == 3


def test_reconcile__says_what_is_left_and_when_it_is_over():
    pack = MovedPack()
    work_ids = pack.waiting(2)
    assert cutover(pack, "reconcile").out == "nothing to reconcile\n"
    cutover(pack, "rollback", *REASON, *ATTESTED, "--approve-build", "tests", "--approve-build", build_version())
    assert "0 reconciled, 0 found unknown; 2 still wait, 0 are unknown" in cutover(pack, "reconcile").out
    for work_id in work_ids:
        deliver_end(work_id)
    done = cutover(pack, "reconcile", "--json")
    assert (done.document["reconciled"], done.document["is_closed"], len(outcome_rows())) == (2, True, 2)


def test_commands__map_their_errors_to_exit_codes():
    pack = MovedPack()
    operator("vera", "Viewer")
    assert cutover(pack, "rollback", *REASON, *ATTESTED, name="vera").code == 5
    assert cutover(pack, "rollback", *REASON, *ATTESTED, name="nobody").code == 5
    assert cutover(pack, "reconcile", name="vera").code == 5
    assert cutover(pack, "rollback", *ATTESTED, "--reason", " ").code == 2
    assert cutover(pack, "rollback", *REASON).code == 3
    assert cutover(pack, "rollback", *REASON, *ATTESTED, "--chunk", "0").code == 2
    assert cutover(pack, "rollback", "--chunk", "many", *REASON).code == 2
    for name, code in ((new_id(), 4), ("café", 2)):
        pack.pack_id = name
        assert cutover(pack, "rollback", *REASON, *ATTESTED).code == code
        assert cutover(pack, "reconcile").code == code
