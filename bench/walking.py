"""The walking workload's own process: `python -m bench.walking KIND WIDTH LAPS FILE activate|store|check`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import django


def main(kind: str, width: int, laps: int, file: str, part: str) -> None:
    """Install the pack, store every receipt, or say what became of them."""
    django.setup()
    from tests.support import admission, walking, webhooks
    from tests.support.work import query

    walk = walking.Walk(width=width, laps=laps)
    match part:
        case "activate":
            document = walking.document("bench.walk")
            if kind == "per event":
                document = webhooks.variant("demo", ("demo.apply_deal", "bench.walk"))
            webhooks.activate(document)
        case "store":
            for inputs in walk.steps():
                for source, number in inputs:
                    admission.receive(walking.body(source, number, file))
        case "check":
            faults = walking.faults(walk, Path(file), is_projection=kind == "projection")
            (executions,) = query("SELECT COUNT(*) AS n FROM _System_ConnectorWorkItem")
            print(json.dumps({"faults": faults, "executions": executions["n"]}, default=str))
        case _:
            sys.exit(f"{part} is not activate, store or check")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
