"""What a benchmark measured: a table for a person, a line of JSON for a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.harness import ROOT
from bench.stats import Ratio, median, paired_ratio

RESULTS = ROOT / "var" / "bench"


@dataclass
class Report:
    """What one benchmark measured, as a table and as a line of JSON.

    Attributes:
        bench: Its name.
        engine: The database.
        quick: Whether it was a smoke run, whose figures mean nothing.
        series: Figures by name, one a round.
        ratios: Comparisons by name.
        goals: Sentence and whether it holds.
        facts: Single figures.
    """

    bench: str
    engine: str
    quick: bool
    series: dict[str, list[float]] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    goals: list[tuple[str, bool]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def add(self, name: str, value: float) -> None:
        """Note one round's figure."""
        self.series.setdefault(name, []).append(value)

    def compare(self, name: str, ours: str, theirs: str) -> Ratio:
        """Compare two series that were measured in the same rounds."""
        ratio = paired_ratio(self.series[ours], self.series[theirs])
        self.ratios[name] = ratio
        return ratio

    def demand(self, sentence: str, holds: bool) -> None:
        """Note a goal and whether it is met."""
        self.goals.append((sentence, holds))

    def show(self) -> None:
        """Print the tables."""
        note = "  SMOKE RUN: the figures mean nothing" if self.quick else ""
        print(f"\n== {self.bench} on {self.engine}, load {self.load_before:.1f} before it{note}")
        for name, values in self.series.items():
            print(f"  {name:<46} {median(values):>12,.2f}   [{min(values):,.2f} .. {max(values):,.2f}]")
        for name, value in self.facts.items():
            print(f"  {name:<46} {value!s:>12}")
        for name, ratio in self.ratios.items():
            print(f"  ratio {name:<40} {ratio!s:>20}   {ratio.rounds} rounds")
        for sentence, holds in self.goals:
            print(f"  {'met   ' if holds else 'MISSED'} {sentence}")
        sys.stdout.flush()

    def store(self) -> None:
        """Append the line to var/bench."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        line = {
            "bench": self.bench,
            "engine": self.engine,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": _commit(),
            "quick": self.quick,
            "cores": os.cpu_count(),
            "load": [round(self.load_before, 2), round(os.getloadavg()[0], 2)],
            "series": {name: [round(value, 4) for value in values] for name, values in self.series.items()},
            "ratios": {
                name: {"median": round(r.median, 4), "low": round(r.low, 4), "high": round(r.high, 4)}
                for name, r in self.ratios.items()
            },
            "facts": self.facts,
            "goals": [{"goal": sentence, "met": holds} for sentence, holds in self.goals],
        }
        with (RESULTS / f"{self.bench}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
