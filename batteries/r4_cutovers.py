"""R4 for the cutovers: a proxy ends connections at the COMMITs of both, before or after the server heard of them.

An operator hands a pack's work forward, back, carries the outcomes over, and hands it forward again; whoever is told
that a COMMIT is unknown asks again. The Event executor runs behind the proxy too. In the end there are three receipts,
and every Event was executed once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import DatabaseError, InterfaceError

from batteries import cutting, database, proxy
from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import BatteryBroken, fork
from batteries.r4_commits import behind_proxy
from integration import errors
from integration.cutover.inbound import rollback
from integration.storage import db
from tests.support import cleaning
from tests.support.legacy import LegacyPack
from tests.support.old_projections import OldPack, history, protocol_rows

RATE = 0.3
#: The mutant is missed when the answer to the one COMMIT of a rollback's receipt is lost.
MUTANT_RATE, MUTANT_ROUNDS = 0.6, 30
TRIES = 60
#: Each step that answers with a receipt; the second forward after the rollback.
RECEIPTS = ("forward", "rollback", "forward")


def ask(call: Callable[[], Any], heard: Counter[str]) -> Any:
    """Ask until there is an answer; count what the caller was told instead."""
    for _ in range(TRIES):
        try:
            return call()
        except errors.CommitUnknown:
            heard["unknown"] += 1
        except (errors.Busy, errors.ConcurrentChange, errors.DatabaseUnavailable, DatabaseError, InterfaceError):
            # A read was lost, or nothing was stored for sure.
            heard["lost"] += 1
        db.close_connections()
    message = "a step was never answered"
    raise BatteryBroken(message)


def go_back_and_forth(*, url: str, pack: LegacyPack, mutant: bool) -> dict[str, Any]:
    """Hand a pack's work forward, back and, but for the mutant, forward again; return what the operator was told."""
    database.use(url)
    if mutant:
        _believe_no_commit()
    heard: Counter[str] = Counter()
    told = [
        ask(lambda: cutting.forward(pack.pack_id), heard),
        ask(lambda: cutting.back(pack.pack_id), heard),
    ]
    if not mutant:
        while not ask(lambda: _is_reconciled(pack), heard):
            pass
        told.append(ask(lambda: cutting.forward(pack.pack_id), heard))
    return {"told": told, "heard": heard}


def _is_reconciled(pack: LegacyPack) -> bool:
    cutting.expire()
    cutting.execute(pack)
    return cutting.reconcile(pack.pack_id)


def _believe_no_commit() -> None:
    """Take the look at what was stored away from the rollback; a forward knows its receipt when it is run again."""

    class Door:
        def __getattr__(self, name: str) -> Any:
            return getattr(db, name)

        def run(self, unit: Any, **options: Any) -> Any:
            return db.run(unit, **{**options, "settle": lambda _reader: None})

    rollback.db = Door()  # type: ignore[assignment]


def cut_projections_over(*, url: str, pack_id: str) -> dict[str, Any]:
    """Cut the projections over; return the answer."""
    database.use(url)
    heard: Counter[str] = Counter()
    return {**ask(lambda: cutting.cut_projections_over(pack_id), heard), "heard": heard}


@dataclass
class Tally:
    """What was found."""

    rounds: int = 0
    passed: int = 0
    cuts: Counter[str] = field(default_factory=Counter)
    heard: Counter[str] = field(default_factory=Counter)
    #: Receipts, rows and outcomes that are not as they must be; answers that tell of something else.
    wrong: list[str] = field(default_factory=list)
    mistold: list[str] = field(default_factory=list)

    def add_cuts(self, log: Path) -> None:
        """Count the commit sites that were passed and cut."""
        sites = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        self.passed += len(sites)
        self.cuts.update(site["cut"] for site in sites if site["cut"])


def inbound(ground: Ground, tally: Tally, seed: int) -> None:
    """One pack forward, back and forward."""
    cleaning.empty_database()
    record = ground.folder / f"runs-{seed}"
    pack = cutting.old_pack(record)
    log = ground.folder / f"sites-{seed}"
    with behind_proxy(ground, seed, log, rate=MUTANT_RATE if ground.mutant else RATE) as url:
        said = fork(ground.folder, go_back_and_forth, url=url, pack=pack, mutant=ground.mutant).value()
    tally.add_cuts(log)
    tally.heard.update(said["heard"])
    stored = cutting.receipts_of(pack.pack_id)
    answers = [(answer["receipt"], answer["is_new"]) for answer in said["told"]]
    if answers != [(row["ReceiptId"], True) for row in stored]:
        tally.mistold.append(f"{seed}: {answers}")
    if ground.mutant:
        return
    cutting.work()
    tally.wrong += cutting.wrong_receipts(pack.pack_id, list(RECEIPTS))
    tally.wrong += [*cutting.wrong_runs(pack, record), *cutting.wrong_outcomes(pack), *cutting.wrong_trail()]


def projection(ground: Ground, tally: Tally, seed: int) -> None:
    """One pack's projection cutover."""
    cleaning.empty_database()
    pack = OldPack()
    pack.lane().coalesced()
    pack_id = pack.settle()
    before = history()
    log = ground.folder / f"projection-sites-{seed}"
    with behind_proxy(ground, seed + 500, log, rate=0.5) as url:
        said = fork(ground.folder, cut_projections_over, url=url, pack_id=pack_id).value()
    tally.add_cuts(log)
    tally.heard.update(said["heard"])
    rows = protocol_rows()
    if [said["cutoff"]] != [row["LegacyMaxOrdinal"] for row in rows] or not said["is_new"]:
        tally.mistold.append(f"{seed}: {said}")
    if history() != before or cutting.audited("projection.cut_over") != 1:
        tally.wrong.append(f"{seed}: the projection cutover left more or less than its row and its entry")


def run(ground: Ground, figures: Figures) -> None:
    """Cut over behind a proxy that cuts, until there were cuts enough."""
    wanted = ground.pick(6, 150, 2000)
    tally, kinds = Tally(), set(proxy.KINDS[ground.engine])
    if ground.mutant:
        while not tally.mistold and tally.rounds < MUTANT_ROUNDS:
            tally.rounds += 1
            inbound(ground, tally, ground.seed * 1000 + tally.rounds)
    while not ground.mutant and (tally.cuts.total() < wanted or (set(tally.cuts) != kinds and tally.rounds < wanted)):
        tally.rounds += 1
        seed = ground.seed * 1000 + tally.rounds
        inbound(ground, tally, seed)
        projection(ground, tally, seed)
    cleaning.empty_database()
    figures.note(
        rounds=tally.rounds,
        commit_sites_passed=tally.passed,
        cuts=dict(tally.cuts),
        asked_again=dict(tally.heard),
        wrong=tally.wrong[:10],
        told_wrong=tally.mistold[:10],
    )
    figures.demand("three receipts a pack, one checkpoint, and everything was executed once", not tally.wrong)
    figures.demand("whoever wrote a receipt was told so, and of that one", not tally.mistold)
    if not ground.mutant:
        figures.demand("every kind of cut was made", set(tally.cuts) == kinds)
