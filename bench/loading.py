"""Admits work in a process of its own: `python -m bench.loading COUNT FLOW [STATE] [--interval SECONDS]`.

Prints the pack as JSON, so that the next call adds to the same one.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

import django

from bench.pacing import pace
from bench.payload import PAYLOAD

_BATCH = 500


def main(count: int, flow: str, state: str, interval_seconds: float) -> None:
    """Admit items of a flow: many a statement, or one at a time at a pace."""
    django.setup()
    from tests.support.work import Pack

    if state:
        pack = Pack.__new__(Pack)
        for name, value in json.loads(state).items():
            setattr(pack, name, value)
    else:
        pack = Pack(namespace="bench", flow=flow)
    if interval_seconds:
        pace(count, interval_seconds, lambda at: pack.admit(payload={**PAYLOAD, "at": at}))
    else:
        for start in range(0, count, _BATCH):
            pack.admit(min(_BATCH, count - start), payload=PAYLOAD)
    print(json.dumps(asdict(pack)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("flow")
    parser.add_argument("state", nargs="?", default="")
    parser.add_argument("--interval", type=float, default=0.0)
    options = parser.parse_args()
    main(options.count, options.flow, options.state, options.interval)
