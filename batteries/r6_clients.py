"""The clients of R6: each does one thing after the other, and logs when it called and what it was told.

What a model of one item must explain is in `linearize/main.go`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from django.db import DatabaseError, InterfaceError

from batteries import database, hook, kernel
from batteries.forking import Gate
from integration import errors
from integration.storage import db
from integration.work.claim import Claim
from tests.support.work import query

#: How many items a history begins with.
ITEMS = 24
_ROWS = """
    SELECT w.WorkId, w.State, w.OwnershipEpoch, w.LeaseToken, w.ReplayedAt, GROUP_CONCAT(c.WorkId) AS Children
      FROM _System_ConnectorWorkItem w LEFT JOIN _System_ConnectorWorkItem c ON c.ReplayOfWorkId = w.WorkId
     {where}
     GROUP BY w.WorkId, w.State, w.OwnershipEpoch, w.LeaseToken, w.ReplayedAt
"""
READ = _ROWS.format(where="WHERE w.WorkId = %s")
READ_ALL = _ROWS.format(where="")
STATES = {"pending": "ready", "retry": "ready", "processing": "processing", "dead": "dead"}
#: Taking a lease back, and the state in which it leaves the item.
REAPS = {"REAP_WORK_ITEM": "ready", "REAP_EXHAUSTED_WORK_ITEM": "dead"}
#: Ends of claimed rows without token and epoch.
UNGUARDED = hook.Rewrite(
    r"(COMPLETE|RETRY)_WORK_ITEMS?",
    r"AND LeaseToken = %\(lease_token\)s\s+AND OwnershipEpoch = %\(epoch\)s",
)


class Tokens(hook.Observer):
    """Remembers the token that a claim wanted to install, the child that a replay wanted, and what reaps matched."""

    def __init__(self) -> None:
        self.wanted = ""
        self.child = ""
        self.answer_was_lost = False
        self.reaps: dict[str, tuple[str, str, int, bool]] = {}
        self.last_reaped = ""

    def before(self, text: str, params: Any, wrapper: Any) -> None:
        name = hook.name_of(text)
        if name in {"FIRST_CLAIM", "LATER_CLAIM"}:
            self.wanted = params["lease_token"]
        if name in REAPS:
            self.last_reaped = params["work_id"]
            self.reaps[self.last_reaped] = (name, params["lease_token"], params["epoch"], False)
        if name == "INSERT_REPLAY_WORK_ITEM":
            self.child = params["work_id"]

    def after(self, text: str, params: Any, count: int) -> None:
        name = hook.name_of(text)
        if name in REAPS:
            self.reaps[params["work_id"]] = (name, params["lease_token"], params["epoch"], count == 1)

    def failed(self, text: str, error: Exception) -> bool:
        self.answer_was_lost = self.answer_was_lost or error.args[:1] in {(2006,), (2013,), (2055,)}
        return False


class Client:
    """One client of a history."""

    #: How often each way to end a claim is chosen.
    ends: Mapping[str, int] = MappingProxyType({"retry": 12, "renew": 4, "complete": 1, "complete_many": 1})

    def __init__(self, number: int, seed: int, tokens: Tokens) -> None:
        self._number = number
        self._chance = random.Random(seed)
        self._tokens = tokens
        self._process = kernel.register()
        self._held: list[Claim] = []
        self.history: list[dict[str, Any]] = []
        self.items: list[str] = []
        self.dropped = 0
        self.ambiguous = 0

    @staticmethod
    def take_guard_away() -> None:
        """Take away, in this process, what the mutant lacks."""
        hook.install(UNGUARDED)

    def acts(self) -> list[tuple[Callable[[], None], int]]:
        """Return what it does, and how often each."""
        return [(self.claim, 5), (self.end, 6), (self.reap, 2), (self.read, 2)]

    def _log(self, kind: str, item: str, *, call: int, back: int, is_settled: bool = False, **facts: Any) -> None:
        if self._tokens.answer_was_lost and not facts["ok"] and not is_settled:
            # What the server did was not answered, and what is there now is another's: the refusal says that this
            # claim is over, not that it never was.
            back = 0
            self.ambiguous += 1
        entry = {"client": self._number, "kind": kind, "item": item, "token": "", "call": call, "return": back}
        self.history.append({**entry, **facts})

    def step(self) -> None:
        """Do one thing."""
        self._tokens.answer_was_lost = False
        acts, weights = zip(*self.acts(), strict=True)
        try:
            self._chance.choices(acts, weights=weights)[0]()
        except (errors.IntegrationError, DatabaseError, InterfaceError):
            # A read that failed, or a write that was surely not stored: as if it had not been called.
            self.dropped += 1
            db.close_connections()

    def claim(self) -> None:
        batches = list(kernel.batches(kernel.candidates(self._process, ITEMS), self._chance.randint(1, 3)))
        if not batches:
            return
        batch = self._chance.choice(batches)
        self._tokens.wanted = ""
        call, back, won = time.monotonic_ns(), 0, {}
        try:
            won = {claim.work_id: claim for claim in kernel.claim(self._process, batch, lease_seconds=0)}
            back = time.monotonic_ns()
        except errors.CommitUnknown:
            db.close_connections()
        for item in batch:
            claim = won.get(item.work_id)
            token = claim.lease_token if claim else self._tokens.wanted
            facts = {"epoch": item.epoch, "token": token, "ok": claim is not None}
            self._log("claim", item.work_id, call=call, back=back, **facts)
        self._held += won.values()

    def end(self) -> None:
        if not self._held:
            return
        claim = self._held[self._chance.randrange(len(self._held))]
        name = self._chance.choices(list(self.ends), weights=list(self.ends.values()))[0]
        if name not in kernel.WRITES:
            name = "complete"
        call, back, accepted = time.monotonic_ns(), 0, False
        try:
            accepted = kernel.WRITES[name](claim)
            back = time.monotonic_ns()
        except errors.CommitUnknown:
            db.close_connections()
        facts = {"epoch": claim.epoch, "token": claim.lease_token, "ok": accepted}
        self._log(name.removesuffix("_many"), claim.work_id, call=call, back=back, **facts)
        # Dead claims are kept for a while: their writes are what must be refused. One that ended, or may have, is not
        # asked to end again: its claimant, and nobody else, may be told so twice.
        is_over = accepted or not back or self._tokens.answer_was_lost
        if name != "renew" and (is_over or self._chance.random() < 0.5):
            self._held.remove(claim)

    def reap(self) -> None:
        self._tokens.reaps.clear()
        call, is_known = time.monotonic_ns(), True
        try:
            kernel.reap_now(self._process)
        except errors.CommitUnknown:
            is_known = False
            db.close_connections()
        finally:
            back = time.monotonic_ns()
            for work_id, (name, token, epoch, matched) in self._tokens.reaps.items():
                is_open = not is_known and work_id == self._tokens.last_reaped
                facts = {"epoch": epoch, "token": token, "ok": matched, "state": REAPS[name]}
                self._log("reap", work_id, call=call, back=0 if is_open else back, **facts)

    def read(self) -> None:
        work_id = self._chance.choice(self.items)
        call = time.monotonic_ns()
        (row,) = query(READ, work_id)
        self._log("read", work_id, call=call, back=time.monotonic_ns(), **facts_of(row))


def facts_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return what the model knows of a row."""
    is_torn = (row["ReplayedAt"] is None) is not (row["Children"] is None)
    return {
        "epoch": row["OwnershipEpoch"],
        "token": row["LeaseToken"] or "",
        "state": STATES.get(row["State"], "done"),
        "child": "torn" if is_torn else row["Children"] or "",
        "ok": True,
    }


def act(
    *,
    start: Gate,
    url: str,
    number: int,
    seed: int,
    items: list[str],
    steps: int,
    mutant: bool,
    file: str,
    client_class: type[Client] = Client,
) -> dict[str, int]:
    """Be one client; write its history to a file."""
    database.use(url)
    tokens = Tokens()
    hook.install(tokens)
    if mutant:
        client_class.take_guard_away()
    for _ in range(20):
        try:
            client = client_class(number, seed, tokens)
            break
        except (errors.IntegrationError, DatabaseError):
            db.close_connections()
    client.items = items
    start.wait()
    while len(client.history) < steps and client.dropped < steps:
        client.step()
    with Path(file).open("w", encoding="ascii") as out:
        out.writelines(json.dumps(entry) + "\n" for entry in client.history)
    return {"operations": len(client.history), "dropped": client.dropped, "ambiguous": client.ambiguous}
