"""R1 for the cutovers: SIGKILL at every statement, COMMIT and failpoint of each step of both, forward and back.

Right after the kill a step is stored whole or not at all: the receipt, the trail's entry, and what the step says of the
rows. Then it is run again, by whoever asks next, the pack's work is done, and everything was executed once under an
unbroken chain of receipts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batteries import books, cutting
from batteries.books import Row
from batteries.database import Ground
from batteries.figures import ROOT, Figures
from batteries.r1_kills import NAMED, attack
from batteries.scenarios import Prepared, Scenario, paths
from integration import errors
from integration.cutover.inbound import rollback_steps
from integration.storage import db
from integration.storage.sql import rollback_fences
from integration.storage.sql.scheduler_leases import SEIZED
from tests.support.bridge import BridgedPack
from tests.support.legacy import LegacyPack
from tests.support.old_projections import OldPack, history, protocol_rows
from tests.support.work import query

#: The failpoints of what is killed here.
STEPS = (
    "cutover.",
    "inbound_forward.",
    "legacy_claim.",
    "legacy_end.",
    "projection_cutover.",
    "projector.",
    "rollback.",
)
FORWARD, BACK = "forward", "rollback"


class Step(Scenario):
    """One step of an inbound cutover; what comes after it is done when the step has been finished."""

    is_repeatable = True
    telling = re.compile(r"^(inbound_forward|rollback|projector|legacy_end)\.|after:INSERT_CUTOVER_RECEIPT$")
    few = (1, 1)
    #: The directions of the receipts when the work is done.
    receipts: tuple[str, ...] = (FORWARD,)

    def __init__(self) -> None:
        self._pack: Any

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        self._pack = self.make(record)
        return Prepared({}, [], record, acked)

    def make(self, record: Path) -> Any:
        """Make the pack as it is before the step."""
        return cutting.old_pack(record)

    def act(self, prepared: Prepared, seed: int) -> None:
        cutting.forward(self._pack.pack_id)

    def recover(self, prepared: Prepared, seed: int) -> None:
        try:
            self.act(prepared, seed)
            self.finish()
        except errors.IntegrationError as error:
            prepared.acked.write_text(f"{error.code} when it was asked for again\n", encoding="utf-8")
        else:
            prepared.acked.touch()

    def finish(self) -> None:
        """Do the work."""
        cutting.work()

    def items(self) -> dict[str, Row]:
        return {}

    def expire_leases(self) -> None:
        """Only the executor's scenarios hold any."""

    def torn(self, prepared: Prepared, place: str) -> list[str]:
        found = cutting.directions(self._pack.pack_id)
        # The first receipt of a pack that was made as moved was written without a word in the trail.
        told = {
            FORWARD: cutting.audited("inbound_cutover.moved_forward"),
            BACK: cutting.audited("inbound_cutover.rolled_back"),
        }
        written = {name: found.count(name) for name in told}
        written[FORWARD] -= isinstance(self._pack, BridgedPack)
        wrong = [] if written == told else [f"{written} receipts, {told} in the trail"]
        return wrong + self.half_done(bool(found) and found[-1] == FORWARD)

    def half_done(self, is_forward: bool) -> list[str]:
        """Return what contradicts the receipts."""
        seized = query("SELECT 1 FROM _System_ConnectorSchedulerLease WHERE LeaseOwner = %s", SEIZED)
        return ["the leases are still the cutover's"] if is_forward and seized else []

    def lost(self, prepared: Prepared) -> list[str]:
        if not prepared.acked.exists():
            # The step alone was run, to find its places.
            return self.torn(prepared, "")
        return [
            *prepared.acked.read_text(encoding="utf-8").splitlines(),
            *cutting.wrong_receipts(self._pack.pack_id, list(self.receipts)),
            *self.wrong_runs(prepared),
            *cutting.wrong_outcomes(self._pack),
        ]

    def wrong_runs(self, prepared: Prepared) -> list[str]:
        """Return what was not executed just once."""
        return cutting.wrong_runs(self._pack, prepared.record)

    def twice(self, prepared: Prepared, before: Mapping[str, Row], after: Mapping[str, Row]) -> list[str]:
        actions = ("moved_forward", "rolled_back", "reconciled")
        counts = {action: cutting.audited(f"inbound_cutover.{action}") for action in actions}
        return [f"{action} {count} times" for action, count in counts.items() if count > 1]

    def crooked(self, after: Mapping[str, Row]) -> list[str]:
        claimed = {work_id: row for work_id, row in books.items().items() if row["Attempt"]}
        return [*books.crooked(claimed, books.attempts()), *cutting.wrong_trail()]


