"""R6, linearizability: what clients were told about claims, ends and reaps fits one order of events an item.

Clients log when they called and when they were answered; a proxy loses some answers of COMMIT meanwhile. The checker
is porcupine, with a model of one item: its state, its epoch, its token (`linearize/main.go`).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from django.db import DatabaseError, InterfaceError

from batteries import database, hook, kernel
from batteries.database import Ground
from batteries.figures import ROOT, Figures
from batteries.forking import BatteryBroken, Gate, race
from batteries.r4_commits import behind_proxy
from integration import errors
from integration.storage import db
from integration.work.claim import Claim
from tests.support import cleaning
from tests.support.work import Pack, query

CLIENTS = 8
ITEMS = 24
CUT_RATE = 0.02
SOURCE = Path(__file__).parent / "linearize"
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


def checker() -> Path:
    """Return the built checker."""
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCE.iterdir()))).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    binary = cache / "lockhouse" / "linearize" / key / "linearize"
    if not binary.is_file():
        go = shutil.which("go") or str(ROOT / ".cache" / "toolchains" / "bin" / "go")
        binary.parent.mkdir(parents=True, exist_ok=True)
        draft = binary.with_suffix(f".{os.getpid()}")
        made = subprocess.run(
            [go, "build", "-mod=readonly", "-o", str(draft), "."],
            cwd=SOURCE,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise BatteryBroken(made.stderr)
        draft.rename(binary)
    return binary


def admit() -> list[str]:
    """Admit the items of a history; return their ids."""
    return Pack().admit(ITEMS, MaxAttempts=100_000)


def check(
    ground: Ground,
    figures: Figures,
    *,
    histories: int,
    steps: int,
    admit: Callable[[], list[str]] = admit,
    client_class: type[Client] = Client,
) -> Counter[str]:
    """Make histories and check each.

    Args:
        ground: Where.
        figures: Gets the figures, and that every history is linearizable.
        histories: How many.
        steps: Operations of each client in each.
        admit: Puts the items in place.
        client_class: What the clients do.

    Returns:
        How often each kind of operation was accepted and refused.
    """
    verdicts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    unknown = operations = dropped = ambiguous = 0
    seconds = 0.0
    for number in range(histories):
        cleaning.empty_database()
        items = admit()
        seed = ground.seed * 1000 + number
        files = [ground.folder / f"history-{seed}-{client}" for client in range(CLIENTS)]
        shared = {"items": items, "steps": steps, "mutant": ground.mutant, "client_class": client_class}
        with behind_proxy(ground, seed, ground.folder / f"sites-{seed}", rate=CUT_RATE) as url:
            told = race(
                ground.folder,
                act,
                [
                    {
                        "url": url,
                        "number": client,
                        "seed": seed * 100 + client,
                        "file": str(files[client]),
                        **shared,
                    }
                    for client in range(CLIENTS)
                ],
            )
        dropped += sum(one["dropped"] for one in told)
        ambiguous += sum(one["ambiguous"] for one in told)
        lines = [line for file in files for line in file.read_text().splitlines()]
        at = time.monotonic_ns()
        for row in query(READ_ALL):
            entry = {"client": CLIENTS, "kind": "read", "item": row["WorkId"], "call": at, "return": at + 1}
            lines.append(json.dumps({**entry, **facts_of(row)}))
        for line in lines:
            entry = json.loads(line)
            kinds[f"{entry['kind']} {'ok' if entry['ok'] else entry.get('code') or 'refused'}"] += 1
        verdict = json.loads(
            subprocess.run([str(checker())], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
        )
        verdicts[verdict["verdict"]] += 1
        unknown += verdict["unknown"]
        operations += verdict["operations"]
        seconds += verdict["seconds"]
    cleaning.empty_database()
    figures.note(
        histories=histories,
        clients=CLIENTS,
        items_per_history=ITEMS,
        operations=operations,
        by_kind=dict(sorted(kinds.items())),
        verdicts=dict(verdicts),
        unknown_operations=unknown,
        unknown_percent=round(100 * unknown / max(operations, 1), 2),
        refused_after_a_lost_answer=ambiguous,
        not_counted_because_surely_not_stored=dropped,
        checker_seconds=round(seconds, 2),
        checker="porcupine v1.3.1",
    )
    figures.demand("every history is linearizable", set(verdicts) == {"Ok"})
    return kinds


def run(ground: Ground, figures: Figures) -> None:
    """Check histories of claims, ends, reaps and reads."""
    histories, steps = ground.pick((2, 60), (5, 250), (100, 625))
    kinds = check(ground, figures, histories=histories, steps=steps)
    figures.demand(
        "stale writes were among them, and refused",
        ground.mutant or kinds["complete refused"] + kinds["retry refused"] > 0,
    )
