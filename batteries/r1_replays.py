"""R1 for replay: SIGKILL at every statement, COMMIT and failpoint of a replay of each kind, and of a bulk replay.

Right after the kill the database holds the whole replay or nothing of it; then the request is made again, by its name
and without one, and there is one child, of which both are told.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from batteries import database
from batteries.books import Row
from batteries.database import Ground
from batteries.figures import ROOT, Figures
from batteries.r1_kills import NAMED, attack
from batteries.replayed import ITEMS, KINDS, Kind, Original, told
from batteries.scenarios import Prepared, Scenario, paths
from integration.audit.reads import verify_chain
from integration.authority import service
from integration.batches.reads import get_batch
from integration.batches.runner import Runner
from integration.batches.values import Batch, ItemOutcome, Totals
from integration.storage.schema import Vintage
from integration.values import Actor
from tests.support.authority import MARIA, World, audit_entries, change, rows_of
from tests.support.batches import batch_of, children_by_original, ledger, replayer

_COMMIT = "COMMIT(INSERT_AUDIT_ENTRY)"
BULK_ROWS = 3


def note(prepared: Prepared, answer: dict[str, Any]) -> None:
    """Keep what a caller was told."""
    with prepared.acked.open("a", encoding="ascii") as file:
        file.write(json.dumps(answer) + "\n")


def answers(prepared: Prepared) -> list[dict[str, Any]]:
    """Return what callers were told, in order."""
    return [json.loads(line) for line in prepared.acked.read_text().splitlines()] if prepared.acked.exists() else []


class Replay(Scenario):
    """One replay of one dead row."""

    is_repeatable = True
    telling = re.compile(rf"^replay\.|{re.escape(_COMMIT)}$")

    def __init__(self, kind: Kind) -> None:
        self.name = f"replay {kind.name}"
        # The steps are the same for all: of the others the shortest form kills at some.
        self.few = (20, 1) if kind is KINDS[0] else (1, 1)
        self._kind = kind
        self._original: Original

    @contextlib.contextmanager
    def around(self, ground: Ground) -> Iterator[None]:
        if self._kind.vintage is Vintage.CURRENT:
            yield
            return
        with database.of_vintage(ground, self._kind.vintage):
            yield

    def empty(self) -> None:
        if self._kind.vintage is Vintage.CURRENT:
            super().empty()
        else:
            database.empty_every_table()

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        self._original = Original.make(self._kind)
        return Prepared({}, [], record, acked)

    def _ask(self, prepared: Prepared, key: str | None) -> None:
        outcome = service.replay(self._original.ref, actor=MARIA, reason="R1", idempotency_key=key)
        note(prepared, {**told(outcome), "key": key})

    def act(self, prepared: Prepared, seed: int) -> None:
        self._ask(prepared, f"kill {seed}")

    def recover(self, prepared: Prepared, seed: int) -> None:
        self._ask(prepared, f"kill {seed}")
        self._ask(prepared, None)

    def items(self) -> dict[str, Row]:
        return {}

    def expire_leases(self) -> None:
        """Nobody holds a lease."""

    def torn(self, prepared: Prepared, place: str) -> list[str]:
        is_stored, wrong = self._original.faults()
        if is_stored and place == f"before:{_COMMIT}":
            wrong.append("stored before its COMMIT")
        if not is_stored and place in {f"after:{_COMMIT}", "replay.after_commit"}:
            wrong.append("not stored by its COMMIT")
        return wrong

    def lost(self, prepared: Prepared) -> list[str]:
        is_stored, wrong = self._original.faults()
        if not is_stored or wrong:
            return wrong or ["no child"]
        child = self._original.child()
        given = answers(prepared)
        wrong += [f"told {one}" for one in given if (one["event"], one["item"]) != child]
        wrong += [f"told {one}" for one in given if one["key"] is not None and one["outcome"] != "replayed"]
        unnamed = [one for one in given if one["key"] is None]
        wrong += [f"told {one}" for one in unnamed if (one["outcome"], one["winner"]) != ("already_replayed", "maria")]
        outcomes = Counter(entry["outcome"] for entry in audit_entries())
        if outcomes != Counter(done=1, refused=len(unnamed)):
            wrong.append(f"audit entries {dict(outcomes)}")
        return wrong

    def twice(self, prepared: Prepared, before: Mapping[str, Row], after: Mapping[str, Row]) -> list[str]:
        children = rows_of("_System_ConnectorEvent", "ReplayOfEventId IS NOT NULL")
        return [row["EventId"] for row in children[1:]]

    def crooked(self, after: Mapping[str, Row]) -> list[str]:
        return [str(one) for one in verify_chain().breaks]


class BulkStep(Scenario):
    """A bulk replay by its runner: one row after the other, each noted in the ledger."""

    name = "bulk replay"
    telling = re.compile(r"^batch\.")
    few = (2, 2)

    def __init__(self) -> None:
        self._batch: Batch
        self._actor: Actor

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        self._actor, world = replayer(), World()
        for _ in range(BULK_ROWS):
            world.work()
        self._batch = batch_of(self._actor)
        return Prepared({}, [], record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        runner = Runner()
        while not runner.is_idle():
            runner.round()

    def items(self) -> dict[str, Row]:
        return {}

    def expire_leases(self) -> None:
        change("UPDATE console_replaybatch SET lease_until = UTC_TIMESTAMP(6) - INTERVAL 60 SECOND")

    def torn(self, prepared: Prepared, place: str) -> list[str]:
        children = children_by_original()
        done = Counter(
            entry["ref_id"]
            for entry in audit_entries()
            if (entry["action"], entry["outcome"]) == ("work_item.replayed", "done")
        )
        reserved = Counter(row["WorkId"] for row in rows_of(ITEMS, "ReplayedAt IS NOT NULL"))
        ended = [item for item in ledger(self._batch.id) if item["outcome"] != ItemOutcome.LEFT]
        stored = {row["ReplayOfWorkId"]: row["WorkId"] for row in rows_of(ITEMS, "ReplayOfWorkId IS NOT NULL")}
        wrong = [] if children == done == reserved else [f"{children} children, {done} entries, {reserved} reserved"]
        return wrong + [f"noted {one}" for one in ended if stored.get(one["ref_id"]) != one["child_work_id"]]

    def lost(self, prepared: Prepared) -> list[str]:
        after = get_batch(self._batch.id)
        wrong = [] if after.totals == Totals(replayed=BULK_ROWS) else [str(after.totals)]
        if after.state != "finished":
            wrong.append(str(after.state))
        ended = [entry for entry in audit_entries() if entry["action"] == "replay_batch.finished"]
        return [*wrong, *([] if len(ended) == 1 else [f"{len(ended)} ends in the trail"]), *self.torn(prepared, "")]

    def twice(self, prepared: Prepared, before: Mapping[str, Row], after: Mapping[str, Row]) -> list[str]:
        return [original for original, count in children_by_original().items() if count > 1]

    def crooked(self, after: Mapping[str, Row]) -> list[str]:
        return [str(one) for one in verify_chain().breaks]


SCENARIOS: tuple[Scenario, ...] = (*(Replay(kind) for kind in KINDS), BulkStep())


def run(ground: Ground, figures: Figures) -> None:
    """Kill everywhere in replays."""
    scenarios = SCENARIOS[:2] if ground.mutant else SCENARIOS
    tally = attack(ground, figures, scenarios, seeds=ground.pick(1, 1, 10))
    figures.note(half_done=tally.torn)
    figures.demand("right after the kill a replay is stored whole or not at all", tally.torn == 0)
    if ground.mutant:
        return
    named = {name for path in (ROOT / "integration").rglob("*.py") for name in NAMED.findall(path.read_text())}
    wanted = {name for name in named if name.startswith(("replay.", "batch."))}
    figures.demand(
        "every failpoint of replays and of bulk replays was killed at", bool(wanted) and wanted <= tally.killed
    )
