"""procrastinate as its documentation sets it up.

`python -m bench.peers.procrastinate.app schema`, `... load COUNT [INTERVAL]`, `... work CONCURRENCY`.
"""

from __future__ import annotations

import asyncio
import os
import sys

import procrastinate

from bench.pacing import note, pace
from bench.payload import PAYLOAD

_BATCH = 1000
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["PEER_URL"]))


@app.task(name="noop")
def noop(payload: dict[str, object]) -> None:
    """Do nothing with a payload of the same size as the other sides'."""
    if "at" in payload:
        note(float(str(payload["at"])))


def _connector() -> procrastinate.SyncPsycopgConnector:
    return procrastinate.SyncPsycopgConnector(conninfo=os.environ["PEER_URL"])


def _enqueue(count: int, interval_seconds: float) -> None:
    with app.replace_connector(_connector()) as opened, opened.open():
        if interval_seconds:
            pace(count, interval_seconds, lambda at: noop.defer(payload={**PAYLOAD, "at": at}))
            return
        for start in range(0, count, _BATCH):
            noop.batch_defer(*[{"payload": PAYLOAD}] * min(_BATCH, count - start))


async def _work(concurrency: int) -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=concurrency)


def main(command: str, *numbers: str) -> None:
    """Do what was asked for."""
    match command:
        case "schema":
            with app.replace_connector(_connector()) as opened, opened.open():
                opened.schema_manager.apply_schema()
        case "load":
            _enqueue(int(numbers[0]), float(numbers[1]) if len(numbers) > 1 else 0.0)
        case "work":
            asyncio.run(_work(int(numbers[0])))
        case _:
            sys.exit(f"{command} is not schema, load or work")


if __name__ == "__main__":
    main(*sys.argv[1:])
