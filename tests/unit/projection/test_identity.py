"""The encodings of projection identity and source scope are injective: the bytes can be read back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from integration.projection.identity import ProjectionIdentity, SourceScope
from integration.values import digest_parts, encode_parts

pytestmark = pytest.mark.evidence("P-22")

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)
#: Texts that meet at their borders, so that an encoding that only joins them is caught.
BORDER = st.text(alphabet="a:/+-\x00\x01", max_size=4)
OPTIONAL = st.none() | BORDER
IDENTITIES = st.builds(
    ProjectionIdentity,
    pack_install_id=BORDER | TEXT,
    event_kind=BORDER | TEXT,
    route_version=st.integers(min_value=0, max_value=2**31 - 1),
    companion_pack_name=OPTIONAL,
    companion_pack_version=OPTIONAL,
    flow_name=BORDER | TEXT,
    flow_version=BORDER,
    work_type=BORDER,
    source_lane=BORDER | TEXT,
)
SCOPES = st.builds(SourceScope, namespace=BORDER | TEXT, event_kind=BORDER | TEXT, source_lane=BORDER | TEXT)


def parts_of(encoded: bytes) -> list[str]:
    parts = []
    while encoded:
        size, encoded = int.from_bytes(encoded[:8], "big"), encoded[8:]
        parts.append(encoded[:size].decode())
        encoded = encoded[size:]
    return parts


def optional_of(part: str) -> str | None:
    return None if part == "-" else part.removeprefix("+")


@hypothesis_settings(deadline=None, max_examples=500)
@given(parts=st.lists(BORDER | TEXT, max_size=6))
def test_encode_parts__is_read_back_whole(parts: list[str]):
    assert parts_of(encode_parts(*parts)) == parts


@hypothesis_settings(deadline=None, max_examples=500)
@given(identity=IDENTITIES)
def test_identity__is_read_back_from_its_bytes(identity: ProjectionIdentity):
    domain, pack, kind, version, name, companion, flow, flow_version, work_type, lane = parts_of(identity.encoded())

    found = ProjectionIdentity(
        pack_install_id=pack,
        event_kind=kind,
        route_version=int(version),
        companion_pack_name=optional_of(name),
        companion_pack_version=optional_of(companion),
        flow_name=flow,
        flow_version=flow_version,
        work_type=work_type,
        source_lane=lane,
    )
    assert (found, domain) == (identity, "projection-identity/1")


@hypothesis_settings(deadline=None, max_examples=500)
@given(first=IDENTITIES, second=IDENTITIES)
def test_key__is_the_same_only_for_the_same_identity(first: ProjectionIdentity, second: ProjectionIdentity):
    assert (first.key() == second.key()) == (first == second)
    assert len(first.key()) == 64
    assert set(first.key()) <= set("0123456789abcdef")


@hypothesis_settings(deadline=None, max_examples=300)
@given(identity=IDENTITIES, field=st.sampled_from(list(ProjectionIdentity.__dataclass_fields__)), changed=BORDER)
def test_key__depends_on_every_field(identity: ProjectionIdentity, field: str, changed: str):
    value: Any = identity.route_version + 1 if field == "route_version" else changed
    other = replace(identity, **{field: value})

    assert (other.key() == identity.key()) == (getattr(identity, field) == value)


@hypothesis_settings(deadline=None, max_examples=500)
@given(first=SCOPES, second=SCOPES)
def test_scope__is_read_back_and_keyed_apart(first: SourceScope, second: SourceScope):
    domain, namespace, kind, lane = parts_of(first.encoded())

    assert SourceScope(namespace=namespace, event_kind=kind, source_lane=lane) == first
    assert domain == "source-scope/1"
    assert (first.key() == second.key()) == (first == second)


def test_keys__of_identity_and_scope_never_meet():
    scope = SourceScope(namespace="n", event_kind="k", source_lane="l")

    assert scope.key() == digest_parts("source-scope/1", "n", "k", "l")
    assert scope.encoded() != encode_parts("projection-identity/1", "n", "k", "l")


def test_nothing__is_not_the_empty_text():
    identity = ProjectionIdentity(
        pack_install_id="p",
        event_kind="k",
        route_version=1,
        companion_pack_name=None,
        companion_pack_version=None,
        flow_name="f",
        flow_version="1",
        work_type="connector_event",
        source_lane="l",
    )

    keys = {
        replace(identity, companion_pack_name=name, companion_pack_version=version).key()
        for name in (None, "", "-", "+")
        for version in (None, "", "-", "+")
    }
    assert len(keys) == 16


def test_identity__of_a_row_is_the_identity_of_its_route():
    row = {
        "PackInstallId": "p",
        "EventKind": "k",
        "RouteVersion": 3,
        "CompanionPackName": None,
        "CompanionPackVersion": None,
        "FlowName": "f",
        "FlowVersion": "2",
        "WorkType": "connector_event",
        "SourceLane": "l",
    }

    assert ProjectionIdentity.of_work_item(row) == ProjectionIdentity(
        pack_install_id="p",
        event_kind="k",
        route_version=3,
        companion_pack_name=None,
        companion_pack_version=None,
        flow_name="f",
        flow_version="2",
        work_type="connector_event",
        source_lane="l",
    )
