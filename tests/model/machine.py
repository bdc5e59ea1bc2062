"""The machine: rules that drive the real services on the real database, and the model beside them.

Nothing is mocked but what goes wrong. Each rule says to the model what should happen, does it, and after every step
the whole database is compared with the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from django.db import IntegrityError
from hypothesis import note
from hypothesis.stateful import invariant, rule

from integration import errors
from integration.authority.cancellation import CancelRefused, cancel
from integration.authority.service import replay
from integration.authority.values import Ref, RefKind, Refused
from integration.states import FailureClass
from integration.storage import db
from integration.work import finish
from integration.work.claim import Claim, renew
from integration.work.finish import Ended
from tests.model import checks, faults
from tests.model.actions import ACTIONS, ORDER, VALUES, action
from tests.model.moves import MOVES
from tests.model.shadow import Item, Shadow, pick
from tests.model.tally import tally
from tests.model.working import Working
from tests.support.authority import MARIA

REASON: Final = "The model says so"
LATER_SECONDS: Final = 3600.0


class Kernel(Working):
    """Ends, operators, what must be refused, and what must hold."""

    @action(12, when=lambda self: self.claims)
    def end(self, number: int, how: str, flag: bool, trouble: str) -> None:
        claim = self._pick_claim(number)
        wanted = self._end_of(claim, how)
        after_seconds = LATER_SECONDS if flag else 0.0

        def act() -> str | None:
            return _end(claim, how, after_seconds)

        def predict(shadow: Shadow) -> None:
            _apply(shadow, shadow.by_work_id(claim.work_id), wanted, is_due=not flag)

        made, is_stored = self._try(trouble, number, ("handoff.before",), act, predict)
        if trouble == "none":
            assert made == wanted, f"{how} made {made}, not {wanted}"
        if is_stored and wanted is not None:
            tally.made[wanted, "processing"] += 1
            self._lose(claim.work_id)

    def _end_of(self, claim: Claim, how: str) -> str | None:
        """Return the transition that an end comes to, or None when it is refused."""
        item = self.shadow.by_work_id(claim.work_id)
        if how == "retry" and item.is_last_attempt:
            return "bury"
        if how == "retry" and item.is_cancel_requested:
            return "acknowledge_cancel"
        return None if how == "acknowledge_cancel" and not item.is_cancel_requested else how

    @action(2, when=lambda self: self._groups())
    def end_together(self, number: int, flag: bool, trouble: str) -> None:
        groups = self._groups()
        claims = groups[number % len(groups)]
        ended = Ended.SKIP if flag else Ended.COMPLETE
        with faults.fault("answer" if trouble == "answer" else "none", 0, ()):
            found = finish.finish_many(claims, ended)
        assert found == {claim.work_id for claim in claims}
        for claim in claims:
            _apply(self.shadow, self.shadow.by_work_id(claim.work_id), ended.value)
            tally.made[ended.value, "processing"] += 1
            self._lose(claim.work_id)
        tally.other["ended together"] += len(claims)

    @action(2, when=lambda self: self.shadow.items)
    def cancel(self, number: int, state: str, trouble: str) -> None:
        item = pick(self.shadow.in_state(state) or list(self.shadow.live()) or self.shadow.items, number)
        ref = Ref(id=item.work_id, kind=RefKind.WORK_ITEM)
        if not item.is_live:
            _refused(CancelRefused, lambda: cancel(ref, actor=MARIA, reason=REASON))
            tally.other["cancellations refused"] += 1
            return
        was = item.state
        _, is_stored = self._try(
            trouble,
            number,
            ("handoff.before",),
            lambda: cancel(ref, actor=MARIA, reason=REASON),
            lambda shadow: shadow.cancel(shadow.by_work_id(item.work_id)),
        )
        if is_stored:
            tally.made["cancel" if was != "processing" else "request_cancel", was] += 1

    @action(3, when=lambda self: self.shadow.items)
    def replay(self, number: int, state: str, trouble: str) -> None:
        dead = [item for item in self.shadow.in_state("dead") if not item.is_replayed]
        item = pick(dead if dead and state != ORDER[0] else self.shadow.items, number)
        why_not = self.shadow.why_not_replayed(item)
        ref = Ref(id=item.work_id, kind=RefKind.WORK_ITEM)
        if why_not is not None:
            refused = replay(ref, actor=MARIA, reason=REASON)
            assert isinstance(refused, Refused), refused
            assert refused.code == why_not, refused
            tally.other[f"replays refused, {why_not}"] += 1
            return
        result, is_stored = self._try(
            trouble,
            number,
            ("replay.none",),
            lambda: replay(ref, actor=MARIA, reason=REASON),
            lambda shadow: shadow.replay(shadow.by_work_id(item.work_id)),
        )
        assert not isinstance(result, Refused), result
        if is_stored:
            tally.other["projections replayed" if item.is_projection else "items replayed"] += 1

    @action(2, when=lambda self: self.stale)
    def write_late(self, number: int, how: str) -> None:
        """A claimant whose claim has ended writes all the same."""
        claim = self.stale[number % len(self.stale)]
        assert _end(claim, how, 0.0) is None
        assert not renew(claim)
        tally.other["late writes refused"] += 2

    @action(2, when=lambda self: self.claims)
    def write_with_another_token(self, number: int, how: str, wrong: str) -> None:
        """Somebody writes with the right epoch and another token, or the other way round."""
        claim = self._pick_claim(number)
        if wrong == "token":
            forged = replace(claim, lease_token="another")
        else:
            forged = replace(claim, epoch=claim.epoch + (1 if wrong == "next epoch" else -1))
        assert _end(forged, how, 0.0) is None
        assert not renew(forged)
        assert finish.finish_many([forged], Ended.COMPLETE) == frozenset()
        tally.other["writes with a wrong token or epoch refused"] += 3

    @action(2, when=lambda self: self.shadow.items)
    def try_what_is_illegal(self, number: int, state: str) -> None:
        """Send every statement that the model does not permit, with the row's own token and epoch."""
        item = pick(self.shadow.in_state(state) or self.shadow.items, number)
        row = self.history.items[item.work_id]
        known = self.history.tokens[item.work_id]
        token = row["LeaseToken"] or known.get(row["OwnershipEpoch"], "none")
        ids = {"work_id": item.work_id, "work_ids": (item.work_id,), "event_ids": (row["EventId"],)}
        own = {"epoch": row["OwnershipEpoch"], "attempt": row["Attempt"]}
        for move in MOVES:
            if move.is_permitted(self.shadow, item):
                if not move.needs_token:
                    continue
                # Permitted to whoever has the claim; so it must not be.
                params = {**own, **move.params, **ids, "lease_token": "another"}
            else:
                params = {**own, "lease_token": token, **move.params, **ids}
            try:
                matched = db.execute_alone(move.statement, params)
            except IntegrityError:
                matched = 0
            assert matched == 0, f"{move.name} changed {item}"
            tally.refused[move.name, item.state] += 1

    @rule(**VALUES)
    def step(self, choice: int, **values: Any) -> None:
        """Do one of the actions that are possible now."""
        possible = [found for found in ACTIONS if found.when(self) for _ in range(found.weight)]
        chosen = possible[choice % len(possible)]
        given = {name: values[name] for name in chosen.arguments}
        told = f"{chosen.name}: {given}"
        note(f"# {told}")
        self.told.append(told)
        with self._kept_failure():
            getattr(self, chosen.name)(**given)

    # What must hold

    @invariant()
    def holds(self) -> None:
        with self._kept_failure():
            self._check()

    def _check(self) -> None:
        if self.is_new:
            self.is_new = False
        else:
            tally.steps += 1
        rows = checks.read()
        checks.check_alone(rows)
        self.history.check(rows)
        differences = checks.compare(self.shadow, rows, self.packs)
        assert not differences, "\n".join(differences)
        self._adopt(rows)


