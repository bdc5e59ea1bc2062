"""What stands in the way of handing a pack's work to WorkItems; the same rules for cutover and status. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from integration.states import PackStatus


class Remedy(StrEnum):
    """Who takes an obstacle away."""

    #: The cutover itself, as it runs.
    FORWARD = "forward"
    #: Time: what runs ends, while the cutover waits.
    DRAIN = "drain"
    #: A person, before the cutover is started.
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was read of a pack; each number counts what must be zero before its work may change hands.

    Attributes:
        pack_status: Of the incarnation.
        missing_schema: Declared tables, columns and keys that the database does not have.
        receipt_faults: What the receipts before have wrong.
        is_attested: The operator said that no unregistered process can claim.
        is_stopped: The scheduler leases are seized: no Event is claimed.
        executors: Registered processes that may claim Events.
        workers: Registered processes that may claim WorkItems under an earlier receipt.
        events_processing: Events that are being executed.
        event_claims: Claim tokens on Events of the Event executor that have not ended.
        events_to_materialize: Events without work whose route makes a WorkItem of each.
        events_without_route: Events without work whose route cannot be told any more.
        events_without_range: Events without work whose route coalesces, found covered by no projection cutover.
        ambiguous_events: Events with WorkItems under both work types.
        mirrors_left_behind: WorkItems never claimed whose Event has ended.
        left_behind_id: One of them.
        endless_claims: Events that are claimed, and no time ends the claim.
        endless_claim_id: One of them.
        work_items_lost: WorkItems whose lease is over and that nobody may take back.
        lost_id: One of them.
        work_items_processing: WorkItems that are being executed.
        outcomes_awaited: WorkItems of a rollback whose Event has not ended.
        outcomes_unknown: WorkItems of a rollback of which nothing can be proved.
        outcomes_unconfirmed: Other WorkItems of a rollback whose receipt is missing, in conflict or another one.
        unclosed_rollbacks: Rollbacks that were begun and whose WorkItems are not all reconciled.
    """

    pack_status: str
    missing_schema: int = 0
    receipt_faults: int = 0
    is_attested: bool = False
    is_stopped: bool = False
    executors: int = 0
    workers: int = 0
    events_processing: int = 0
    event_claims: int = 0
    events_to_materialize: int = 0
    events_without_route: int = 0
    events_without_range: int = 0
    ambiguous_events: int = 0
    mirrors_left_behind: int = 0
    left_behind_id: str | None = None
    endless_claims: int = 0
    endless_claim_id: str | None = None
    work_items_lost: int = 0
    lost_id: str | None = None
    work_items_processing: int = 0
    outcomes_awaited: int = 0
    outcomes_unknown: int = 0
    outcomes_unconfirmed: int = 0
    unclosed_rollbacks: int = 0

    @property
    def events_without_work(self) -> int:
        """How many Events wait and have no WorkItem, whatever their route says."""
        return self.events_to_materialize + self.events_without_route + self.events_without_range


