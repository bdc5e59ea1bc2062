"""What the processes of the API's races run; a mutant takes away a guard in its own process only."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.test import Client

from integration.callers import kept, tokens
from integration.callers.policy import TooManyRequests


def replay(secret: str, ref: str, key: str, reason: str, *, kept_answers: bool = True) -> dict[str, Any]:
    """Send a replay by a token; return what was answered."""
    if not kept_answers:
        kept.begin = lambda key, request, using="default": kept.Claim(key=key, claim="nobody's")  # type: ignore[assignment]
    response = Client().post(
        f"/api/v1/connector-events/{ref}/replay",
        {"reason": reason},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}", "Idempotency-Key": key},
    )
    return {"status": response.status_code, "body": response.json()}


def ask(secret: str, times: int, at_once: int, *, counted: bool = True) -> int:
    """Ask as often as that; return how often the token was let in."""
    if not counted:
        # As a limit that is read first and written afterwards: nothing is added up between processes.
        tokens.db = type("Uncounted", (), {"read": tokens.db.read, "execute_alone": lambda *_, **__: 1})
    let_in = 0
    for _ in range(times):
        try:
            tokens.admit(secret, per_minute=1, at_once=at_once)
        except TooManyRequests:
            continue
        let_in += 1
    connection.close()
    return let_in
