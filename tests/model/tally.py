"""What a run came to: steps, transitions, refusals, faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.model.moves import ILLEGAL, LEGAL


@dataclass(slots=True)
class Tally:
    """Counts over all examples of a run.

    Attributes:
        steps: Rules that ran, each followed by every check.
        examples: How often the machine began anew.
        made: Transitions, by name and the state that they left.
        refused: Statements that matched nothing, by name and state, where the model permits nothing.
        other: What else happened, by name.
        failure: The first failure.
    """

    steps: int = 0
    examples: int = 0
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    failure: Exception | None = None

    def clear(self) -> None:
        """Begin anew."""
        self.steps = self.examples = 0
        for counts in (self.made, self.refused, self.other):
            counts.clear()
        self.failure = None

    def missing(self) -> list[tuple[str, str]]:
        """Return the legal transitions that were never made."""
        return sorted(LEGAL - set(self.made))

    def untried(self) -> list[tuple[str, str]]:
        """Return the illegal pairs that were never tried."""
        return sorted(ILLEGAL - set(self.refused))

    def summary(self) -> dict[str, Any]:
        """Return the counts as JSON takes them."""
        return {
            "steps": self.steps,
            "examples": self.examples,
            "transitions_covered": f"{len(LEGAL & set(self.made))} of {len(LEGAL)}",
            "transitions_missing": self.missing(),
            "illegal_pairs_tried": f"{len(ILLEGAL & set(self.refused))} of {len(ILLEGAL)}",
            "illegal_attempts_refused": sum(self.refused.values()),
            "made": {f"{name} from {state}": count for (name, state), count in sorted(self.made.items())},
            "other": dict(sorted(self.other.items())),
        }


#: Where every machine of this process counts.
tally = Tally()
