"""Loads work for the worker benchmark, in a process of its own: `python -m bench.loading COUNT [STATE]`.

Prints the pack as JSON, so that the next call adds to the same one.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import django

PAYLOAD = {"event": "deal.updated", "deal": {"id": 4711, "stage": "won", "note": "x" * 800}}
BATCH = 500


def main(count: int, state: str) -> None:
    """Admit items of the flow that does nothing."""
    django.setup()
    from tests.support.work import Pack

    if state:
        pack = Pack.__new__(Pack)
        for name, value in json.loads(state).items():
            setattr(pack, name, value)
    else:
        pack = Pack(namespace="bench", flow="bench.noop")
    for start in range(0, count, BATCH):
        pack.admit(min(BATCH, count - start), payload=PAYLOAD)
    print(json.dumps(asdict(pack)))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
