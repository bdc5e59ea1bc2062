"""Pack documents: every problem named by its place, and no value repeated."""

from __future__ import annotations

import pytest

from integration.catalog.consistency import _waits_for_itself
from integration.catalog.documents import PackDocument, parse_pack
from integration.catalog.loading import MAX_DOCUMENT_BYTES, DocumentInvalid, parse_document
from tests.support import webhooks

DEMO = (webhooks.PACKS / "demo.yaml").read_text(encoding="utf-8")


def problems(*replacements: tuple[str, str]) -> dict[str, tuple[str, str]]:
    text = DEMO
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(DocumentInvalid) as caught:
        parse_pack(text.encode(), source="demo.yaml")
    assert caught.value.exit_code == 2
    return {problem.path: (problem.expected, problem.found) for problem in caught.value.problems}


@pytest.mark.parametrize("name", ["demo", "outreach"])
def test_packs__that_ship__are_valid_and_read_back_the_same(name: str):
    pack = webhooks.pack(name)
    assert PackDocument.model_validate_json(pack.canonical()) == pack
    assert webhooks.pack(name).digest() == pack.digest()


def test_validate__names_every_problem_at_once():
    found = problems(
        ("encoding: hex", "encoding: rot13"),
        ("event_kind: event", 'event_kind: "event["'),
        ("factor: 2", "factor: 0"),
        ("org: 00000000", "org: zz"),
        ('version: "1.0.0"', "version: 1.0"),
    )
    assert found == {
        "version": ("a text (quote it)", "a number"),
        "webhooks[0].verifier.encoding": ("'hex' or 'base64'", "a text of 5 characters"),
        "webhooks[0].event_kind": ("a JMESPath expression", "a text of 6 characters"),
        "routes[0].retry.factor": ("greater than or equal to 1", "a number"),
        "binding.org": ("an id of 36 characters in lower case", "a text of 30 characters"),
    }


def test_validate__the_message_names_file_line_and_place():
    with pytest.raises(DocumentInvalid) as caught:
        parse_pack(DEMO.replace("encoding: hex", "encoding: rot13").encode(), source="demo.yaml")
    line = 1 + DEMO[: DEMO.index("encoding: hex")].count("\n")
    message = caught.value.operator_message()
    assert message.startswith(f"demo.yaml:{line}: webhooks[0].verifier.encoding: expected 'hex' or 'base64', found a")


@pytest.mark.parametrize(
    "inline",
    [
        ("webhook: demo", "webhook: 9c1185a5c5e9fc54612808977ee8f548b2258d31"),
        ("webhook: demo", "webhook: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("webhook: demo", "webhook: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("webhook: demo", "webhook: file:relative/path"),
        ("secrets: [webhook]", "secret: 9c1185a5c5e9fc54612808977ee8f548b2258d31"),
        ("secrets: [webhook]", "secrets: [MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]"),
    ],
)
def test_validate__an_inline_secret__is_refused_and_not_repeated(inline: tuple[str, str]):
    with pytest.raises(DocumentInvalid) as caught:
        parse_pack(DEMO.replace(*inline).encode(), source="demo.yaml")
    assert inline[1].rpartition(" ")[2].strip("[]") not in str(caught.value)


@pytest.mark.parametrize(
    ("replacement", "path"),
    [
        (("secrets: [webhook]", "secrets: [another]"), "webhooks[0].verifier.secrets[0]"),
        (("event: deal.updated", "event: deal.created"), "routes[1].event"),
        (("encoding: hex", "message: '{body}{body}'"), "webhooks[0].verifier"),
        (("encoding: hex", "message: '{timestamp}{body}'"), "webhooks[0].verifier"),
        (("encoding: hex", "timestamp: {header: X-Time}"), "webhooks[0].verifier"),
        (("encoding: hex", "message: '{secret}{body}'"), "webhooks[0].verifier"),
        (("cap_seconds: 5", "cap_seconds: 0.1"), "routes[0].retry"),
        (("response_status: 200", "response_status: 500"), "webhooks[0].response_status"),
        (("provider: demo-deals", "provider: demo-deals\nunknown: 1"), "unknown"),
        (("lockhouse: 1", "lockhouse: 2"), "lockhouse"),
        (("namespace: demo", "namespace: a:b"), "binding.namespace"),
        (("binding:", "bound:"), "binding"),
    ],
)
def test_validate__what_does_not_belong_together(replacement: tuple[str, str], path: str):
    assert path in problems(replacement)


PROJECTION = ("execution: per_event", "execution: source_projection\n    reduce: ")


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("{by: merge}", "replay: selected_only"),
        ("{by: custom, replay: selected_only}", "a name and a version"),
        ("{by: custom, name: acme.sum, replay: selected_only}", "a name and a version"),
        ("{by: custom, name: acme.sum, version: 1}", "replay: selected_only"),
        ("{by: last, name: acme.sum}", "a name and a version"),
        ("{by: merge, name: acme.sum, version: 1, replay: selected_only}", "a name and a version"),
    ],
)
def test_validate__a_reducer_that_does_not_hold_together(reduce: str, expected: str):
    found = problems((PROJECTION[0], PROJECTION[1] + reduce))
    assert expected in found["routes[0].reduce"][0]


