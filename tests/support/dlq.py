"""`manage.py dlq` for tests: who asks, every action, and what it made."""

from __future__ import annotations

from django.contrib.auth.models import Group

from console.models import User
from tests.support.authority import rows_of
from tests.support.commands import Ended, run

ACTIONS = ["list", "show", "plan", "replay", "replay --dry-run"]
FORMS = [(), ("--json",)]


def operator(name: str, *groups: str, is_active: bool = True) -> str:
    """Make an account in some groups; return its name."""
    user = User.objects.create_user(name, is_active=is_active)
    user.groups.set(Group.objects.filter(name__in=groups))
    assert user.groups.count() == len(groups)
    return name


def dlq(action: str, name: str, ref: object = "", *options: str) -> Ended:
    """Run an action as somebody; a replay has a reason unless it brings its own."""
    verb, *more = action.split()
    arguments = [] if verb == "list" else ["--", str(ref)]
    reason = ["--reason", "The stage exists now"] if verb == "replay" and "--reason" not in options else []
    return run("dlq", verb, "--as", name, *more, *reason, *options, *arguments)


def children() -> list[str]:
    """Return the WorkIds of every generation that a replay made."""
    return [row["WorkId"] for row in rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId IS NOT NULL")]
