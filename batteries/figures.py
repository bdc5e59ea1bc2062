"""What a battery found: figures, and the sentences that must hold. One JSON line, and a summary to read."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
#: Where results are kept; a test has a folder of its own, since others write to this one at the same time.
RESULTS: Final = Path(os.environ.get("LOCKHOUSE_BATTERY_RESULTS") or ROOT / "var" / "batteries")


@dataclass
class Figures:
    """The result of one battery on one database.

    Attributes:
        battery: Its name.
        engine: The database.
        form: `shortest`, `short` or `long`.
        seed: What its random choices came from.
        mutant: Whether the guard was taken away.
        values: Figures by name.
        goals: Sentences, each with whether it holds.
    """

    battery: str
    engine: str
    form: str
    seed: int
    mutant: bool
    values: dict[str, Any] = field(default_factory=dict)
    goals: list[tuple[str, bool]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def note(self, **values: Any) -> None:
        """Keep figures."""
        self.values.update(values)

    def demand(self, sentence: str, holds: bool) -> None:
        """Keep a sentence that must hold."""
        self.goals.append((sentence, bool(holds)))

    @property
    def holds(self) -> bool:
        """Whether everything that was demanded holds; nothing demanded is nothing shown."""
        return bool(self.goals) and all(holds for _, holds in self.goals)

    def show(self) -> None:
        """Print the summary."""
        guard = ", guard removed" if self.mutant else ""
        seconds = time.monotonic() - self.started
        print(f"== {self.battery} on {self.engine} ({self.form}, seed {self.seed}{guard}), {seconds:.0f} s")
        for name, value in self.values.items():
            print(f"   {name}: {value}")
        for sentence, holds in self.goals:
            print(f"   {'holds ' if holds else 'BROKEN'}  {sentence}", flush=True)

    def store(self) -> None:
        """Append the JSON line."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        line = {
            "battery": self.battery,
            "engine": self.engine,
            "form": self.form,
            "seed": self.seed,
            "mutant": self.mutant,
            "holds": self.holds,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": _commit(),
            "seconds": round(time.monotonic() - self.started, 1),
            "load": round(os.getloadavg()[0], 1),
            "figures": self.values,
            "goals": [{"goal": sentence, "holds": holds} for sentence, holds in self.goals],
        }
        with (RESULTS / f"{self.battery}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip()