@pytest.mark.parametrize(
    "reduce",
    [
        "{}",
        "{by: last}",
        "{by: merge, replay: selected_only}",
        "{by: custom, name: acme.sum, version: 1, replay: selected_only}",
    ],
)
def test_validate__a_reducer_that_holds_together_reads_back_the_same(reduce: str):
    pack = parse_pack(DEMO.replace(PROJECTION[0], PROJECTION[1] + reduce, 1).encode(), source="demo.yaml")
    assert pack.routes[0].reduce is not None
    assert PackDocument.model_validate_json(pack.canonical()) == pack


def test_validate__per_event_work_has_nothing_to_reduce():
    found = problems(("execution: per_event", "execution: per_event\n    reduce: {by: last}"))
    assert "source_projection" in found["routes[0]"][0]


def test_validate__an_unknown_way_of_reducing_is_refused():
    assert "routes[0].reduce.by" in problems((PROJECTION[0], PROJECTION[1] + "{by: first}"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", "each key once"),
        ("a: {b: 1, b: 2}\n", "each key once"),
        ("a: &x [1]\nb: *x\n", "no anchors and aliases"),
        ("a: &x 1\n", "no anchors and aliases"),
        ("a: " + "[" * 40 + "]" * 40, "at most 16 levels"),
        ("a: [" + "1," * 10_001 + "]", "at most 10000 values"),
        ("a: " + "x" * MAX_DOCUMENT_BYTES, "at most 262144 bytes"),
        ("a: [", "one YAML document"),
        ("a: 1\n---\nb: 2\n", "one YAML document"),
        ("- a\n", "a mapping at the top"),
        ("", "a mapping at the top"),
        ("a: !!python/object/apply:os.system [x]\n", "plain YAML values"),
        ("on: 1\n", "a text as key (quote it)"),
        ("1: 1\n", "a text as key (quote it)"),
        ("<<: {a: 1}\n", "a text as key (quote it)"),
        ("a: 2026-13-45\n", "plain YAML values"),
    ],
)
def test_parse__beyond_the_limits__is_refused(text: str, expected: str):
    with pytest.raises(DocumentInvalid) as caught:
        parse_document(text.encode(), source="x.yaml")
    assert [problem.expected for problem in caught.value.problems] == [expected]


def test_parse__other_bytes__is_refused():
    with pytest.raises(DocumentInvalid, match="UTF-8"):
        parse_document(b"\xff\xfe", source="x.yaml")


RETRY = "retry: {max_attempts: 3"
TARGET = """    target_lane: "deal.id && join(':', ['deal', to_string(deal.id)])"\n"""


@pytest.mark.parametrize(
    ("awaited", "without_lane", "expected"),
    [("account.created", True, "a target_lane"), ("deal.created", False, "another event than the route's own")],
)
def test_route__that_waits_for_what_cannot_be_looked_for_is_refused(awaited: str, without_lane: bool, expected: str):
    waits = (RETRY, f"waits_for: {awaited}\n    {RETRY}")
    with pytest.raises(DocumentInvalid, match=expected):
        webhooks.variant("demo", waits, *([(TARGET, "")] if without_lane else []))


def test_route__of_a_projection_that_would_stop_its_lane_for_a_replay_that_waits_for_it_is_refused():
    flow = "flow: {name: demo.apply_deal, version: 1}"
    block = (flow, f"on_dead: block\n    {flow}")
    assert {route.on_dead for route in webhooks.variant("demo", block).routes} >= {"block"}
    with pytest.raises(DocumentInvalid, match="on_dead: pass for a source_projection"):
        webhooks.variant("demo", block, ("execution: per_event", "execution: source_projection"))


def test_routes__that_wait_for_each_other_are_refused_since_neither_could_begin():
    deals = [f"event: deal.{name}\n    version: 1" for name in ("created", "updated")]
    waits = [
        (deal, f"{deal}\n    waits_for: deal.{other}")
        for deal, other in zip(deals, ("updated", "created"), strict=True)
    ]
    assert {route.waits_for for route in webhooks.variant("demo", waits[0]).routes} == {"deal.updated", None}
    with pytest.raises(DocumentInvalid, match="does not wait for this one in turn"):
        webhooks.variant("demo", *waits)


def test_route__behind_routes_that_wait_for_each_other_is_not_blamed_for_them():
    awaited: dict[str, str | None] = {"a": "b", "b": "c", "c": "b", "d": None, "e": "gone"}
    assert [kind for kind in awaited if _waits_for_itself(kind, awaited)] == ["b", "c"]


def test_route__that_waits_for_another_event_says_so():
    document = webhooks.variant("demo", (RETRY, f"waits_for: account.created\n    {RETRY}"))
    assert {route.waits_for for route in document.routes} == {"account.created"}
    assert {route.waits_for for route in webhooks.pack().routes} == {None}
