"""The floor: claim and complete as two bare compare-and-swaps, nothing else. `python -m bench.peers.floor`.

It has no lease that anyone renews, no attempt row, no fence, no lane and no retry: it is what the two commits
cost through the driver.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys

from bench.addresses import connect

TABLE = """CREATE TABLE IF NOT EXISTS floor_item (
  id BIGINT PRIMARY KEY AUTO_INCREMENT, state VARCHAR(16) NOT NULL, run_after DATETIME(6) NOT NULL,
  epoch BIGINT NOT NULL DEFAULT 0, token VARCHAR(64) NULL, lease_until DATETIME(6) NULL, payload LONGBLOB NOT NULL,
  KEY ready (state, run_after, id))"""
CANDIDATES = "SELECT id, epoch FROM floor_item WHERE state = 'ready' AND run_after <= UTC_TIMESTAMP(6) LIMIT 64"
CLAIM = """UPDATE floor_item SET state = 'running', epoch = epoch + 1, token = %s,
 lease_until = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE id = %s AND state = 'ready' AND epoch = %s"""
COMPLETE = """UPDATE floor_item SET state = 'done', token = NULL, lease_until = NULL
 WHERE id = %s AND state = 'running' AND token = %s AND epoch = %s"""


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
        found = list(cursor.fetchall())
        random.shuffle(found)
        for item, epoch in found[:32]:
            token = secrets.token_urlsafe(24)
            if cursor.execute(CLAIM, (token, item, epoch)) != 1:
                lost += 1
                continue
            won += cursor.execute(COMPLETE, (item, token, epoch + 1))
            if stop:
                break
    print(f'{{"won": {won}, "lost": {lost}}}', flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
