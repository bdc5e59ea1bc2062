"""What a worker remembers: the resident memory of one process over a hundred thousand items, flat or not."""

from __future__ import annotations

import time

from bench.harness import Server, resident_mib, workspace
from bench.report import Report
from bench.sides import Lockhouse
from bench.stats import median, slope

#: By then it has loaded what it uses.
_WARM_SHARE = 0.1
_FLAT = 1.05


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; rounds mean nothing here: the process is the same from the first item to the last."""
    del rounds
    count, every = (4_000, 0.2) if quick else (100_000, 1.0)
    report = Report(bench="memory", engine=server.engine, quick=quick)
    report.facts |= {"items": count, "worker processes": 1}
    with workspace() as work:
        ours = Lockhouse(work, server, "lockhouse", "lockhouse")
        ours.load(count)
        samples: list[tuple[int, float]] = []
        started = time.monotonic()
        with ours.start(1) as running:
            while not samples or samples[-1][0] < count:
                if running[0].poll() is not None:
                    message = "the worker ended"
                    raise RuntimeError(message)
                time.sleep(every)
                samples.append((ours.count("succeeded"), resident_mib([running[0].pid])))
        report.facts["seconds"] = round(time.monotonic() - started, 1)
    warm = [sample for sample in samples if sample[0] >= _WARM_SHARE * count]
    for done, resident in warm:
        report.add("RSS MiB", resident)
        report.add("RSS MiB, items by then", done)
    tenth = max(len(warm) // 10, 1)
    first, last = (median([resident for _, resident in part]) for part in (warm[:tenth], warm[-tenth:]))
    report.facts |= {
        "RSS after a tenth, MiB": round(first, 1),
        "RSS at the end, MiB": round(last, 1),
        "RSS at the end / after a tenth": round(last / first, 3),
        "MiB for every 100,000 items": round(100_000 * slope(warm), 2) if len({done for done, _ in warm}) > 1 else None,
    }
    report.demand(f"RSS at the end <= {_FLAT} x after a tenth", last <= _FLAT * first)
    return report
