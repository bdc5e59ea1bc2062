"""R4, the unknown commit: a proxy ends connections at commit sites, before or after the server heard of it."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.db import DatabaseError, InterfaceError

from batteries import books, database, hook, kernel, proxy
from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import BatteryBroken, fork, killed_at_exit
from integration import errors
from integration.ingress.service import materialize_ready
from integration.storage.statements import all_statements
from tests.support import cleaning, webhooks
from tests.support.work import Pack

RATE = 0.3
TRIES = 60
PLANS: tuple[tuple[list[str], str], ...] = (
    (["complete"], "succeeded"),
    (["retry", "complete"], "succeeded"),
    (["skip"], "skipped"),
    (["reject"], "dead"),
)


@contextlib.contextmanager
def behind_proxy(ground: Ground, seed: int, log: Path, *, rate: float = RATE) -> Iterator[str]:
    """Run the proxy; yield the address of the database behind it."""
    socket = ground.folder / f"proxy-{seed}.sock"
    upstream = parse_qs(urlsplit(ground.url).query)["unix_socket"][0]
    carrier = fork(
        ground.folder,
        proxy.serve,
        socket=str(socket),
        upstream=upstream,
        rate=rate,
        seed=seed,
        kinds=list(proxy.KINDS[ground.engine]),
        log=str(log),
    )
    with killed_at_exit([carrier]):
        for _ in range(2000):
            if socket.is_socket():
                break
            time.sleep(0.005)
        yield database.through(ground.url, socket)


def post_all(*, url: str, deliveries: list[str], acked: str, mutant: bool) -> dict[str, int]:
    """Post each delivery until it is answered with 200, as a provider does."""
    from django.test import Client

    database.use(url)
    if mutant:
        hook.install(hook.BelieveLost())
    client = Client()
    refused: Counter[int] = Counter()
    for number, delivery in enumerate(deliveries):
        for _ in range(TRIES):
            status = webhooks.post(client, webhooks.deal(number), delivery_id=delivery).status_code
            if status == 200:
                with Path(acked).open("a", encoding="ascii") as file:
                    file.write(f"{delivery}\n")
                break
            refused[status] += 1
    return {str(status): count for status, count in refused.items()}


def materialize_all(*, url: str) -> int:
    """Materialize in small pages until nothing waits; return how often the database was lost on the way."""
    database.use(url)
    lost = 0
    for _ in range(TRIES * 20):
        try:
            if not materialize_ready(5) and not any(
                row["State"] == "received" for row in webhooks.rows("IngressReceipt")
            ):
                return lost
        except (errors.IntegrationError, DatabaseError, InterfaceError):
            lost += 1
    message = "the receipts were never all taken"
    raise BatteryBroken(message)


def work(*, url: str) -> dict[str, Any]:
    """Run a worker behind the proxy until nothing is left."""
    database.use(url)
    return kernel.work_until_idle(concurrency=4, lease_seconds=30, slack_seconds=1)


def site_names(log: Path) -> Counter[tuple[str, str]]:
    """Return (commit site, kind of cut) counts."""
    prefixes = sorted(
        ((statement.text.split("%(")[0].strip(), constant) for _, constant, statement in all_statements()),
        key=lambda pair: -len(pair[0]),
    )
    found: Counter[tuple[str, str]] = Counter()
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        entry = json.loads(line)
        alone = not entry["site"].startswith("COMMIT ")
        text = entry["site"].removeprefix("COMMIT ").strip()
        name = next((constant for prefix, constant in prefixes if prefix and text.startswith(prefix)), "other")
        found[(name if alone else f"COMMIT({name})", entry["cut"])] += 1
    return found


def run(ground: Ground, figures: Figures) -> None:
    """Ingest, materialize, claim and end work behind a proxy that cuts."""
    count, wanted_cuts = ground.pick((30, 10), (120, 150), (300, 2100))
    sites: Counter[tuple[str, str]] = Counter()
    not_stored = duplicated = lost = crooked = repeated = left = items = deliveries_sent = rounds = 0
    refused: Counter[str] = Counter()
    while sum(n for (_, cut), n in sites.items() if cut) < wanted_cuts:
        rounds += 1
        seed = ground.seed * 1000 + rounds
        cleaning.empty_database()
        webhooks.activate()
        log, acked = ground.folder / f"sites-{seed}", ground.folder / f"acked-{seed}"
        acked.touch()
        deliveries = [f"d-{seed}-{number}" for number in range(count)]
        deliveries_sent += count
        with behind_proxy(ground, seed, log) as url:
            refused.update(
                fork(
                    ground.folder, post_all, url=url, deliveries=deliveries, acked=str(acked), mutant=ground.mutant
                ).value()
            )
            stored = Counter(row["DeliveryId"] for row in webhooks.rows("IngressReceipt"))
            not_stored += len(set(acked.read_text().split()) - set(stored))
            duplicated += sum(n - 1 for n in stored.values())
            if not ground.mutant:
                fork(ground.folder, materialize_all, url=url).value()
        if ground.mutant:
            break
        made = Counter(row["ReceiptId"] for row in webhooks.rows("Event"))
        duplicated += sum(n - 1 for n in made.values())
        lost += len(stored) - len(made) + len(books.uncovered_events())
        sites += site_names(log)

        cleaning.empty_database()
        record, log = ground.folder / f"runs-{seed}", ground.folder / f"work-sites-{seed}"
        pack, wanted = Pack(flow="batteries.end"), {}
        for plan, state in PLANS:
            ids = pack.admit(count // len(PLANS), payload={"file": str(record), "plan": plan}, MaxAttempts=9)
            wanted.update(dict.fromkeys(ids, state))
        with behind_proxy(ground, seed + 500, log) as url:
            fork(ground.folder, work, url=url).wait(300)
        rows, tried = books.items(), books.attempts()
        items += len(rows)
        lost += sum(rows[work_id]["State"] != state for work_id, state in wanted.items())
        crooked += len(books.crooked(rows, tried))
        repeated += len(books.ran_too_often(rows, kernel.runs(record)))
        left += sum(attempt["Outcome"] == "lost" for made_ in tried.values() for attempt in made_)
        sites += site_names(log)
    cleaning.empty_database()
    cuts = Counter[str]()
    cut_sites: dict[str, int] = {}
    for (name, cut), n in sorted(sites.items()):
        if cut:
            cuts[cut] += n
            cut_sites[name] = cut_sites.get(name, 0) + n
    figures.note(
        rounds=rounds,
        commit_sites_passed=sum(sites.values()),
        cuts=dict(cuts),
        cuts_by_site=cut_sites,
        deliveries=deliveries_sent,
        answers_other_than_200=dict(refused),
        items=items,
        acked_not_stored=not_stored,
        duplicated=duplicated,
        lost=lost,
        attempts_that_ran_twice=repeated,
        books_that_disagree=crooked,
        claims_left_to_the_reaper=left,
    )
    figures.demand("what was answered with 200 is stored", not_stored == 0)
    figures.demand("no row is there twice", duplicated == 0)
    if ground.mutant:
        return
    figures.demand("nothing was lost, and each item ended as its flow said", lost == 0)
    figures.demand("no attempt ran twice", repeated == 0)
    figures.demand("attempts, epochs and attempt rows agree", crooked == 0)
    figures.demand("every unknown claim and end was settled by its token, none by waiting", left == 0)
    figures.demand("every kind of cut was made", set(cuts) == set(proxy.KINDS[ground.engine]))
