"""The payload that every side's jobs carry."""

from __future__ import annotations

from typing import Any, Final

PAYLOAD: Final[dict[str, Any]] = {"event": "deal.updated", "deal": {"id": 4711, "stage": "won", "note": "x" * 800}}