class Forward(Step):
    """Forward, with an Event that a lost executor claimed."""

    name = "forward"
    few = (5, 1)


class Abandon(Step):
    """A forward cutover is given up after its first step; then it is made after all."""

    name = "abandoned forward"

    def make(self, record: Path) -> LegacyPack:
        pack = cutting.old_pack(record)
        cutting.stop_claims(pack.pack_id)
        return pack

    def act(self, prepared: Prepared, seed: int) -> None:
        cutting.abandon_forward(self._pack.pack_id)

    def finish(self) -> None:
        cutting.expire()
        cutting.execute(self._pack)
        cutting.forward(self._pack.pack_id)
        cutting.work()


class Rollback(Step):
    """Back, in two transactions and the first one."""

    name = "rollback"
    few = (8, 1)
    receipts = (FORWARD, BACK)

    def make(self, record: Path) -> BridgedPack:
        return cutting.moved_pack(record)

    def act(self, prepared: Prepared, seed: int) -> None:
        cutting.back(self._pack.pack_id)

    def finish(self) -> None:
        cutting.execute(self._pack)
        assert cutting.reconcile(self._pack.pack_id)

    def half_done(self, is_forward: bool) -> list[str]:
        states = {row["State"] for row in query("SELECT State FROM _System_ConnectorRollbackFence")}
        owners = {row["ExecutionOwner"] for row in query("SELECT ExecutionOwner FROM _System_ConnectorEvent")}
        fenced = query("SELECT 1 FROM _System_ConnectorWorkItem WHERE State = 'awaiting_legacy_outcome'")
        if is_forward:
            # One Event belongs to the item that was claimed once.
            is_right = states <= {"open"} and owners == {"event", "work_item"} and (not fenced or states == {"open"})
        else:
            is_right = states == {"sealed"} and owners == {"event"} and len(fenced) == 4
        return [] if is_right else [f"fence {states}, owners {owners}, {len(fenced)} fenced"]


class AbandonRollback(Rollback):
    """A rollback is given up after its first transaction; the pack's workers go on."""

    name = "abandoned rollback"
    few = (1, 1)
    receipts = (FORWARD,)

    def make(self, record: Path) -> BridgedPack:
        rollback_steps._GIVEN_BACK = 2
        pack = cutting.moved_pack(record)
        request = cutting.rollback_request(pack)
        fence_id = db.run(lambda tx: rollback_steps.open_fence(tx, request=request), name="batteries.open")
        assert isinstance(fence_id, str)
        step = db.run(
            lambda tx: rollback_steps.hand_over(tx, request=request, fence_id=fence_id), name="batteries.hand_over"
        )
        assert step == fence_id, "it is complete"
        return pack

    def act(self, prepared: Prepared, seed: int) -> None:
        if query("SELECT 1 FROM _System_ConnectorRollbackFence WHERE State = %s", rollback_fences.OPEN):
            cutting.abandon_rollback(self._pack.pack_id)

    def finish(self) -> None:
        cutting.work()

    def half_done(self, is_forward: bool) -> list[str]:
        states = {row["State"] for row in query("SELECT State FROM _System_ConnectorRollbackFence")}
        fenced = query("SELECT 1 FROM _System_ConnectorWorkItem WHERE State = 'awaiting_legacy_outcome'")
        is_right = states == {"open"} or (states == {"closed"} and not fenced)
        return [] if is_right else [f"fence {states}, {len(fenced)} fenced"]


class Executor(Rollback):
    """The executor of a rolled-back pack; one that is killed may have called its flow, which then runs again."""

    name = "executor"
    few = (3, 1)

    def make(self, record: Path) -> BridgedPack:
        pack = cutting.rolled_back_pack(record)
        # What comes after the rollback mirrors its Event, and ends with it.
        pack.admit(1, payload=cutting.payload_of(record))
        return pack

    def act(self, prepared: Prepared, seed: int) -> None:
        cutting.execute(self._pack)

    def expire_leases(self) -> None:
        cutting.expire()

    def finish(self) -> None:
        # Taken back at first, and due at once.
        for _ in range(2):
            cutting.expire()
            cutting.execute(self._pack)
        assert cutting.reconcile(self._pack.pack_id)

    def half_done(self, is_forward: bool) -> list[str]:
        ended = query("SELECT EventId FROM _System_ConnectorEvent WHERE Status = 'processed'")
        told = query("SELECT EventId FROM _System_ConnectorLegacyOutcomeReceipt")
        same = {row["EventId"] for row in ended} == {row["EventId"] for row in told}
        return [] if same else [f"{len(ended)} Events ended, {len(told)} outcomes"]

    def wrong_runs(self, prepared: Prepared) -> list[str]:
        return [found for found in super().wrong_runs(prepared) if not found.endswith("ran 2 times")]


