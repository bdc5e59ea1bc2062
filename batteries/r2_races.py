"""R2, claim races: every contender tries to claim every row; each row has one winner and one new epoch."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from django.db import DatabaseError, connections

from batteries import books, hook, kernel
from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import Gate, race
from integration import errors
from tests.support import cleaning
from tests.support.work import Pack, change

CONTENDERS = 8
RETRIED = (1213, 1205, 1020, 9007, 8002)
#: The claim with everything that the row must still be taken out of its WHERE, and the attempt's own key silenced.
UNGUARDED = (
    hook.Rewrite("FIRST_CLAIM", r"(?s)AND w\.State = 'pending'.*"),
    hook.Rewrite("LATER_CLAIM", r"(?s)AND State = 'retry'.*"),
    hook.Rewrite("INSERT_ATTEMPTS_OF_CLAIM", r"INSERT INTO", "INSERT IGNORE INTO"),
)


def contend(
    *, start: Gate, rows: int, size: int, isolation: str, snapshot: bool | None, seed: int, mutant: bool
) -> dict[str, Any]:
    """Try to claim every row; return what was won and what went wrong."""
    journal = hook.Journal()
    hook.install(journal, *(UNGUARDED if mutant else ()))
    process = kernel.register()
    items = kernel.candidates(process, rows)
    kernel.fence_of(process, items[0])
    chance = random.Random(seed)
    # Neighbours swap, so that contenders meet from both sides; the whole walk stays together.
    order = sorted(range(len(items)), key=lambda index: index + chance.uniform(0, 6))
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
        if snapshot is not None:
            cursor.execute(f"SET SESSION innodb_snapshot_isolation = {int(snapshot)}")
    start.wait()
    won: list[str] = []
    surfaced: list[str] = []
    for batch in kernel.batches([items[index] for index in order], size):
        try:
            won += [claim.work_id for claim in kernel.claim(process, batch)]
        except (errors.IntegrationError, DatabaseError) as error:
            surfaced.append(f"{type(error).__name__}: {error.args[0] if error.args else ''}")
    return {"won": won, "surfaced": surfaced, "errors": journal.errors, "texts": journal.texts}


def modes(ground: Ground) -> list[tuple[str, str, bool | None]]:
    """Return (isolation, kind of claim, snapshot isolation) of each race."""
    snapshots: tuple[bool | None, ...] = (False, True) if ground.engine == "mariadb" else (None,)
    isolations = ground.pick(
        ("READ COMMITTED",), ("READ COMMITTED", "REPEATABLE READ"), ("READ COMMITTED", "REPEATABLE READ")
    )
    return [
        (isolation, kind, snapshot) for snapshot in snapshots for isolation in isolations for kind in ("first", "later")
    ]


def run(ground: Ground, figures: Figures) -> None:
    """Race in every mode, row by row and in batches."""
    rows = ground.pick(32, 300, 2500)
    winners: Counter[int] = Counter()
    seen: Counter[str] = Counter()
    surfaced: Counter[str] = Counter()
    texts: dict[str, str] = {}
    crooked = races = 0
    for number, (isolation, kind, snapshot) in enumerate(modes(ground)):
        for size in (1, 8):
            cleaning.empty_database()
            ids = Pack().admit(rows)
            if kind == "later":
                change("UPDATE _System_ConnectorWorkItem SET State = 'retry', Attempt = 1, OwnershipEpoch = 1")
                change("UPDATE _System_ConnectorEvent SET ExecutionOwner = 'work_item'")
            earlier = 1 if kind == "later" else 0
            told = race(
                ground.folder,
                contend,
                [
                    {
                        "rows": rows,
                        "size": size,
                        "isolation": isolation,
                        "snapshot": snapshot,
                        "seed": ground.seed * 1000 + number * 100 + contender,
                        "mutant": ground.mutant,
                    }
                    for contender in range(CONTENDERS)
                ],
            )
            won = Counter(work_id for one in told for work_id in one["won"])
            winners.update(won[work_id] for work_id in ids)
            races += rows * CONTENDERS
            for one in told:
                surfaced.update(one["surfaced"])
                seen.update(one["errors"])
                texts |= one["texts"]
            made = books.attempts()
            crooked += sum(
                (row["State"], row["Attempt"], row["OwnershipEpoch"], len(made.get(work_id, ())))
                != ("processing", earlier + 1, earlier + 1, 1)
                for work_id, row in books.items().items()
            )
    cleaning.empty_database()
    figures.note(
        modes=len(modes(ground)),
        contenders=CONTENDERS,
        rows=rows * len(modes(ground)) * 2,
        claims_tried=races,
        winners_per_row={str(count): rows_ for count, rows_ in sorted(winners.items())},
        retried={str(code): seen[str(code)] for code in RETRIED},
        other_errors={code: n for code, n in seen.items() if int(code) not in RETRIED},
        other_texts={code: text for code, text in texts.items() if int(code) not in RETRIED},
        surfaced=dict(surfaced),
    )
    figures.demand("each row has one winner", set(winners) == {1})
    figures.demand("each row's epoch and attempt went up by exactly one, with one attempt row", crooked == 0)
    figures.demand("no error reached a claimant", not surfaced)
