"""`manage.py dlq` under the rights of the operator it names, and what it keeps from every operator."""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import Permission

from console.models import AuditEntry, User
from integration.authority.values import REPLAY_PERMISSION, VIEW_PERMISSION, Ref
from tests.support.authority import World, system_rows
from tests.support.commands import Ended
from tests.support.dlq import ACTIONS, FORMS, children, dlq, operator
from tests.support.rows import CANARIES, Installation

pytestmark = pytest.mark.django_db


@pytest.mark.evidence("A-32")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("action", ACTIONS)
def test_rights__of_the_named_operator_count_at_that_moment(action: str, form: tuple[str, ...]):
    world = World()
    ref = world.work()
    operator("nadia")
    operator("ida", "Auditor")
    operator("gone", "Replayer", is_active=False)
    User.objects.create_superuser("root", is_active=False)
    before = system_rows()
    for name in ("nadia", "ida", "gone", "root", "nobody", "", "' OR 1=1 --", "x" * 10_000, "rolf\x00", "\U0001f600"):
        ended = dlq(action, name, ref, *form)
        assert (name, ended.code) == (name, 5)
        assert "permission_denied" in ended.said
        assert world.namespace not in ended.said
        if form:
            assert ended.err == ""
            assert ended.document != {}
    assert system_rows() == before


@pytest.mark.evidence("A-32")
def test_rights__to_view_are_not_rights_to_replay_nor_the_other_way():
    world = World()
    ref = world.work()
    viewer, both = operator("vera", "Viewer"), operator("rolf", "Replayer")
    blind = operator("bruno")
    replay_key = REPLAY_PERMISSION.split(".")[1]
    User.objects.get(username=blind).user_permissions.add(Permission.objects.get(codename=replay_key))
    before = system_rows()
    found = {name: [dlq(action, name, ref).code for action in ACTIONS] for name in (viewer, blind)}
    assert found == {viewer: [0, 0, 5, 5, 5], blind: [5, 5, 5, 5, 5]}
    assert system_rows() == before
    assert "NO  permission_denied: " in dlq("plan", viewer, ref).out
    assert [dlq(action, both, ref).code for action in ("list", "show", "plan", "replay --dry-run", "replay")] == [0] * 5


@pytest.mark.evidence("A-32")
def test_rights__that_were_taken_away_are_gone_at_the_next_call():
    world, name = World(), operator("rolf", "Replayer")
    ref = world.work()
    assert dlq("plan", name, ref).code == 0
    User.objects.get(username=name).groups.clear()
    assert [dlq(action, name, ref).code for action in ACTIONS] == [5] * 5
    assert children() == []


@pytest.mark.evidence("A-32")
def test_rights__are_asked_for_before_the_row_is_looked_up():
    World().work()
    for ref in (uuid.uuid4(), Ref.parse(f"event:{uuid.uuid4()}")):
        assert [dlq(action, operator(f"nadia-{ref}"[:20] + action[-3:]), ref).code for action in ACTIONS] == [5] * 5


def test_view_permission__is_the_one_that_the_groups_carry():
    name = operator("vera", "Viewer")
    user = User.objects.get(username=name)
    assert (user.has_perm(VIEW_PERMISSION), user.has_perm(REPLAY_PERMISSION)) == (True, False)


@pytest.mark.evidence("A-31")
def test_canaries__no_action_prints_what_an_operator_must_not_see():
    installation, name = Installation(), operator("rolf", "Replayer")
    stranger = operator("nadia")
    dead, replayed, gone = installation.work(), installation.work(), installation.work("succeeded")
    running = installation.work("processing", Attempt=2)
    installation.worker()
    installation.fence()
    installation.fence("*")
    found: list[tuple[str, str]] = []
    codes = set()

    def look(where: str, ended: Ended) -> None:
        codes.add(ended.code)
        assert ended.said != "", where
        found.extend((where, canary) for canary, text in CANARIES.items() if text in ended.said)

    for form in FORMS:
        look("replay", dlq("replay", name, replayed, *form))
        for ref in (dead, replayed, gone, running, uuid.uuid4(), "nonsense"):
            for action in ("show", "plan", "replay --dry-run"):
                look(f"{action} {ref}", dlq(action, name, ref, *form))
                look(f"{action} {ref}", dlq(action, stranger, ref, *form))
        for ref in (gone, running):
            look("refused", dlq("replay", name, ref, *form))
        for options in (("--count",), ("--replayed", "yes"), ("--limit", "1"), ("--search", dead), ("--limit", "0")):
            look(f"list {options}", dlq("list", name, "", *options, *form))
    assert codes == {0, 2, 3, 4, 5}
    assert [] == found
    for entry in AuditEntry.objects.all():
        assert [] == [canary for canary, text in CANARIES.items() if text in f"{entry.reason} {entry.facts}"]


@pytest.mark.evidence("A-31")
def test_canaries__of_an_event_that_owns_its_work_stay_inside_too():
    world, name = World(), operator("rolf", "Replayer")
    ref = world.legacy(ClaimToken=CANARIES["claim_token"], ClaimedBy=CANARIES["claimed_by"])
    said = "".join(dlq(action, name, ref, *form).said for action in ACTIONS for form in FORMS)
    assert ref.id in said
    secrets = [CANARIES["claim_token"], CANARIES["claimed_by"], "canary-last-error", '"stage"']
    assert [] == [text for text in secrets if text in said]
