"""The one way in which a body becomes a JSON value, when its events are derived and when a flow is given them.

Both must find the same, or what was admitted could not be executed. Of a key that stands twice the last one counts,
as every common parser has it; what other parsers read differently is refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

#: How deep a body may be nested. Parsers stop at some depth of their own, which differs by where they are called.
MAX_DEPTH: Final = 200
# A string that does not end takes the rest at once: begun again at each of its quotes, a body would take hours.
_OPENING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{\]}]', re.DOTALL)


class NotJson(ValueError):
    """The bytes are not JSON as it is read here; their content stands in no message."""


def read_json(body: bytes) -> Any:
    """Return a body's JSON value.

    Args:
        body: The raw bytes.

    Returns:
        The value; every number in it is finite.

    Raises:
        NotJson: It is not UTF-8, not JSON, nested too deep, or holds NaN, an infinity or a number beyond the range of
            a double.
    """
    try:
        text = body.decode("utf-8-sig")
        if _is_too_deep(body):
            raise NotJson
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        raise NotJson from None


def _is_too_deep(body: bytes) -> bool:
    # Few bodies have so many brackets, and only those are looked through.
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for found in _OPENING.finditer(body):
        token = found.group()
        if token in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token in b"]}":
            depth -= 1
    return False


def _refuse(_name: str) -> NoReturn:
    raise ValueError


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number
