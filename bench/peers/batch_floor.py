"""The floor for batches: a hundred rows a claim and a completion. `python -m bench.peers.batch_floor`.

Two commits for each hundred rows. It has no lease that anyone renews, no attempt row, no lane and no retry; what
it keeps is that a row counts as done only where its own token and epoch still hold.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys
from typing import Any

import MySQLdb

from bench.addresses import connect

BATCH = 100
_TRIES = 20
CANDIDATES = "SELECT id FROM floor_item WHERE state = 'ready' AND run_after <= UTC_TIMESTAMP(6) AND epoch = 0 LIMIT 800"
CLAIM = """UPDATE floor_item SET state = 'running', epoch = epoch + 1, token = %s,
 lease_until = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE id IN %s AND state = 'ready' AND epoch = 0"""
WON = "SELECT id, payload FROM floor_item WHERE id IN %s AND token = %s"
COMPLETE = """UPDATE floor_item SET state = 'done', token = NULL, lease_until = NULL
 WHERE id IN %s AND state = 'running' AND token = %s AND epoch = 1"""


def main() -> None:
    """Claim and complete until told to stop."""
    cursor = connect(os.environ["PEER_URL"]).cursor()
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    # What was tried before the signal does not count.
    anew: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: anew.append(1))
    print("up", flush=True)
    won = lost = 0
    while not stop:
        if anew:
            anew.clear()
            won = lost = 0
        cursor.execute(CANDIDATES)
        found = [row[0] for row in cursor.fetchall()]
        wanted = sorted(random.sample(found, min(BATCH, len(found))))
        if not wanted:
            continue
        token = secrets.token_urlsafe(24)
        claimed = _again(cursor, CLAIM, (token, wanted))
        lost += len(wanted) - claimed
        if not claimed:
            continue
        cursor.execute(WON, (wanted, token))
        mine = [row[0] for row in cursor.fetchall()]
        if _again(cursor, COMPLETE, (mine, token)) != len(mine):
            message = "a row that was claimed was taken"
            raise RuntimeError(message)
        won += len(mine)
    print(f'{{"won": {won}, "lost": {lost}}}', flush=True)
    sys.exit(0)


def _again(cursor: Any, sql: str, params: tuple[object, ...]) -> int:
    """Run one autocommitted statement, and once more after a deadlock or a write conflict."""
    for _ in range(_TRIES):
        try:
            return int(cursor.execute(sql, params))
        except MySQLdb.OperationalError as error:
            if error.args[0] not in {1205, 1213, 9007}:
                raise
    message = "the claim met a conflict each time"
    raise RuntimeError(message)


if __name__ == "__main__":
    main()
