"""R10, the fault shim: each error that the policy knows is raised at every statement and COMMIT of the use cases.

Raised once, the caller may not notice it; raised at every try, the caller gets the policy's typed error and nothing is
stored. The other half of R10, the recorder over the test suite, is `tests/support/recorder.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import MySQLdb
from django.db import DatabaseError

from batteries import books, hook, kernel
from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import fork
from integration import errors
from integration.ingress import materialize, service
from integration.storage import policy
from integration.work import finish
from tests.support import cleaning, webhooks
from tests.support.work import Pack, change, query

#: Error number -> its text, and what the policy raises when no try gets through.
FAULTS: dict[int, tuple[str, type[Exception]]] = {
    1213: ("Deadlock found when trying to get lock", errors.Deadlock),
    1205: ("Lock wait timeout exceeded", errors.LockTimeout),
    1020: ("Record has changed since last read", errors.Deadlock),
    8002: ("can not retry select for update statement", errors.Deadlock),
    8022: ("KV error safe to retry", errors.Deadlock),
    8028: ("Information schema is changed", errors.Deadlock),
    9007: ("Write conflict", errors.Deadlock),
    1105: ("Information schema is changed, try again later", errors.Deadlock),
}


class Fault(hook.Observer):
    """Raises an error in place of a statement that locks or writes, or of a COMMIT."""

    def __init__(self, place: str, code: int, times: int) -> None:
        self.fired = 0
        self.places: list[str] = []
        self._place = place
        self._code = code
        self._left = times
        self._last = "nothing"

    def before(self, text: str, params: Any, wrapper: Any) -> None:
        name = f"COMMIT({self._last})" if text == hook.COMMIT else hook.name_of(text)
        if not name or not (text == hook.COMMIT or hook.is_locking(text)):
            return
        if text != hook.COMMIT:
            self._last = name
        if name not in self.places:
            self.places.append(name)
        if name == self._place and self._left > 0:
            self._left -= 1
            self.fired += 1
            if text == hook.COMMIT:
                # What the error says: it was surely not committed.
                wrapper.connection.rollback()
            raise MySQLdb.OperationalError(self._code, FAULTS[self._code][0])


@dataclass(frozen=True)
class UseCase:
    """Something that a caller asks for.

    Attributes:
        name: What it is.
        prepare: Puts the rows in place and returns what `act` needs.
        act: Asks for it.
        holds: Whether it was done, and done once.
    """

    name: str
    prepare: Callable[[], Any]
    act: Callable[[Any], object]
    holds: Callable[[Any], bool]
    told: dict[str, Any] = field(default_factory=dict)


def _claimed(**over: Any) -> Any:
    Pack().admit(1, MaxAttempts=5, **over)
    return kernel.claim_all(kernel.register(), 1)[0]


def _state() -> tuple[str, int]:
    (row,) = query("SELECT State, Attempt FROM _System_ConnectorWorkItem")
    return row["State"], row["Attempt"]


def _due() -> Any:
    Pack().admit(3)
    process = kernel.register()
    items = kernel.candidates(process, 3)
    kernel.fence_of(process, items[0])
    return process, items


def _due_again() -> Any:
    Pack().admit(1)
    change("UPDATE _System_ConnectorWorkItem SET State = 'retry', Attempt = 1, OwnershipEpoch = 1")
    change("UPDATE _System_ConnectorEvent SET ExecutionOwner = 'work_item'")
    process = kernel.register()
    items = kernel.candidates(process, 1)
    kernel.fence_of(process, items[0])
    return process, items


def _stored() -> Any:
    pack_id = webhooks.activate()
    _post(webhooks.deal(1), "d-1")
    return materialize.read_page(pack_id, 10, materialize.START)


def _post(body: bytes, delivery_id: str) -> object:
    from integration.catalog.reads import find_webhook

    binding = find_webhook("demo", "deals")
    assert binding is not None
    return service.store_receipt(binding, body=body, delivery_id=delivery_id, safe_headers={})


def _expired() -> Any:
    _claimed()
    books.expire_leases()
    reaper = kernel.register("reap")
    (row,) = query("SELECT PackInstallId FROM _System_ConnectorPackInstall")
    assert reaper.fence_for(row["PackInstallId"]) is not None
    return reaper


def _fenceless() -> Any:
    return kernel.register(), Pack().pack_id


USE_CASES = (
    UseCase(
        "store_receipt",
        webhooks.activate,
        lambda _: _post(webhooks.deal(1), "d-1"),
        lambda _: len(webhooks.rows("IngressReceipt")) == 1,
    ),
    UseCase(
        "materialize",
        _stored,
        materialize.materialize_page,
        lambda _: [len(webhooks.rows(name)) for name in ("Event", "WorkItem")] == [1, 1],
    ),
    UseCase(
        "register_fence",
        _fenceless,
        lambda given: given[0].fence_for(given[1]),
        lambda given: len(query("SELECT 1 FROM _System_ConnectorClaimProcess WHERE PackInstallId = %s", given[1])) == 1,
    ),
    UseCase(
        "first_claim",
        _due,
        lambda given: kernel.claim(*given),
        lambda _: (
            all(row["State"] == "processing" for row in books.items().values())
            and not books.crooked(books.items(), books.attempts())
        ),
    ),
    UseCase("later_claim", _due_again, lambda given: kernel.claim(*given), lambda _: _state() == ("processing", 2)),
    UseCase("renew", _claimed, kernel.WRITES["renew"], lambda _: _state() == ("processing", 1)),
    UseCase("complete", _claimed, finish.complete, lambda _: _state() == ("succeeded", 1)),
    UseCase("skip", _claimed, finish.skip, lambda _: _state() == ("skipped", 1)),
    UseCase("retry", _claimed, kernel.WRITES["retry"], lambda _: _state() == ("retry", 1)),
    UseCase("bury", _claimed, kernel.WRITES["bury"], lambda _: _state() == ("dead", 1)),
    UseCase("reap", _expired, kernel.reap_now, lambda _: _state() == ("retry", 1)),
)


def probe(*, name: str, place: str, code: int, times: int, mutant: bool) -> dict[str, Any]:
    """Ask for a use case with an error in its way; return what the caller was told."""
    case = next(case for case in USE_CASES if case.name == name)
    if mutant:
        # The policy that would never try again.
        policy.classify = lambda *_args, **_kwargs: policy.Disposition.DEFECT
    cleaning.empty_database()
    given = case.prepare()
    before = _rows()
    fault = Fault(place, code, times)
    hook.install(fault)
    told = ""
    try:
        case.act(given)
    except (errors.IntegrationError, DatabaseError) as error:
        told = type(error).__name__
    hook.forget()
    return {
        "places": fault.places,
        "fired": fault.fired,
        "told": told,
        "done": case.holds(given),
        "untouched": _rows() == before,
    }


def _rows() -> list[Any]:
    return [
        sorted(repr(row) for row in query(f"SELECT * FROM _System_Connector{name}"))
        for name in ("WorkItem", "Event", "IngressReceipt", "ExecutionAttempt", "ClaimProcess", "PackInstall")
    ]


def run(ground: Ground, figures: Figures) -> None:
    """Raise each error at each place, once and always."""
    known = tuple(FAULTS)
    injected: Counter[str] = Counter()
    surfaced: list[str] = []
    untyped: list[str] = []
    undone: list[str] = []
    half: list[str] = []
    unfired: list[str] = []
    places = 0
    for case in USE_CASES:
        clean = fork(ground.folder, probe, name=case.name, place="", code=0, times=0, mutant=False).value()
        assert clean["done"], case.name
        places += len(clean["places"])
        for number, place in enumerate(clean["places"], start=places):
            # The shortest form raises one error at each place, another one at the next.
            for code in ground.pick((known[number % len(known)],), known, known):
                for times in (1, 1000):
                    said = fork(
                        ground.folder, probe, name=case.name, place=place, code=code, times=times, mutant=ground.mutant
                    ).value()
                    what = f"{case.name} {place} {code}"
                    injected[str(code)] += said["fired"]
                    if not said["fired"]:
                        unfired.append(what)
                    elif times == 1:
                        if said["told"]:
                            surfaced.append(f"{what}: {said['told']}")
                        if not said["done"]:
                            undone.append(what)
                    else:
                        if said["told"] != FAULTS[code][1].__name__:
                            untyped.append(f"{what}: {said['told'] or 'nothing'}")
                        if not said["untouched"]:
                            half.append(what)
    cleaning.empty_database()
    figures.note(
        use_cases=len(USE_CASES),
        places=places,
        injected_per_code=dict(injected),
        injected=sum(injected.values()),
        surfaced=surfaced[:10],
        not_typed=untyped[:10],
        not_done=undone[:10],
        left_half=half[:10],
        not_fired=unfired[:10],
    )
    figures.demand("every fault was raised", not unfired and sum(injected.values()) > 0)
    figures.demand("an error that is raised once reaches no caller", not surfaced)
    figures.demand("and the use case is done, once", not undone)
    figures.demand("an error that is raised at every try is told as the policy says", not untyped)
    figures.demand("and nothing is stored", not half)
