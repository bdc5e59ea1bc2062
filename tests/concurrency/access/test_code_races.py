"""One recovery code given by two sign-ins at once, as real processes, lets one in; without the guard it lets in both."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from django_otp.oath import TOTP

from console import factors
from console.sign_in_models import RecoveryCode
from tests.concurrency.access import racers
from tests.support.access import account, acting
from tests.support.authority import audit_entries
from tests.support.processes import race

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]


@pytest.mark.parametrize("is_guarded", [True, False])
def test_recovery_code__lets_one_of_two_in_thanks_to_the_guard(is_guarded: bool, database_url: str, tmp_path: Path):
    user = account("agnes")
    secret = factors.begin(user)
    code, *others = factors.confirm(user, f"{TOTP(base64.b32decode(secret)).token():06}", actor=acting(user))
    sides = [
        {"user_id": user.pk, "code": code, "folder": str(tmp_path), "is_first": is_first, "is_guarded": is_guarded}
        for is_first in (True, False)
    ]
    let_in = race(f"{racers.__name__}:use_recovery_code", sides, database_url)
    used = [row for row in audit_entries() if row["action"] == "user.recovery_code_used"]
    assert len(others) == RecoveryCode.objects.filter(user=user).count()
    if is_guarded:
        assert [True, False] == let_in
        assert 1 == len(used)
    else:
        assert [True, True] == let_in
        assert 2 == len(used)
