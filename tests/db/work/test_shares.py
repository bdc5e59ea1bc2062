"""Several claimers of one table: each looks at its own slots, and nothing that one of them leaves is left for good."""

from __future__ import annotations

import pytest

from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_next
from integration.work.finish import complete
from integration.work.items import candidate_from_row
from integration.work.process import WorkerProcess, register_process
from integration.work.shares import LEFT_SECONDS, SPARE_SECONDS, slot_of
from tests.support.work import change, due_rows, item_row, query

pytestmark = pytest.mark.django_db
PLACES = 3


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def claimer(place: int, places: int, clock: Clock) -> CandidateQueue:
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    others = (f"{'0' if number < place else 'f'}-{number}" for number in range(places - 1))
    process.live = tuple((other, frozenset()) for other in sorted([*others, process.process_id]))
    return CandidateQueue(process, clock=clock)


def all_of(queue: CandidateQueue) -> set[str]:
    found: set[str] = set()
    while taken := {item.work_id for item in queue.take(100)}:
        if taken <= found:
            break
        found |= taken
    return found


def test_take__of_several_claimers_is_disjoint_and_as_the_program_computes_it(pack, clock):
    work_ids = {
        *pack.admit(20),
        *pack.admit(3, SourceLane="Straße:1"),
        *pack.admit(3, SourceLane="deal:1", TargetLane="konto:ü"),
        *(pack.admit(SourceLane=f"deal:{number}")[0] for number in range(10, 20)),
    }
    items = [candidate_from_row(row) for row in due_rows()]
    assert {item.work_id for item in items} == work_ids
    taken = [all_of(claimer(place, PLACES, clock)) for place in range(PLACES)]

    heads = {item.work_id for item in items if item.source_lane not in {"Straße:1", "deal:1"}}
    assert heads <= set.union(*taken)
    assert sum(map(len, taken)) == len(set.union(*taken)) == len(heads) + 2
    slots = {item.work_id: slot_of(item, PLACES) for item in items}
    for place, mine in enumerate(taken):
        assert {slots[work_id] for work_id in mine} == {place}


def test_take__of_a_lane_is_one_claimers_from_its_first_item_to_its_last(pack, clock):
    work_ids = pack.admit(4, SourceLane="deal:1", TargetLane="account:1")
    owner = slot_of(candidate_from_row(due_rows()[0]), PLACES)
    queues = [claimer(place, PLACES, clock) for place in range(PLACES)]
    for work_id in work_ids:
        found = {place: claim_next(queue._process, queue) for place, queue in enumerate(queues)}
        assert [place for place, claim in found.items() if claim is not None] == [owner]
        assert found[owner].work_id == work_id
        complete(found[owner])


def test_take__is_given_what_another_leaves_after_a_moment(pack, clock):
    work_ids = set(pack.admit(12))
    queues = [claimer(place, 2, clock) for place in range(2)]
    mine = all_of(queues[0])
    assert mine < work_ids
    change("UPDATE _System_ConnectorWorkItem SET RunAfter = '2100-01-01' WHERE WorkId IN %s", tuple(mine))
    queues[0].forget()

    assert queues[0].take(100) == []
    clock.now += 1.1 * SPARE_SECONDS
    assert {item.work_id for item in queues[0].take(100)} == work_ids - mine


def test_take__takes_over_the_slot_of_one_that_does_nothing_while_it_has_work_itself(pack, clock):
    work_ids = set(pack.admit(30))
    queue = claimer(0, 2, clock)
    first = {item.work_id for item in queue.take(100)}
    queue.forget()
    clock.now += 1.1 * LEFT_SECONDS
    assert {item.work_id for item in queue.take(100)} == first
    assert {item.work_id for item in queue.take(100)} == work_ids


