"""A pack that admits work, and a process that may claim it."""

from __future__ import annotations

import pytest

from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim, claim
from integration.work.items import Candidate, candidate_from_row
from integration.work.process import WorkerProcess, register_process
from tests.support.work import Pack, due_rows


@pytest.fixture
def pack(db) -> Pack:
    return Pack()


@pytest.fixture
def process(pack: Pack) -> WorkerProcess:
    return register_process(roles=frozenset({"claim"}), concurrency=2, build_version="tests")


@pytest.fixture
def queue(process: WorkerProcess) -> CandidateQueue:
    return CandidateQueue(process)


def candidates() -> dict[str, Candidate]:
    """Return every due candidate by its WorkId, lanes left out of account."""
    return {row["WorkId"]: candidate_from_row(row) for row in due_rows()}


@pytest.fixture
def take(pack: Pack, process: WorkerProcess):
    """Claim one item by its WorkId."""

    def claimed(work_id: str, **options: int) -> Claim:
        item = candidates()[work_id]
        fence = process.fence_for(item.pack_install_id)
        assert fence is not None
        (taken,) = claim((item,), fence, **options).claims
        return taken

    return claimed