def _end(claim: Claim, how: str, after_seconds: float) -> str | None:
    """End a claim; return the transition, or None when the claim was not live."""
    ends: dict[str, Callable[[], Ended]] = {
        "complete": lambda: finish.complete(claim),
        "skip": lambda: finish.skip(claim),
        "retry": lambda: finish.retry(claim, FailureClass.FLOW_ERROR, after_seconds=after_seconds),
        "bury": lambda: finish.bury(claim, FailureClass.FLOW_REJECTED),
        "acknowledge_cancel": lambda: finish.acknowledge_cancel(claim),
    }
    if how == "release":
        return how if finish.release(claim) else None
    try:
        return ends[how]().value
    except errors.StaleClaim:
        return None


def _apply(shadow: Shadow, item: Item, made: str | None, *, is_due: bool = True) -> None:
    match made:
        case "complete":
            shadow.end(item, "succeeded")
        case "skip":
            shadow.end(item, "skipped")
        case "acknowledge_cancel":
            shadow.end(item, "cancelled")
        case "bury":
            shadow.end(item, "dead", is_failure=True)
        case "retry":
            shadow.retry(item, "retry", is_due=is_due)
        case "release":
            shadow.retry(item, "released")


def _refused(error: type[Exception], act: Callable[[], Any]) -> None:
    try:
        act()
    except error:
        return
    message = "it was not refused"
    raise AssertionError(message)
