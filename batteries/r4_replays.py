"""R4 for replay: a proxy ends connections at the COMMIT of replays, before or after the server heard of it.

Callers replay dead rows of every kind, half of them by a name of their request; whoever hears that a COMMIT is unknown
asks again. A bulk replay runs behind a proxy too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import DatabaseError, InterfaceError

from batteries import database, proxy
from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import BatteryBroken, fork
from batteries.r4_commits import behind_proxy
from batteries.replayed import EVENTS, ITEMS, KINDS, Kind, told
from integration import errors
from integration.authority import gather, service
from integration.authority.values import Ref
from integration.batches.reads import get_batch
from integration.batches.runner import Runner
from integration.batches.values import Totals
from integration.storage import db
from integration.storage.schema import Vintage
from tests.support import cleaning
from tests.support.authority import MARIA, World, audit_entries, rows_of
from tests.support.batches import batch_of, children_by_original, ledger, replayer

RATE = 0.5
BULK_RATE = 0.2
TRIES = 60
#: What a write to a pack's stream of the trail says; only a replay that was made writes there.
_OF_A_REPLAY = "'pack/"
_UNKNOWN = "unknown"
EXECUTIONS = ("source_projection", "per_event")


def replay_all(*, url: str, refs: Sequence[str], mutant: bool) -> list[list[dict[str, Any]]]:
    """Replay each row until it is answered, those with a name twice; return what the caller was told of each."""
    database.use(url)
    if mutant:
        gather.find_child_made = lambda *_: None
    heard = []
    for number, ref in enumerate(refs):
        name = f"R4 {ref}" if number % 2 else None
        heard.append(_ask(Ref.parse(ref), name))
        if name is not None:
            # A caller that did not believe the answer: the same request has the same answer.
            heard[-1] += _ask(Ref.parse(ref), name)
    return heard


def _ask(ref: Ref, name: str | None) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []
    for _ in range(TRIES):
        try:
            outcome = service.replay(ref, actor=MARIA, reason="R4", idempotency_key=name)
        except errors.CommitUnknown:
            heard.append({"outcome": _UNKNOWN, "named": name is not None})
        except (errors.IntegrationError, DatabaseError, InterfaceError):
            # A read was lost, or nothing was stored for sure.
            db.close_connections()
        else:
            return [*heard, {**told(outcome), "named": name is not None}]
    message = f"{ref} was never answered"
    raise BatteryBroken(message)


def run_bulk(*, url: str) -> None:
    """Run what bulk replays there are until none is running."""
    database.use(url)
    runner = Runner(lease_seconds=1)
    for _ in range(TRIES * 20):
        try:
            if runner.is_idle():
                return
            runner.round()
        except (errors.IntegrationError, DatabaseError, InterfaceError):
            db.close_connections()
    message = "the bulk replay did not end"
    raise BatteryBroken(message)


def cuts_of(log: Path) -> tuple[int, Counter[str]]:
    """Return how many replays' COMMITs were passed, and how many of them were cut, by kind."""
    sites = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    of_replays = [one for one in sites if one["site"].startswith("COMMIT ") and _OF_A_REPLAY in one["site"]]
    return len(of_replays), Counter(one["cut"] for one in of_replays if one["cut"])


@dataclass
class Tally:
    """What was found."""

    rows: int = 0
    passed: int = 0
    cuts: Counter[str] = field(default_factory=Counter)
    #: Rows without one whole replay; with more than one; whose caller was not told of it; still unknown to it.
    torn: int = 0
    twice: int = 0
    mistold: int = 0
    unknown: int = 0


def single(ground: Ground, tally: Tally, *, seed: int, execution: str, count: int) -> None:
    """Replay rows of the kinds of one execution class behind the proxy, one by one."""
    cleaning.empty_database()
    kinds = [kind for kind in KINDS if (kind.execution, kind.vintage) == (execution, Vintage.CURRENT)]
    world = World(execution=execution)
    rows = [(kind, kind.make(world)) for kind in (kinds[number % len(kinds)] for number in range(count))]
    log = ground.folder / f"replays-{seed}"
    with behind_proxy(ground, seed, log, rate=RATE) as url:
        refs = [str(ref) for _, ref in rows]
        heard = fork(ground.folder, replay_all, url=url, refs=refs, mutant=ground.mutant).value()
    done = Counter(entry["ref_id"] for entry in audit_entries() if entry["outcome"] == "done")
    for (kind, ref), answers in zip(rows, heard, strict=True):
        look(tally, kind, ref, answers, done)
    passed, cuts = cuts_of(log)
    tally.rows += count
    tally.passed += passed
    tally.cuts += cuts