class Reconcile(Rollback):
    """What the executor did is carried over."""

    name = "reconcile"
    few = (2, 1)

    def make(self, record: Path) -> BridgedPack:
        pack = cutting.rolled_back_pack(record)
        cutting.execute(pack)
        return pack

    def act(self, prepared: Prepared, seed: int) -> None:
        cutting.reconcile(self._pack.pack_id)

    def finish(self) -> None:
        assert cutting.reconcile(self._pack.pack_id)

    def half_done(self, is_forward: bool) -> list[str]:
        fence = {row["State"] for row in query("SELECT State FROM _System_ConnectorRollbackFence")}
        waiting = query("SELECT 1 FROM _System_ConnectorWorkItem WHERE State = 'awaiting_legacy_outcome'")
        return ["closed before all were reconciled"] if fence == {"closed"} and waiting else []


class Again(Step):
    """Forward once more after a rollback that is reconciled, with what came meanwhile."""

    name = "forward again"
    receipts = (FORWARD, BACK, FORWARD)

    def make(self, record: Path) -> BridgedPack:
        pack = cutting.rolled_back_pack(record)
        cutting.execute(pack)
        assert cutting.reconcile(pack.pack_id)
        pack.admit(2, payload=cutting.payload_of(record))
        pack.events(1, payload=cutting.payload_of(record))
        return pack


class Projections(Scenario):
    """The projection cutover: one row, its entry in the trail, and no historical row changed."""

    name = "projection cutover"
    is_repeatable = True
    telling = re.compile(r"^projection_cutover\.")
    few = (2, 1)

    def __init__(self) -> None:
        self._pack_id = ""
        self._before: list[Any] = []

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        pack = OldPack()
        for number in range(3):
            pack.lane(number).coalesced()
        self._pack_id = pack.settle()
        self._before = history()
        return Prepared({}, [], record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        cutting.cut_projections_over(self._pack_id)

    def items(self) -> dict[str, Row]:
        return {}

    def torn(self, prepared: Prepared, place: str) -> list[str]:
        wrong = [] if history() == self._before else ["a historical row changed"]
        rows, told = len(protocol_rows()), cutting.audited("projection.cut_over")
        return wrong if rows == told else [*wrong, f"{rows} rows, {told} in the trail"]

    def lost(self, prepared: Prepared) -> list[str]:
        cutoffs = [row["LegacyMaxOrdinal"] for row in protocol_rows()]
        return [*self.torn(prepared, ""), *([] if cutoffs == [9] else [f"cutoffs {cutoffs}"])]

    def twice(self, prepared: Prepared, before: Mapping[str, Row], after: Mapping[str, Row]) -> list[str]:
        return ["told twice"] if cutting.audited("projection.cut_over") > 1 else []

    def crooked(self, after: Mapping[str, Row]) -> list[str]:
        return cutting.wrong_trail()


SCENARIOS: tuple[Scenario, ...] = (
    Projections(),
    Forward(),
    Abandon(),
    Rollback(),
    AbandonRollback(),
    Executor(),
    Reconcile(),
    Again(),
)


def run(ground: Ground, figures: Figures) -> None:
    """Kill everywhere in the cutovers."""
    scenarios = (Rollback(),) if ground.mutant else SCENARIOS
    tally = attack(ground, figures, scenarios, seeds=ground.pick(1, 1, 10))
    figures.note(half_done=tally.torn)
    figures.demand("right after the kill a step is stored whole or not at all", tally.torn == 0)
    if ground.mutant or ground.size == "shortest":
        return
    named = {name for path in (ROOT / "integration").rglob("*.py") for name in NAMED.findall(path.read_text())}
    wanted = {name for name in named if name.startswith(STEPS)}
    figures.note(failpoints_of_the_steps=len(wanted), not_killed_at=sorted(wanted - tally.killed))
    figures.demand("every failpoint of the cutovers was killed at", bool(wanted) and wanted <= tally.killed)
