"""What repeats in a bulk replay, so that it is halted before it does the same to every row. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from integration.batches.values import ItemOutcome
from integration.states import WorkItemState
from integration.storage.db import Row

#: The halt's code when it is the children that die.
CHILD_DEAD: Final = "child_dead"


def repeated_code(ended: Sequence[Row], halt_after: int) -> str | None:
    """Return the code with which the last items were not replayed, if it was the same for all of them.

    Args:
        ended: Ended items, the last one first.
        halt_after: How many the last ones are.
    """
    last = ended[:halt_after]
    codes = {row["code"] for row in last}
    is_same = len(last) == halt_after and len(codes) == 1
    return codes.pop() if is_same and last[0]["outcome"] != ItemOutcome.REPLAYED else None


def dead_children(children: Sequence[Row], halt_after: int) -> bool:
    """Return whether the children that ended last all died.

    Args:
        children: The state and the terminal time of children, in any order.
        halt_after: How many the last ones are.
    """
    ended = sorted(
        (row for row in children if row["TerminalAt"] is not None),
        key=lambda row: (row["TerminalAt"], row["WorkId"]),
        reverse=True,
    )
    last = ended[:halt_after]
    return len(last) == halt_after and all(row["State"] == WorkItemState.DEAD for row in last)