#: Of a pack whose work has changed hands and of which nothing is wrong.
MOVED: Final = Facts(pack_status=PackStatus.ACTIVE, is_attested=True, is_stopped=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that stands in the way.

    Attributes:
        code: Stable.
        count: How many rows; 1 where there is nothing to count.
        sentence: What it is.
        next_step: What takes it away.
        remedy: Who does.
    """

    code: str
    count: int
    sentence: str
    next_step: str
    remedy: Remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    code: str
    count: Callable[[Facts], int]
    sentence: str
    next_step: str
    remedy: Remedy


#: What is said of broken receipts, whichever way a pack's work goes.
RECEIPTS_BROKEN: Final = "The pack's cutover receipts are not what was written: {count} faults."
MEND_RECEIPTS: Final = "`inbound_cutover verify` names them; restore the rows from a backup."
_FORWARD_DOES: Final = "`inbound_cutover forward` does it."
_DRAINS: Final = "`inbound_cutover forward` waits for it; a lost claim is taken back when its time is over."

#: In the order in which they are told: what only a person takes away first.
RULES: Final[tuple[_Rule, ...]] = (
    _Rule(
        code="pack_not_active",
        count=lambda facts: int(facts.pack_status != PackStatus.ACTIVE),
        sentence="The incarnation is not the active one.",
        next_step="Cut over the active incarnation; what a retired one admitted is ended by its own executor.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="schema_incomplete",
        count=lambda facts: facts.missing_schema,
        sentence="{count} tables, columns or keys of the claim schema are missing.",
        next_step="Run `install_schema`.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="receipts_broken",
        count=lambda facts: facts.receipt_faults,
        sentence=RECEIPTS_BROKEN,
        next_step=MEND_RECEIPTS,
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="rollback_unfinished",
        count=lambda facts: facts.unclosed_rollbacks,
        sentence="A rollback was begun and is not closed.",
        next_step="If its receipt is written, let the Event executor end what waits and run `inbound_cutover"
        " reconcile`. If not, run `inbound_cutover rollback` to its end, or give it up by its option --abandon.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="legacy_outcome_awaited",
        count=lambda facts: facts.outcomes_awaited,
        sentence="{count} WorkItems of a rollback wait for what the Event executor does.",
        next_step="Let the Event executor end their Events, then run `inbound_cutover reconcile`.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="legacy_outcome_unknown",
        count=lambda facts: facts.outcomes_unknown,
        sentence="Of {count} WorkItems nothing proves what the Event executor did.",
        next_step="They stay so, and nothing executes them twice: activate a new incarnation of the pack. The page of"
        " work items lists them by that state.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="legacy_outcome_unconfirmed",
        count=lambda facts: facts.outcomes_unconfirmed,
        sentence="{count} WorkItems of a rollback have no receipt that confirms their end.",
        next_step="Compare the outcome receipts with their Events; a conflict is never chosen from by itself.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="events_without_route",
        count=lambda facts: facts.events_without_route,
        sentence="{count} Events have no work, and their route is not there any more.",
        next_step="Let the Event executor end them, then run it again.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="events_without_range",
        count=lambda facts: facts.events_without_range,
        sentence="{count} Events of source projections have no WorkItem, and nothing proves that another's took them.",
        next_step="Let the Event executor end them if no WorkItem ever executed their projection. Otherwise they may"
        " have been executed: activate a new incarnation of the pack, and decide about them separately.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="ambiguous_owner",
        count=lambda facts: facts.ambiguous_events,
        sentence="{count} Events have WorkItems under both work types.",
        next_step="Cancel the WorkItem that must not run: `cancel WORKID`.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="mirror_left_behind",
        count=lambda facts: facts.mirrors_left_behind,
        sentence="{count} WorkItems were never claimed and their Event has ended; one is {facts.left_behind_id}.",
        next_step="Cancel them: `cancel WORKID`.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="claim_without_end",
        count=lambda facts: facts.endless_claims,
        sentence="{count} Events are claimed in a way that no time ends; one is {facts.endless_claim_id}.",
        next_step="Find out what claimed them and that it has stopped, and mend the rows; no command decides that.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="work_items_lost",
        count=lambda facts: facts.work_items_lost,
        sentence="The leases of {count} WorkItems are over, and without a forward receipt nobody takes them back;"
        " one is {facts.lost_id}.",
        next_step="Find out what claimed them and what it did, and mend the rows; no command decides that.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="attestation_missing",
        count=lambda facts: int(not facts.is_attested),
        sentence="Nothing in the database can show that no unregistered build runs.",
        next_step="Stop them, and say so: `--attest TEXT`. The receipt carries it.",
        remedy=Remedy.OPERATOR,
    ),
    _Rule(
        code="event_claims_open",
        count=lambda facts: int(not facts.is_stopped),
        sentence="The Event executor may claim.",
        next_step=_FORWARD_DOES,
        remedy=Remedy.FORWARD,
    ),
    _Rule(
        code="executors_running",
        count=lambda facts: facts.executors,
        sentence="{count} processes may claim Events.",
        next_step=_FORWARD_DOES,
        remedy=Remedy.FORWARD,
    ),
    _Rule(
        code="workers_running",
        count=lambda facts: facts.workers,
        sentence="{count} processes may claim WorkItems under an earlier receipt.",
        next_step=_FORWARD_DOES,
        remedy=Remedy.FORWARD,
    ),
    _Rule(
        code="events_without_work",
        count=lambda facts: facts.events_to_materialize,
        sentence="{count} Events have no WorkItem yet.",
        next_step=_FORWARD_DOES,
        remedy=Remedy.FORWARD,
    ),
    _Rule(
        code="events_processing",
        count=lambda facts: facts.events_processing,
        sentence="{count} Events are being executed.",
        next_step=_DRAINS,
        remedy=Remedy.DRAIN,
    ),
    _Rule(
        code="event_claims",
        count=lambda facts: facts.event_claims,
        sentence="{count} Events hold a claim token.",
        next_step=_DRAINS,
        remedy=Remedy.DRAIN,
    ),
    _Rule(
        code="work_items_processing",
        count=lambda facts: facts.work_items_processing,
        sentence="{count} WorkItems are being executed.",
        next_step="`inbound_cutover forward` waits for them until their leases are over.",
        remedy=Remedy.DRAIN,
    ),
)


def find_broken_receipts(faults: int) -> tuple[Obstacle, ...]:
    """Return what is wrong with the receipts of a pack whose work has changed hands."""
    return find_obstacles(replace(MOVED, receipt_faults=faults))


def find_obstacles(facts: Facts) -> tuple[Obstacle, ...]:
    """Return what stands in the way of a forward cutover.

    Args:
        facts: What was read; for a decision, under the locks.

    Returns:
        In a fixed order; empty when the work may change hands.

    Rule: C-01, C-06, C-07.
    """
    found = []
    for rule in RULES:
        count = rule.count(facts)
        if count:
            sentence = rule.sentence.format(count=count, facts=facts)
            found.append(
                Obstacle(code=rule.code, count=count, sentence=sentence, next_step=rule.next_step, remedy=rule.remedy)
            )
    return tuple(found)
