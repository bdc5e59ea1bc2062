"""`manage.py admission_fence`: what a shell sees, under the rights of the operator it names."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission

from console.models import User
from integration.cutover.fences import reads
from integration.values import new_id
from tests.support import webhooks
from tests.support.authority import audit_entries, rows_of
from tests.support.commands import Ended, run

pytestmark = pytest.mark.django_db
FENCES = "_System_ConnectorAdmissionFence"
WHY = ("--reason", "Stages are renamed")


@pytest.fixture
def delia() -> str:
    """Make a delivery owner, who may view and run cutovers and nothing else."""
    webhooks.activate()
    user = User.objects.create_user("delia")
    user.groups.set(Group.objects.filter(name="Viewer"))
    user.user_permissions.add(Permission.objects.get(codename="run_cutover"))
    return "delia"


def fence(*arguments: str, who: str = "delia") -> Ended:
    return run("admission_fence", *arguments, "--as", who)


def document(*arguments: str, code: int = 0, who: str = "delia") -> Any:
    ended = fence(*arguments, "--json", who=who)
    assert (ended.code, ended.err) == (code, ""), ended.said
    return ended.document


def test_command__arms_overrides_shows_and_lifts(delia: str):
    armed = document("arm", "demo", *WHY, "--expires-in", "2h")
    fence_id = armed["fence"]["fence_id"]
    assert (armed["is_new"], armed["fence"]["scope"], len(armed["waited_for"])) == (True, "*", 1)
    assert document("arm", "demo", *WHY, "--expires-in", "120m")["is_new"] is False
    granted = document("override", "grant", fence_id, "--scope", "deal.created", "--reason", "urgent")
    override_id = granted["override"]["override_id"]
    (shown,) = document("status")["armed"]
    assert (shown["fence_id"], shown["overrides"][0]["override_id"]) == (fence_id, override_id)
    assert document("override", "lift", override_id)["state"] == "lifted"
    assert document("lift", fence_id, "--reason", "done")["state"] == "lifted"
    assert document("status") == {"armed": [], "waiting": []}
    assert {entry["via"] for entry in audit_entries() if entry["ref_kind"] == "admission_fence"} == {"command"}


def test_command__speaks_to_people_too(delia: str):
    assert "No fence is armed." in fence("status").out
    dry = fence("arm", "demo", *WHY, "--dry-run").out
    assert "would stop contact" in dry or "would stop deal" in dry
    assert rows_of(FENCES) == []
    said = fence("arm", "demo", *WHY, "--scope", "deal.created").out
    (armed,) = reads.list_armed()
    assert f"armed: {armed.fence_id}  demo  deal.created  until it is lifted" in said
    assert "was armed already" in fence("arm", "demo", *WHY, "--scope", "deal.created").out
    assert "lets through: " in fence("override", "grant", armed.fence_id, "--scope", "*", *WHY).out
    status = fence("status").out
    for part in (armed.fence_id, "by delia: Stages are renamed", "lets through", "demo: no receipt waits"):
        assert part in status
    assert "stopped again: *" in fence("override", "lift", reads.list_armed()[0].overrides[0].override_id).out
    assert f"lifted {armed.fence_id}" in fence("lift", armed.fence_id).out


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("arm", "demo", "--reason", " "), 2, "invalid_input"),
        (("arm", "demo", *WHY, "--scope", "deal.*"), 2, "invalid_input"),
        (("arm", "demo", *WHY, "--expires-in", "soon"), 2, "invalid_input"),
        (("arm", "demo", *WHY, "--expires-in", "0"), 2, "invalid_input"),
        (("arm", "nowhere", *WHY), 4, "not_found"),
        (("arm", "nowhere", *WHY, "--dry-run"), 4, "not_found"),
        (("status", "--namespace", "nowhere"), 4, "not_found"),
        (("lift", new_id()), 4, "not_found"),
        (("lift", "\u00e9"), 4, "not_found"),
        (("override", "grant", new_id(), "--scope", "*", *WHY), 4, "not_found"),
        (("override", "lift", new_id()), 4, "not_found"),
        (("arm", "demo\udcff", *WHY), 2, "invalid_input"),
    ],
)
def test_command__ends_with_the_code_of_what_is_wrong(delia: str, arguments: tuple[str, ...], code: int, error: str):
    assert document(*arguments, code=code)["error"] == error
    assert error in fence(*arguments).err
    assert rows_of(FENCES) == []


def test_command__refuses_to_lift_twice(delia: str):
    fence_id = document("arm", "demo", *WHY)["fence"]["fence_id"]
    assert fence("lift", fence_id).code == 0
    refused = document("lift", fence_id, code=3)
    assert (refused["error"], refused["fence_id"], refused["state"]) == ("fence_not_armed", fence_id, "lifted")


def test_command__needs_the_right_that_each_verb_names(delia: str):
    for name, group in (("vera", "Viewer"), ("rolf", "Replayer"), ("ida", "Auditor")):
        User.objects.create_user(name).groups.set(Group.objects.filter(name=group))
    before = rows_of(FENCES)
    writes = [
        ("arm", "demo", *WHY),
        ("arm", "demo", *WHY, "--dry-run"),
        ("lift", new_id()),
        ("override", "grant", new_id(), "--scope", "*", *WHY),
        ("override", "lift", new_id()),
    ]
    for who in ("vera", "rolf", "ida", "nobody"):
        assert [fence(*write, who=who).code for write in writes] == [5] * len(writes)
        assert fence("status", who=who).code == (0 if who in {"vera", "rolf"} else 5)
    assert rows_of(FENCES) == before
