"""Two requests of one account for one row at once: the trail has one entry of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.audit.reads import verify_chain
from tests.concurrency.audit import racers
from tests.support.authority import audit_entries
from tests.support.processes import race

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
LOOK = f"{racers.__name__}:look"


@pytest.mark.parametrize(
    ("head_first", "wrote"),
    [
        pytest.param(True, [False, True], id="guarded"),
        # The negative control: the loser takes the place behind the winner, whose entry it did not see.
        pytest.param(False, [True, True], id="unguarded"),
    ],
)
def test_once__of_two_that_found_no_earlier_entry_one_writes(
    database_url: str, tmp_path: Path, head_first: bool, wrote: list[bool]
) -> None:
    parts = [{"part": "stays", "head_first": head_first}, {"part": "writes"}]
    assert race(LOOK, [{**part, "folder": str(tmp_path)} for part in parts], database_url) == wrote
    assert len(audit_entries()) == sum(wrote)
    assert verify_chain().breaks == ()
