"""Bodies that parsers disagree about: each is refused by name or means one thing."""

from __future__ import annotations

import json
import time

import pytest

from integration.ingress.json_bodies import MAX_DEPTH, NotJson, read_json


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    return (opening * depth + closing * depth).encode()


@pytest.mark.parametrize(
    "body",
    [
        nested(1_000),
        nested(1_000, '{"a":[', "]}").replace(b"[]", b"[1]"),
        nested(MAX_DEPTH + 1),
        b"[" * 100_000,
        b'{"a": 1e999}',
        b'{"a": -1e999}',
        b'{"a": [1, {"b": 1E+400}]}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-32"),
        b"{'a': 1}",
        b'{"a": 1} x',
        b"",
    ],
)
def test_read_json__refuses_what_is_not_json_or_not_finite_or_too_deep(body: bytes):
    with pytest.raises(NotJson) as caught:
        read_json(body)
    assert str(caught.value) == ""


@pytest.mark.parametrize(
    "value",
    [
        1.7976931348623157e308,
        -1.5,
        10**400,
        2**63,
        "[" * 5_000 + '\\"{' + "]" * 10,
        {"a": ["]", '"', "\\", {"b": None}]},
        [[]] * 5_000,
        "\U0001f600 ä",
        True,
    ],
)
def test_read_json__returns_what_the_provider_wrote(value: object):
    assert read_json(json.dumps(value).encode()) == value


def test_read_json__takes_any_depth_up_to_the_limit():
    value = read_json(nested(MAX_DEPTH))
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []


def test_read_json__of_a_key_that_stands_twice_takes_the_last():
    assert read_json(b'{"id": 1, "a": {"id": 2, "id": 3}, "id": 4}') == {"id": 4, "a": {"id": 3}}


def test_read_json__passes_over_a_byte_order_mark():
    assert read_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@pytest.mark.parametrize("rest", [b'"' + b'\\"' * 500_000, b'"' + b'\\"' * 500_000 + b"\\", b'"a":' * 200_000 + b'"'])
def test_read_json__of_a_string_that_does_not_end_takes_one_pass(rest: bytes):
    began = time.process_time()
    with pytest.raises(NotJson):
        read_json(b"[]" * (MAX_DEPTH + 1) + rest)
    # Begun again at each quote, this takes hours.
    assert time.process_time() - began < 20
