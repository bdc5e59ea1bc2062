"""One example: the database, the model beside it, who holds which claim, and what every action needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.test import Client
from hypothesis.stateful import RuleBasedStateMachine

from integration import errors
from integration.storage import db
from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim, claim_some
from integration.work.process import WorkerProcess, register_process
from tests.model import checks, faults
from tests.model.pack import document
from tests.model.shadow import Shadow
from tests.model.tally import tally
from tests.support import cleaning, webhooks

_elsewhere = ThreadPoolExecutor(1)


def close_elsewhere() -> None:
    """Close the other thread's connection."""
    _elsewhere.submit(db.close_connections).result()


@dataclass
class Worker:
    """A claimant with the candidates that it has read."""

    process: WorkerProcess
    queue: CandidateQueue

    @classmethod
    def start(cls) -> Worker:
        process = register_process(roles=frozenset({"claim", "reap"}), concurrency=8, build_version="model")
        return cls(process, CandidateQueue(process))


class World(RuleBasedStateMachine):
    """One database, two workers, operators, and what they did."""

    def __init__(self) -> None:
        super().__init__()
        self.shadow = Shadow()
        self.history = checks.History()
        self.packs = [str(webhooks.activate(document(0)))]
        self.workers = [Worker.start(), Worker.start()]
        self.claims: dict[str, Claim] = {}
        self.stale: list[Claim] = []
        self.client = Client()
        self.is_new = True
        self.told: list[str] = []
        tally.examples += 1

    def teardown(self) -> None:
        cleaning.empty_database()

    def _try(
        self,
        trouble: str,
        number: int,
        points: tuple[str, ...],
        act: Callable[[], Any],
        predict: Callable[[Shadow], Any],
    ) -> tuple[Any, bool]:
        """Do something that is stored whole or not at all.

        Returns:
            What it returned, None when it had trouble; and whether it is stored.
        """
        after = self.shadow.copy()
        predict(after)
        try:
            with faults.fault(trouble, number, points):
                result = act()
        except faults.Crash:
            tally.other["crashes"] += 1
            if checks.compare(after, checks.read(), self.packs):
                return None, False
            result = None
        except errors.CommitUnknown:
            tally.other["answers lost"] += 1
            result = None
        self.shadow = after
        return result, True

    def _observe(self, rows: checks.Rows, claims: list[Claim] | None) -> None:
        """Tell the model what was claimed and blocked, if it permits that; None: the claimant knows nothing."""
        self._adopt(rows)
        moved = []
        for item in self.shadow.items:
            state = rows.items[item.work_id]["State"]
            if state == item.state:
                continue
            if state == "blocked":
                is_right = item.is_due and self.shadow.is_head(item) and not self.shadow.is_met(item)
                assert item.state == "pending", f"blocked: {item}"
                assert is_right, f"blocked: {item}"
                item.state = "blocked"
                tally.made["block", "pending"] += 1
            else:
                assert state == "processing", f"a claim made {state} of {item}"
                moved.append(item)
        for item in moved:
            assert self.shadow.may_be_claimed(item), f"claimed: {item} of {self.shadow.items}"
            assert item.state == "retry" or self.shadow.is_met(item), f"claimed before its dependency: {item}"
            tally.made["claim", item.state] += 1
            self.shadow.claim(item)
        if claims is None:
            tally.other["claims that nobody knows"] += len(moved)
            return
        assert sorted(claim.work_id for claim in claims) == sorted(item.work_id for item in moved)
        for claim in claims:
            row = rows.items[claim.work_id]
            assert (claim.lease_token, claim.epoch) == (row["LeaseToken"], row["OwnershipEpoch"])
            assert claim.attempt == row["Attempt"]
            self.claims[claim.work_id] = claim

    def _adopt(self, rows: checks.Rows) -> None:
        """Learn the ids of what the model added."""
        places = {(self.packs.index(row["PackInstallId"]), row["LaneOrdinal"]): key for key, row in rows.items.items()}
        for item in self.shadow.items:
            if not item.work_id:
                assert item.place in places, f"nothing was made of {item}"
                item.work_id = places[item.place]

    def _claim_elsewhere(self) -> None:
        """Claim on another connection while an admission holds the pack."""
        worker = self.workers[1]

        def claiming() -> tuple[list[Claim], checks.Rows]:
            return claim_some(worker.process, worker.queue, 2), checks.read()

        claims, rows = _elsewhere.submit(claiming).result()
        self._observe(rows, claims)
        tally.other["claims inside an admission"] += len(claims)

    def _pick_claim(self, number: int) -> Claim:
        """Return a live claim; in the order of admission, which is the same in every run."""
        held = [self.claims[item.work_id] for item in self.shadow.items if item.work_id in self.claims]
        return held[number % len(held)]

    def _groups(self) -> list[list[Claim]]:
        groups: dict[tuple[str, int], list[Claim]] = {}
        for item in self.shadow.items:
            claim = self.claims.get(item.work_id)
            if claim is not None and not item.is_projection:
                groups.setdefault((claim.lease_token, claim.epoch), []).append(claim)
        return list(groups.values())

    def _lose(self, work_id: str) -> None:
        claim = self.claims.pop(work_id, None)
        if claim is not None:
            self.stale = [*self.stale[-9:], claim]

    @contextmanager
    def _kept_failure(self) -> Iterator[None]:
        """Keep the first failure with the steps that led to it, whether or not it can be had again."""
        try:
            yield
        except Exception as failure:
            if tally.failure is None:
                failure.add_note("\n".join(self.told))
                tally.failure = failure
            raise
