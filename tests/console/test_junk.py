"""What a person or a scanner may type into an address: answered as junk, on both databases, never as a failure."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.test import Client

from tests.support.rows import Installation

#: MariaDB refuses to compare an ASCII column with any of these.
NOT_ASCII = ["é", "漢字", "\U0001f600", "\u202e", "\uff11" * 36, "work_item:é"]
#: Times that exist in their own zone and not in UTC.
NEVER = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
WORK_STATES = ["", "pending", "processing", "succeeded", "dead"]


@pytest.fixture
def everyone(signed_in, installation: Installation) -> Client:
    """Return a client that may see every list."""
    installation.work()
    return signed_in("alma", "Viewer", "Auditor")


@pytest.mark.parametrize("place", ["/work/{}/", "/receipts/{}/"])
@pytest.mark.parametrize("text", NOT_ASCII)
def test_junk__in_place_of_an_id_is_nothing_here(place: str, text: str, everyone: Client) -> None:
    assert 404 == everyone.get(place.format(quote(text))).status_code


@pytest.mark.parametrize("state", WORK_STATES)
@pytest.mark.parametrize("text", NOT_ASCII)
def test_junk__in_a_cursor_of_work_is_refused(state: str, text: str, everyone: Client) -> None:
    for cursor in (f">{text}", f"<2026-01-01T00:00:00+00:00~{text}", f">2026-01-01T00:00:00+00:00~{text}~{text}"):
        assert 400 == everyone.get("/work/", {"state": state, "cursor": cursor}).status_code, cursor


@pytest.mark.parametrize("text", NOT_ASCII)
def test_junk__in_a_cursor_of_receipts_is_refused(text: str, everyone: Client) -> None:
    cursor = f"2026-01-01T00:00:00+00:00~{text}~acme"
    assert 400 == everyone.get("/receipts/", {"cursor": cursor}).status_code


@pytest.mark.parametrize(
    "address", ["/work/?state=pending&cursor=>{}~x", "/receipts/?cursor={}~x~x", "/audit/?cursor=>{}~x"]
)
@pytest.mark.parametrize("moment", NEVER)
def test_junk__a_cursor_of_a_time_that_never_was_is_refused(address: str, moment: str, everyone: Client) -> None:
    assert 400 == everyone.get(address.format(quote(moment))).status_code


@pytest.mark.parametrize("name", ["died_after", "died_before"])
def test_junk__a_filter_by_a_time_that_never_was_is_refused(name: str, everyone: Client) -> None:
    zoned = {"tz": "America/New_York", name: "9999-12-31T23:59"}
    assert 400 == everyone.get("/dlq/", zoned).status_code
    assert 200 == everyone.get("/dlq/", zoned | {name: "2026-01-01T12:00"}).status_code


def test_junk__a_filter_by_time_is_shown_in_the_zone_that_it_was_given_in(everyone: Client) -> None:
    text = everyone.get("/dlq/", {"tz": "America/New_York", "died_after": "2026-01-01T12:00"}).content.decode()
    assert "2026-01-01 12:00" in text
    assert "2026-01-01 17:00" not in text
