"""What the processes of the access tests run; a mutant takes a guard away in its own process alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db.models import QuerySet

from console import factors
from console.access import managers, service
from console.access.managers import LastManager, keeping_a_manager
from console.models import User
from integration.values import Actor
from tests.support.access import acting
from tests.support.meetings import await_file, await_lock, hold_until_waited_for


def close(name: str, folder: str, *, is_first: bool) -> str:
    """Close an account; the first holds its transaction until the second waits for it."""
    if not is_first:
        await_lock(Path(folder))
    try:
        with keeping_a_manager():
            User.objects.filter(username=name).update(is_active=False)
            if is_first:
                hold_until_waited_for(Path(folder), "auth_permission")
    except LastManager:
        return "refused"
    return "closed"


def close_unlocked(name: str, other: str, folder: str) -> str:
    """Close an account without waiting for anybody: both look before either commits."""
    found = managers.managers
    looks = []

    class Met:
        """Whether a manager is left, told to both sides before either goes on."""

        def exists(self) -> bool:
            answer = found().exists()
            looks.append(answer)
            if len(looks) == 2:
                (Path(folder) / name).touch()
                await_file(Path(folder) / other)
            return answer

    managers.lock_right = lambda: None
    managers.managers = Met  # type: ignore[assignment]
    try:
        with keeping_a_manager():
            User.objects.filter(username=name).update(is_active=False)
    except LastManager:
        return "refused"
    return "closed"


def confirm(grant_id: str, name: str, folder: str, *, is_first: bool, is_guarded: bool = True) -> str:
    """Confirm a grant; the first holds its transaction until the second waits for the grant's row."""
    if not is_guarded:
        narrow = QuerySet.filter

        def unguarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            kwargs.pop("confirmed_at__isnull", None)
            return narrow(self, *args, **kwargs)

        QuerySet.filter = unguarded  # type: ignore[method-assign]
    actor = acting(User.objects.get(username=name))
    if is_first:
        _hold_before_the_entry(service, folder, "console_scopegrant")
    else:
        await_lock(Path(folder))
    try:
        service.confirm(grant_id, actor=actor)
    except service.GrantOver:
        return "over"
    return "confirmed"


def use_recovery_code(user_id: int, code: str, folder: str, *, is_first: bool, is_guarded: bool = True) -> bool:
    """Sign in by a recovery code; the first holds its transaction until the second waits for the code's row."""
    if not is_guarded:
        delete = QuerySet.delete

        def look_first(self: QuerySet[Any]) -> tuple[int, dict[str, int]]:
            was_there = self.exists()
            delete(self)
            return int(was_there), {}

        QuerySet.delete = look_first  # type: ignore[method-assign]
    if is_first:
        _hold_before_the_entry(factors, folder, "console_recoverycode")
    else:
        await_lock(Path(folder))
    return factors.accept(user_id, code, actor=Actor(user_id=user_id, name="agnes", via="console"))


def _hold_before_the_entry(module: Any, folder: str, table: str) -> None:
    """Let a module write its entry of the trail, the last thing of its transaction, once the other waits for a row."""
    record = module.record_in

    def hold(*args: Any) -> Any:
        hold_until_waited_for(Path(folder), table)
        return record(*args)

    module.record_in = hold