def test_has_changed__asks_once_and_sees_what_another_process_enqueued(pack, process, queue, django_assert_num_queries):
    assert queue.take(1) == []
    with django_assert_num_queries(1):
        assert not queue.has_changed()
    pack.admit()
    with django_assert_num_queries(1):
        assert queue.has_changed()
    assert len(queue.take(1)) == 1


def test_has_changed__is_not_misled_by_what_only_a_lane_keeps_waiting(pack, process, clock):
    head, _ = pack.admit(2, SourceLane="deal:1")
    queue = CandidateQueue(process, clock=clock)
    claim = claim_next(process, queue)
    assert claim.work_id == head
    assert queue.take(1) == []
    assert not queue.has_changed()
    (other,) = pack.admit(SourceLane="deal:2")
    assert queue.has_changed()
    assert [item.work_id for item in queue.take(1)] == [other]

    assert claim_next(process, queue).work_id == other
    assert queue.take(1) == []
    complete(claim)
    assert not queue.has_changed(), "nothing of the index tells it"
    clock.now += 1.0
    assert queue.has_changed()
    assert item_row(head)["State"] == "succeeded"
    assert len(queue.take(1)) == 1


def test_learn_place__after_a_race_knows_of_whoever_came(pack, process: WorkerProcess):
    process.learn_place()
    assert process.place_in("connector") == (0, 1)
    others = [register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests") for _ in range(2)]
    process.learn_place_after_race()
    assert process.place_in("connector") == (0, 1), "nothing was lost to them"
    process.has_raced = True
    process.clock = lambda: process._placed_at + 10
    process.learn_place_after_race()
    order = sorted(row["ProcessId"] for row in query("SELECT ProcessId FROM _System_ConnectorClaimProcess"))
    assert process.place_in("connector") == (order.index(process.process_id), 3)
    assert not process.has_raced
    assert {other.process_id for other in others} < set(order)


def test_place__is_one_among_those_that_serve_the_family(pack):
    def register(*families: str) -> WorkerProcess:
        roles = frozenset({"claim", "reap"})
        return register_process(roles=roles, concurrency=1, build_version="tests", families=families)

    connector, effect, every = register("connector"), register("effect", "token"), register()
    for process in (connector, effect, every):
        process.learn_place()
    order = sorted([connector.process_id, every.process_id])
    assert connector.place_in("connector") == (order.index(connector.process_id), 2)
    assert effect.place_in("connector") == (0, 1), "it is none of them"
    order = sorted([effect.process_id, every.process_id])
    assert every.place_in("token") == (order.index(every.process_id), 2)

    change("UPDATE _System_ConnectorClaimProcess SET Kind = 'event_legacy' WHERE ProcessId = %s", every.process_id)
    connector.learn_place()
    assert connector.place_in("connector") == (0, 1)


def test_take__is_given_what_another_leaves_behind_a_closed_lane(pack, clock):
    work_ids = pack.admit(60, SourceLane="deal:1")
    change("UPDATE _System_ConnectorWorkItem SET RunAfter = '2100-01-01' WHERE WorkId = %s", work_ids[0])
    behind = set(pack.admit(8))
    process = claimer(0, 2, clock)._process
    queue = CandidateQueue(process, window=16, clock=clock)
    met = all_of(queue)
    assert met < behind, "the rest is another's"
    change("UPDATE _System_ConnectorWorkItem SET RunAfter = '2100-01-01' WHERE WorkId IN %s", tuple(met))
    for _ in range(3):
        queue.forget()
        met |= {item.work_id for item in queue.take(100)}
        clock.now += 1.1 * SPARE_SECONDS
    assert met == behind


def test_claim_some__notes_that_it_lost_to_another(pack, process, queue):
    pack.admit()
    assert len(queue.take(1)) == 1
    queue.forget()
    other = CandidateQueue(process)
    (seen,) = other.take(1)
    assert claim_next(process, queue).work_id == seen.work_id
    assert not process.has_raced
    other._found.append(seen)
    assert claim_next(process, other) is None
    assert process.has_raced
