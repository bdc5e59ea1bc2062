"""References, cursors, reasons and requests: what callers hand in."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration import errors
from integration.audit.policy import check_reason
from integration.authority import policy, requests
from integration.authority.cursors import Cursor, Place
from integration.authority.facts import Facts
from integration.authority.values import Ref, RefKind, Refused, Ruling
from integration.values import Actor

ID = "0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (ID, RefKind.ANY),
        (f" {ID.upper()} ", RefKind.ANY),
        (f"event:{ID}", RefKind.EVENT),
        (f"work_item:{ID}", RefKind.WORK_ITEM),
    ],
)
def test_ref__reads_an_id_with_or_without_its_kind(text: str, kind: RefKind):
    ref = Ref.parse(text)
    assert (ref.id, ref.kind) == (ID, kind)
    assert Ref.parse(str(ref)) == ref


@pytest.mark.parametrize(
    "text", ["", "x", ID[:-1], f"{ID}0", f"any:{ID}", f"pack:{ID}", f":{ID}", f"event:event:{ID}", f"{ID}\n{ID}"]
)
def test_ref__refuses_anything_else(text: str):
    with pytest.raises(errors.InvalidInput) as caught:
        Ref.parse(text)
    assert caught.value.data_fields == {"field": "ref"}


@given(st.datetimes(timezones=st.just(UTC)), st.uuids(), st.booleans())
def test_cursor__comes_back_as_it_was(moment, identity, is_older):

    cursor = Cursor(place=Place(at=moment, id=str(identity)), is_older=is_older)
    assert Cursor.decode(cursor.encode()) == cursor


@given(st.text(max_size=80))
def test_cursor__refuses_what_it_did_not_make(text: str):
    with pytest.raises(errors.InvalidInput):
        Cursor.decode(text)


@given(st.text(alphabet=st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=500))
def test_reason__that_is_printable_stays_as_it_is(text: str):
    assert check_reason(text) == text


@given(st.characters(categories=["Cc", "Cs"]), st.text(alphabet="abc ", max_size=20))
def test_reason__with_a_control_character_inside_is_refused(character: str, text: str):
    with pytest.raises(errors.InvalidInput) as caught:
        check_reason(f"a{text}{character}{text}b")
    assert caught.value.data_fields["found"] == f"U+{ord(character):04X}"


def test_request__is_the_actors_own():
    maria, boris = Actor(user_id=1, name="maria"), Actor(user_id=2, name="boris")
    digests = {
        requests.digest_request(maria, "k"),
        requests.digest_request(boris, "k"),
        requests.digest_request(maria, "k2"),
        requests.digest_request(Actor(user_id=None, name="1"), "k"),
    }
    assert len(digests) == 4
    assert requests.digest_request(maria, None) is None


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb"])
def test_request__refuses_a_key_that_is_not_one(key: str):
    with pytest.raises(errors.InvalidInput):
        requests.digest_request(Actor(user_id=1, name="maria"), key)


def test_rules__answer_for_facts_that_are_missing():
    verdicts = policy.judge(Facts(may_view=True, may_replay=True))
    others = [Ruling.NOT_REACHED] * (len(policy.RULES) - 2)
    assert [verdict.ruling for verdict in verdicts] == [Ruling.OK, Ruling.REFUSED, *others]
    assert policy.first_refusal(Facts(may_view=True, may_replay=True)).code == "not_found"


def test_rules__have_one_code_each():
    codes = [verdict.code for verdict in policy.judge(Facts(may_view=False, may_replay=False))]
    assert len(codes) == len(set(codes)) == len(policy.RULES)


@pytest.mark.parametrize(
    ("code", "status", "exit_code"), [("not_found", 404, 4), ("permission_denied", 403, 5), ("not_dead", 409, 3)]
)
def test_refusal__maps_to_a_status_and_an_exit_code(code: str, status: int, exit_code: int):
    refused = Refused(code=code, sentence="s", next_step="n")
    assert (refused.http_status, refused.exit_code) == (status, exit_code)
