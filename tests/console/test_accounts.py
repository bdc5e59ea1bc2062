"""Accounts: the groups that every installation has, the command that makes operators, changes in the trail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.test import Client

from console.models import AuditEntry, AuditImmutable, User
from console.permissions import GROUPS, REPLAY, VIEW
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.values import SYSTEM_ACTOR


@pytest.mark.django_db
def test_groups__exist_and_hold_their_permissions() -> None:
    for name, keys in GROUPS.items():
        held = {
            f"{permission.content_type.app_label}.{permission.codename}"
            for permission in Group.objects.get(name=name).permissions.select_related("content_type")
        }
        assert set(keys) == held


@pytest.mark.django_db
def test_create_operator__makes_one_and_changes_nothing_the_second_time(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("a-long-pass-phrase-7\n")
    for _ in range(2):
        call_command(
            "create_operator", username="operator", password_file=secret, group=["Replayer", "Auditor"], verbosity=0
        )
    user = User.objects.get(username="operator")
    assert user.check_password("a-long-pass-phrase-7")
    assert user.has_perm(VIEW)
    assert user.has_perm(REPLAY)
    assert user.has_perm("integration.view_audit")
    assert 1 == User.objects.count()


@pytest.mark.django_db
def test_create_operator__names_what_is_wrong(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("create_operator", username="x", password_file=secret)
    secret.write_text("\n")
    with pytest.raises(CommandError, match="is empty"):
        call_command("create_operator", username="x", password_file=secret)
    secret.write_text("a-long-pass-phrase-7\n")
    with pytest.raises(CommandError, match="No such group: Kings"):
        call_command("create_operator", username="x", password_file=secret, group=["Kings"])
    assert 0 == User.objects.count()


@pytest.mark.django_db(transaction=True)
def test_accounts__a_change_in_the_admin_is_told_with_who_made_it() -> None:
    admin = User.objects.create_superuser("root", password="x-long-enough-1")
    other = User.objects.create_user("vera", password="x-long-enough-1")
    AuditEntry.objects.all()
    client = Client()
    client.force_login(admin)
    form = {
        "username": "vera",
        "is_staff": "on",
        "is_active": "on",
        "groups": [str(Group.objects.get(name="Viewer").pk)],
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
    }
    response = client.post(f"/admin/console/user/{other.pk}/change/", form)
    assert 302 == response.status_code
    told = {
        entry.action: (entry.actor_name, json.loads(entry.facts))
        for entry in AuditEntry.objects.filter(ref_id=str(other.pk), actor_name="root")
    }
    assert {"is_staff": {"before": False, "after": True}} == told["user.changed"][1]["changed"]
    assert ["Viewer"] == told["user.rights_changed"][1]["names"]


@pytest.mark.django_db(transaction=True)
def test_audit__an_entry_cannot_be_changed_or_removed() -> None:
    record_alone(AuditFact(action="x.done", outcome=AuditOutcome.DONE, actor=SYSTEM_ACTOR, ref_kind="user", ref_id="1"))
    entry = AuditEntry.objects.get()
    entry.reason = "rewritten"
    attempts: list[Any] = [
        entry.save,
        entry.delete,
        AuditEntry.objects.all().delete,
        lambda: AuditEntry.objects.update(reason="rewritten"),
        lambda: AuditEntry.objects.bulk_update([entry], ["reason"]),
    ]
    for attempt in attempts:
        with pytest.raises(AuditImmutable):
            attempt()
    assert "" == AuditEntry.objects.get().reason


@pytest.fixture
def manager() -> User:
    """Return an account of the group Admin: manages accounts, and is no superuser."""
    user = User.objects.create_user("mia", password="x-long-enough-1", is_staff=True)
    user.groups.add(Group.objects.get(name="Admin"))
    return user


def form_of(user: User, **changes: Any) -> dict[str, Any]:
    return {
        "username": user.username,
        "is_active": "on",
        "date_joined_0": "2026-11-29",
        "date_joined_1": "12:00:00",
        **changes,
    }


@pytest.mark.django_db
@pytest.mark.evidence("A-32")
def test_admin__does_not_let_a_manager_make_a_superuser(client: Client, manager: User) -> None:
    other = User.objects.create_user("bob")
    client.force_login(manager)
    changes = {"is_superuser": "on", "is_staff": "on", "user_permissions": ["1"]}
    response = client.post(f"/admin/console/user/{other.pk}/change/", form_of(other, **changes))
    other.refresh_from_db()
    assert response.status_code == 302
    assert (other.is_staff, other.is_superuser, other.user_permissions.count()) == (True, False, 0)


@pytest.mark.django_db
@pytest.mark.evidence("A-32")
@pytest.mark.parametrize("whose", ["own", "superuser"])
@pytest.mark.parametrize("page", ["change/", "password/", "delete/"])
def test_admin__keeps_own_and_superusers_accounts_from_a_manager(
    client: Client, manager: User, whose: str, page: str
) -> None:
    account = manager if whose == "own" else User.objects.create_superuser("root", password="x-long-enough-1")
    client.force_login(manager)
    before = User.objects.filter(pk=account.pk).values().get()
    form = form_of(account, is_superuser="on", password1="another-long-1", password2="another-long-1", post="yes")
    assert client.post(f"/admin/console/user/{account.pk}/{page}", form).status_code == 403
    after = User.objects.filter(pk=account.pk).values().get()
    assert before == after


@pytest.mark.django_db
@pytest.mark.evidence("A-32")
def test_admin__does_not_let_a_manager_add_rights_to_an_own_group(client: Client, manager: User) -> None:
    group = Group.objects.get(name="Admin")
    client.force_login(manager)
    held = set(group.permissions.values_list("pk", flat=True))
    response = client.post(f"/admin/auth/group/{group.pk}/change/", {"name": "Admin", "permissions": ["1"]})
    assert response.status_code == 403
    assert set(group.permissions.values_list("pk", flat=True)) == held


@pytest.mark.django_db
def test_groups__keep_what_an_administrator_took_away() -> None:
    Group.objects.get(name="Replayer").permissions.clear()
    call_command("migrate", verbosity=0)
    assert Group.objects.get(name="Replayer").permissions.count() == 0


@pytest.mark.parametrize(
    ("groups", "is_staff", "words", "leads"),
    [
        ((), False, "holds no permission yet", False),
        (("Viewer",), True, "may view", False),
        (("Replayer",), False, "may view and replay", False),
        (("Auditor",), True, "may read the audit", False),
        (("Replayer", "Auditor"), False, "may view, replay and read the audit", False),
        (("Admin",), False, "may view, replay, run cutovers and read the audit", False),
        (("Admin",), True, "may view, replay, run cutovers, read the audit and keep accounts", True),
    ],
)
@pytest.mark.django_db
def test_rail__says_what_the_operator_may_do_and_leads_nowhere_else(
    groups: tuple[str, ...], is_staff: bool, words: str, leads: bool, signed_in: Callable[..., Client]
) -> None:
    client = signed_in("nora", *groups)
    User.objects.filter(username="nora").update(is_staff=is_staff)
    text = client.get("/").content.decode()
    assert f'<span class="two">{words}</span>' in text
    assert ('<a href="/admin/">Accounts</a>' in text) == leads