def look(tally: Tally, kind: Kind, ref: Ref, answers: Sequence[dict[str, Any]], done: Mapping[str, int]) -> None:
    """Compare what is stored of one row's replay with what its caller heard."""
    items = rows_of(ITEMS, "WorkId = %s", ref.id)
    event_id = items[0]["EventId"] if items else ref.id
    owner = rows_of(EVENTS, "EventId = %s", event_id) if kind.event_owns else items
    children = rows_of(EVENTS, "ReplayOfEventId = %s", event_id)
    made = [item for child in children for item in rows_of(ITEMS, "EventId = %s", child["EventId"])]
    counts = (len(children), len(made), done.get(event_id if kind.event_owns else ref.id, 0))
    tally.twice += max(counts) > 1
    tally.torn += min(counts) < 1 or owner[0]["ReplayedAt"] is None
    told_of = [answer for answer in answers if answer["outcome"] != _UNKNOWN]
    tally.unknown += len(answers) - len(told_of)
    first, last = told_of[0], told_of[-1]
    # Without a name a request that is made again is another one: it is told whose replay there is.
    is_own = first["outcome"] == "replayed" or (
        not first["named"] and len(answers) > 1 and (first["outcome"], first["winner"]) == ("already_replayed", "maria")
    )
    is_repeated = not first["named"] or (last["outcome"], last.get("repeat")) == ("replayed", True)
    child = (made[0]["EventId"], made[0]["WorkId"]) if made else None
    is_same = {(answer["event"], answer["item"]) for answer in told_of} == {child}
    tally.mistold += not (is_own and is_repeated and is_same)


def bulk(ground: Ground, tally: Tally, *, seed: int, count: int) -> None:
    """Replay rows in bulk behind the proxy, and compare the ledger."""
    cleaning.empty_database()
    actor, world = replayer(), World()
    for _ in range(count):
        world.work()
    batch = batch_of(actor)
    log = ground.folder / f"bulk-{seed}"
    with behind_proxy(ground, seed + 500, log, rate=BULK_RATE) as url:
        fork(ground.folder, run_bulk, url=url).value()
    stored = {row["ReplayOfWorkId"]: row["WorkId"] for row in rows_of(ITEMS, "ReplayOfWorkId IS NOT NULL")}
    tally.twice += sum(children > 1 for children in children_by_original().values())
    tally.torn += count - len(stored)
    tally.mistold += sum(stored.get(item["ref_id"]) != item["child_work_id"] for item in ledger(batch.id))
    after = get_batch(batch.id)
    tally.mistold += (after.state, after.totals) != ("finished", Totals(replayed=count))
    passed, cuts = cuts_of(log)
    tally.rows += count
    tally.passed += passed
    tally.cuts += cuts


def run(ground: Ground, figures: Figures) -> None:
    """Replay behind a proxy that cuts, until there were cuts enough."""
    count, wanted = ground.pick((8, 6), (24, 200), (60, 2000))
    tally, rounds = Tally(), 0
    kinds = set(proxy.KINDS[ground.engine])
    while tally.cuts.total() < wanted or (set(tally.cuts) != kinds and rounds < wanted):
        rounds += 1
        seed = ground.seed * 1000 + rounds
        single(ground, tally, seed=seed, execution=EXECUTIONS[rounds % 2], count=count)
        if ground.mutant:
            continue
        bulk(ground, tally, seed=seed, count=count)
    cleaning.empty_database()
    figures.note(
        rounds=rounds,
        rows=tally.rows,
        commits_of_replays_passed=tally.passed,
        cuts_at_a_replays_commit=dict(tally.cuts),
        not_whole=tally.torn,
        twice=tally.twice,
        callers_told_wrong=tally.mistold,
        asked_again_because_unknown=tally.unknown,
    )
    figures.demand("each row has one replay, whole", tally.torn == 0)
    figures.demand("no row has two", tally.twice == 0)
    figures.demand("every caller was told of the child that its request made", tally.mistold == 0)
    figures.demand("every kind of cut was made at a replay's COMMIT", set(tally.cuts) == kinds)
