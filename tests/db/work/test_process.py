"""A worker's own row and its fences, asked for by several of its threads."""

from __future__ import annotations

import threading

import pytest

from integration.work import process as module
from integration.work.process import Fence, WorkerProcess
from tests.support.work import query

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_open", [True, False])
def test_beat__does_not_wait_for_a_fence_whose_pack_another_holds(process: WorkerProcess, monkeypatch, is_open: bool):
    asked, held = threading.Event(), threading.Event()

    def register(fence: Fence, _: WorkerProcess) -> Fence | None:
        asked.set()
        assert held.wait(60)
        return fence if is_open else None

    monkeypatch.setattr(module, "_register_fence", register)
    process.pack_ids()
    process._packs = {"pack": ("older",)}
    found: list[Fence | None] = []
    threads = [threading.Thread(target=lambda: found.append(process.fence_for("pack"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert asked.wait(60)
        beating = threading.Thread(target=process._all_ids)
        beating.start()
        beating.join(30)
        assert not beating.is_alive(), "what a heartbeat needs is held"
        process.beat(in_flight=3)
    finally:
        held.set()
        for thread in threads:
            thread.join()

    assert query("SELECT InFlight FROM _System_ConnectorClaimProcess") == [{"InFlight": 3}]
    assert len({None if fence is None else fence.process_id for fence in found}) == 1, "one registers, both have it"
    assert (found[0] is not None, process.closed_pack_ids()) == ((True, ()) if is_open else (False, ("pack",)))
    if found[0] is not None:
        assert found[0].older_pack_install_ids == ("older",)
