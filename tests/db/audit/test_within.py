"""The trail of the namespaces in which a reader may read it: everybody's, without the other entries."""

from __future__ import annotations

import json

import pytest

from integration import errors
from integration.audit import reads
from integration.audit.listing import AuditFilters
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.exports import service
from integration.exports.policy import Format
from integration.exports.service import AUDIT_PERMISSION
from integration.scopes import EVERYWHERE, MOST_NAMESPACES, NOWHERE, Place, Scope
from integration.values import SYSTEM_ACTOR, Actor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("A-32")]
NAMES = ("alpha", "Alpha", "beta", "gamma", None)


def scope(*names: str) -> Scope:
    return Scope.of(Place(org_id="o", namespace=name) for name in names)


def walk(filters: AuditFilters, within: Scope, limit: int, *, oldest_first: bool = False) -> list[str]:
    """Return the ids of every page to the end."""
    found, cursor = [], None
    while True:
        page = reads.list_entries(filters, cursor, limit, within=within, oldest_first=oldest_first)
        found += [entry.id for entry in page.entries]
        cursor = page.newer if oldest_first else page.older
        if cursor is None:
            return found


@pytest.fixture
def told() -> None:
    """Thirty entries of four namespaces, and of none, in turns, of two outcomes."""
    for number in range(30):
        record_alone(
            AuditFact(
                action="work_item.replayed",
                outcome=AuditOutcome.DONE if number % 3 else AuditOutcome.REFUSED,
                actor=SYSTEM_ACTOR,
                ref_kind="work_item",
                ref_id=f"r-{number}",
                namespace=NAMES[number % len(NAMES)],
            )
        )


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("outcome", [None, "refused"])
def test_trail__of_two_namespaces_is_everybodys_without_the_rest(
    told: None, outcome: str | None, limit: int, oldest_first: bool
):
    filters = AuditFilters(outcome=outcome)
    everything = reads.list_entries(filters, None, 500, oldest_first=oldest_first).entries
    wanted = [entry.id for entry in everything if entry.namespace in {"alpha", "gamma"}]
    assert wanted == walk(filters, scope("alpha", "gamma"), limit, oldest_first=oldest_first)


def test_trail__is_paged_back_to_where_it_began(told: None):
    within = scope("alpha", "gamma")
    first = reads.list_entries(AuditFilters(), None, 5, within=within)
    second = reads.list_entries(AuditFilters(), first.older, 5, within=within)
    assert first.entries == reads.list_entries(AuditFilters(), second.newer, 5, within=within).entries


def test_trail__of_nowhere_and_of_a_namespace_elsewhere_has_no_entry(told: None):
    for within, name in ((NOWHERE, None), (scope("alpha"), "beta"), (scope("alpha"), "no-such")):
        page = reads.list_entries(AuditFilters(namespace=name), within=within)
        assert ((), None, None, None) == (page.entries, page.newer, page.older, page.searched_to)
    assert 6 == len(reads.list_entries(AuditFilters(namespace="beta"), within=EVERYWHERE).entries)
    with pytest.raises(errors.InvalidInput, match="name one of them"):
        reads.list_entries(AuditFilters(), within=scope(*(f"n{number}" for number in range(MOST_NAMESPACES + 1))))


def test_search__that_stops_at_its_bound_tells_nothing_of_others(told: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "_WINDOWS", (2,))
    hidden = {entry.id for entry in reads.list_entries(AuditFilters(), None, 500).entries if entry.namespace == "beta"}
    filters, cursor, cursors = AuditFilters(outcome="refused"), None, []
    while True:
        page = reads.list_entries(filters, cursor, 1, within=scope("alpha", "gamma"))
        cursor = page.older
        if cursor is None:
            break
        cursors.append(cursor)
    assert cursors
    assert [] == [cursor for cursor in cursors if any(one in cursor for one in hidden)]
    assert 4 == len(walk(filters, scope("alpha", "gamma"), 1))


def test_export__has_the_own_entries_alone(told: None):
    actor = Actor(user_id=9, name="otto", scopes={AUDIT_PERMISSION: scope("beta")})
    document = json.loads("".join(service.export_audit(AuditFilters(), actor=actor, form=Format.JSON)))
    assert {"beta"} == {row["namespace"] for row in document["rows"]}
    elsewhere = service.export_audit(AuditFilters(namespace="alpha"), actor=actor, form=Format.JSON)
    assert [] == json.loads("".join(elsewhere))["rows"]
    with pytest.raises(errors.NotAllowed):
        service.export_audit(AuditFilters(), actor=Actor(user_id=9, name="otto"), form=Format.JSON)
