"""The one storage port of durable work: the same statements for every table that holds a family's WorkItems.

A table is declared (`WorkTable`), and its statements are made from the templates below when the module is imported.
From then on their text is constant like any other's, and the static checks see each of them. No claim, retry or lease
rule is written twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, LiteralString

from integration.storage.statements import LockRank, Returns, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTable:
    """What differs between the tables of two families. Every field is a part of SQL text.

    Attributes:
        table: The table.
        suffix: What the names of its statements end with; empty for the first table.
        candidate_columns: The columns that only some tables have, under the names that a candidate has for them.
        position: The column that orders a source lane.
        same_lane: What rows `p` and `w` of a lane share besides namespace and name; a condition, or empty.
        lane_name: A source lane's name among all lanes, by which candidates are kept out.
        closed: The condition on candidates that keeps out what is not this claimer's: packs that are closed to it,
            or other families.
        ready: The condition that a pending row must meet besides being due; empty when there is none.
        claim_index: The index of (`State`, `RunAfter`, `QueueClass`, `WorkId`).
        lane_index: The index of a source lane's states and positions.
        target_index: The unique index of `TargetLaneActiveKey`.
        active_key: The unique column that an ended row gives up.
        projection_key: The expression for a row's projection.
        pack: The expression for a row's pack; an empty text for none.
        of_family: The condition that a row is of one family; empty in a table that holds one.
        many_end: What a batch of ends gives up.
        has_fences: The rows can be fenced for a rollback.
        has_facts: The rows hold failure and replay facts and their end's time.
        many_guard: Which rows a batch of ends leaves out; empty when none.
    """

    table: LiteralString
    suffix: LiteralString
    candidate_columns: LiteralString
    position: LiteralString
    same_lane: LiteralString
    lane_name: LiteralString
    closed: LiteralString
    ready: LiteralString
    claim_index: LiteralString
    lane_index: LiteralString
    target_index: LiteralString
    active_key: LiteralString
    projection_key: LiteralString
    pack: LiteralString
    of_family: LiteralString
    many_end: LiteralString
    many_guard: LiteralString
    has_fences: bool = True
    has_facts: bool = True


# Whose claim it is: what every move of a claimed row demands.
_LIVE_CLAIM: Final = """AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s"""
# What every end of a claim takes off the row.
_NO_LEASE: Final = "LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL"

# The entries of the claim's index that follow a place, in their order.
_AFTER: Final = """RunAfter >= %({state}_after)s
               AND (RunAfter > %({state}_after)s
                    OR (RunAfter = %({state}_after)s
                        AND (QueueClass > %({state}_after_class)s
                             OR (QueueClass = %({state}_after_class)s AND WorkId > %({state}_after_id)s))))"""
# Those up to a place, which is among them.
_TO: Final = """RunAfter <= %({state}_to)s
               AND (RunAfter < %({state}_to)s
                    OR (RunAfter = %({state}_to)s
                        AND (QueueClass < %({state}_to_class)s
                             OR (QueueClass = %({state}_to_class)s AND WorkId <= %({state}_to_id)s))))"""

# The index alone answers it, with as many entries as a page has, whatever the rows are.
_PAGE_END: Final = """
    (SELECT '{state}' AS State, RunAfter, QueueClass, WorkId
       FROM (SELECT RunAfter, QueueClass, WorkId
               FROM {table} FORCE INDEX ({claim_index})
              WHERE State = '{state}' AND RunAfter <= UTC_TIMESTAMP(6)
               AND {after}
              ORDER BY RunAfter, QueueClass, WorkId
              LIMIT %(page)s) AS page
      ORDER BY RunAfter DESC, QueueClass DESC, WorkId DESC
      LIMIT 1)
    """

# Lock-free: what it returns may be gone a moment later, and the claim's own WHERE decides. The limit bounds what is
# returned; what is read is bounded by the two places, between which the rows of one page lie, however few are left.
# Claimers that share the work look at different rows: each at the lanes, and the items without one, of its slots.
_CANDIDATES_OF_PAGE: Final = """
    (SELECT WorkId, {candidate_columns},
            OrgId, WorkType, Namespace, FlowName, FlowVersion, QueueClass, SourceLane, TargetLane,
            State, RunAfter, Attempt, MaxAttempts, OwnershipEpoch, FailureClass, LastFailedAt, CancelRequestedAt
       FROM {table} FORCE INDEX ({claim_index})
      WHERE State = '{state}'
               AND {after}
               AND {to}{only}{closed}
        AND COALESCE({lane_name}, '') NOT IN %(blocked_lanes)s
        AND COALESCE(CONCAT(Namespace, '/', TargetLane), '') NOT IN %(busy_targets)s
        AND MOD(CRC32(COALESCE(CONCAT(Namespace, '/', TargetLane), {lane_name}, WorkId)), %(slots)s) IN %(own_slots)s
      ORDER BY RunAfter, QueueClass, WorkId
      LIMIT %(limit)s)
    """


def _both_states(text: LiteralString) -> LiteralString:
    paged = text.replace("{after}", _AFTER).replace("{to}", _TO)
    pending = paged.replace("{state}", "pending").replace("{only}", "{ready}")
    return pending + "UNION ALL" + paged.replace("{state}", "retry").replace("{only}", "")


# A lane is one namespace's; within it the order is (incarnation, position), so an older incarnation's item
# is ahead whatever its position. Lock-free and yet free of races: positions never change, they are given
# under the pack's lock in commit order, and a terminal item never comes back. Each branch reads the first
# entry of one range of the index, however long the lane is.
_LIST_HEAD_POSITIONS: Final = """
    SELECT w.WorkId, LEAST({heads}) AS HeadPosition
      FROM {table} w FORCE INDEX (PRIMARY)
     WHERE w.WorkId IN %(work_ids)s
    """
_HEAD_IN_STATE: Final = """
             COALESCE((SELECT p.{position} FROM {table} p FORCE INDEX ({lane_index})
                        WHERE p.Namespace = w.Namespace AND p.SourceLane = w.SourceLane AND p.State = '{state}'
                          {same_lane}
                        ORDER BY p.{position} LIMIT 1), w.{position})"""
#: The states in which an item has not ended.
_UNFINISHED: Final[tuple[LiteralString, ...]] = (
    "pending",
    "processing",
    "retry",
    "blocked",
    "awaiting_legacy_outcome",
    "legacy_outcome_unknown",
)


def _heads() -> LiteralString:
    return _LIST_HEAD_POSITIONS.replace(
        "{heads}", ",".join([_HEAD_IN_STATE.replace("{state}", state) for state in _UNFINISHED])
    )


_LIST_BUSY_TARGET_LANES: Final = """
    SELECT TargetLaneActiveKey
      FROM {table} FORCE INDEX ({target_index})
     WHERE TargetLaneActiveKey IN %(target_lane_keys)s
    """

_LIST_CLAIMED: Final = """
    SELECT WorkId
      FROM {table}
     WHERE WorkId IN %(work_ids)s AND LeaseToken = %(lease_token)s
    """

_LATER_CLAIM: Final = """
    UPDATE {table}
       SET State = 'processing',
           Attempt = Attempt + 1,
           OwnershipEpoch = OwnershipEpoch + 1,
           LeaseOwner = %(process_id)s,
           LeaseToken = %(lease_token)s,
           LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND,
           TargetLaneActiveKey = SHA2(
             CONCAT('target-lane/1/', OrgId, '/', CHAR_LENGTH(Namespace), '/', Namespace, '/', TargetLane), 256),
           UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId IN %(work_ids)s{source}
       AND OwnershipEpoch = %(epoch)s
       AND RunAfter <= UTC_TIMESTAMP(6)
       AND LeaseToken IS NULL
       AND TargetLaneActiveKey IS NULL
       AND RollbackExecutionFenceId IS NULL
    """

_RENEW_LEASE: Final = """
    UPDATE {table}
       SET LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId = %(work_id)s
       {live_claim}
    """

_END_WELL: Final = """
    UPDATE {table}
       SET State = '{outcome}', Outcome = '{outcome}',
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           {no_lease},
           {active_key} = NULL
     WHERE WorkId = %(work_id)s
       {live_claim}
    """

# Many of one claim transaction. A projection's end hands its active key on, so it is never among them.
_END_MANY_WELL: Final = """
    UPDATE {table}
       SET State = '{outcome}', Outcome = '{outcome}',
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           {no_lease}{many_end}
     WHERE WorkId IN %(work_ids)s
       {live_claim}{many_guard}
    """

_LIST_ENDED: Final = """
    SELECT WorkId
      FROM {table}
     WHERE WorkId IN %(work_ids)s AND OwnershipEpoch = %(epoch)s AND State = %(state)s
    """

# What was claimed and not run. The attempt's number is used up, the item's share of attempts is not.
_RELEASE: Final = """
    UPDATE {table}
       SET State = 'retry', RunAfter = UTC_TIMESTAMP(6), MaxAttempts = MaxAttempts + 1,
           FailureClass = %(failure_class)s, FailureSummary = %(failure_summary)s,
           UpdatedAt = UTC_TIMESTAMP(6),
           {no_lease}
     WHERE WorkId = %(work_id)s
       {live_claim}
    """

_RETRY: Final = """
    UPDATE {table}
       SET State = 'retry',
           RunAfter = UTC_TIMESTAMP(6) + INTERVAL %(delay_microseconds)s MICROSECOND,
           FailureClass = %(failure_class)s, FailureSummary = %(failure_summary)s, FailureCount = FailureCount + 1,
           FirstFailedAt = COALESCE(FirstFailedAt, UTC_TIMESTAMP(6)), LastFailedAt = UTC_TIMESTAMP(6),
           UpdatedAt = UTC_TIMESTAMP(6),
           {no_lease}
     WHERE WorkId = %(work_id)s
       {live_claim}
       AND Attempt < MaxAttempts
       AND CancelRequestedAt IS NULL
    """

_BURY: Final = """
    UPDATE {table}
       SET State = 'dead', Outcome = 'dead',
           FailureClass = %(failure_class)s, FailureSummary = %(failure_summary)s, FailureCount = FailureCount + 1,
           FirstFailedAt = COALESCE(FirstFailedAt, UTC_TIMESTAMP(6)), LastFailedAt = UTC_TIMESTAMP(6),
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           {no_lease},
           {active_key} = NULL
     WHERE WorkId = %(work_id)s
       {live_claim}
    """

_ACKNOWLEDGE_CANCEL: Final = """
    UPDATE {table}
       SET State = 'cancelled', Outcome = 'cancelled',
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           {no_lease},
           {active_key} = NULL
     WHERE WorkId = %(work_id)s
       {live_claim}
       AND CancelRequestedAt IS NOT NULL
    """

# Bounded by the live claims: the index's prefix holds nothing else. What this process may not take back is left out, so
# that it fills no batch.
_LIST_EXPIRED_LEASES: Final = """
    SELECT WorkId, {pack} AS PackInstallId, {projection_key} AS ProjectionKey, LeaseToken, OwnershipEpoch,
           Attempt, MaxAttempts
      FROM {table} FORCE INDEX ({claim_index})
     WHERE State = 'processing' AND LeaseUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
       AND {pack} NOT IN %(closed_packs)s
     LIMIT %(limit)s
    """

_REAP: Final = """
    UPDATE {table}
       SET State = 'retry', RunAfter = UTC_TIMESTAMP(6),
           FailureClass = 'lease_lost', FailureSummary = %(failure_summary)s, FailureCount = FailureCount + 1,
           FirstFailedAt = COALESCE(FirstFailedAt, UTC_TIMESTAMP(6)), LastFailedAt = UTC_TIMESTAMP(6),
           UpdatedAt = UTC_TIMESTAMP(6),
           {no_lease}
     WHERE WorkId = %(work_id)s
       {live_claim}
       AND LeaseUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
       AND Attempt < MaxAttempts
    """

_REAP_EXHAUSTED: Final = """
    UPDATE {table}
       SET State = 'dead', Outcome = 'dead',
           FailureClass = 'lease_lost', FailureSummary = %(failure_summary)s, FailureCount = FailureCount + 1,
           FirstFailedAt = COALESCE(FirstFailedAt, UTC_TIMESTAMP(6)), LastFailedAt = UTC_TIMESTAMP(6),
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           {no_lease},
           {active_key} = NULL
     WHERE WorkId = %(work_id)s
       {live_claim}
       AND LeaseUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
       AND Attempt >= MaxAttempts
    """

# What settles a write whose COMMIT was not answered.
_READ_CLAIM_FACTS: Final = """
    SELECT WorkId, State, Attempt, OwnershipEpoch, LeaseToken, FailureClass, CancelRequestedAt
      FROM {table}
     WHERE WorkId = %(work_id)s
    """

_FIND_UNFINISHED: Final = """
    SELECT WorkId
      FROM {table} FORCE INDEX ({claim_index})
     WHERE State IN ('pending', 'processing', 'retry', 'blocked'){of_family}
     LIMIT 1
    """

_CANCEL: Final = """
    UPDATE {table}
       SET State = 'cancelled', Outcome = 'cancelled',
           CancelRequestedAt = COALESCE(CancelRequestedAt, UTC_TIMESTAMP(6)),
           CancelRequestedBy = COALESCE(CancelRequestedBy, %(actor_name)s),
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           BlockedOn = NULL, BlockedSince = NULL, {active_key} = NULL
     WHERE WorkId = %(work_id)s
       AND State IN ('pending', 'retry', 'blocked')
       AND OwnershipEpoch = %(epoch)s
       AND LeaseToken IS NULL
       AND RollbackExecutionFenceId IS NULL
    """

# No move: the claimant is told and ends the claim itself. Who asked first stays.
_REQUEST_CANCEL: Final = """
    UPDATE {table}
       SET CancelRequestedAt = COALESCE(CancelRequestedAt, UTC_TIMESTAMP(6)),
           CancelRequestedBy = COALESCE(CancelRequestedBy, %(actor_name)s),
           UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId = %(work_id)s AND State = 'processing' AND OwnershipEpoch = %(epoch)s
    """

# What a worker asks about the claims that it holds.
_LIST_CANCEL_REQUESTED: Final = """
    SELECT WorkId
      FROM {table}
     WHERE WorkId IN %(work_ids)s AND State = 'processing' AND CancelRequestedAt IS NOT NULL
    """

# Written from the rows that the claim has just changed, in its transaction: one for each item that it won. The flow
# may act outside as soon as it runs, so the attempt counts as dispatched from its start: the rollback's proof may
# then hold too much for ambiguous, never too little, and no further commit is paid for it.
_INSERT_ATTEMPTS: Final = """
    INSERT INTO _System_ConnectorExecutionAttempt (WorkId, Attempt, OwnershipEpoch, StartedAt, DispatchedAt)
    SELECT WorkId, Attempt, OwnershipEpoch, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
      FROM {table}
     WHERE WorkId IN %(work_ids)s AND LeaseToken = %(lease_token)s
    """

_BLOCK: Final = """
    UPDATE {table}
       SET State = 'blocked', BlockedOn = %(blocked_on)s, BlockedSince = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId IN %(work_ids)s
       AND State = 'pending'
       AND Attempt = 0
       AND LeaseToken IS NULL
       AND RollbackExecutionFenceId IS NULL
    """

# Due at once, in the place that its first RunAfter gives it.
_UNBLOCK: Final = """
    UPDATE {table}
       SET State = 'pending', BlockedOn = NULL, BlockedSince = NULL, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId IN %(work_ids)s AND State = 'blocked' AND BlockedOn = %(blocked_on)s
    """

# The oldest of one pack, for a pack that another pack's backlog keeps out of the window. A page of its index bounds
# what is read.
_PACK_CANDIDATES: Final = """
    (SELECT WorkId, {candidate_columns},
            OrgId, WorkType, Namespace, FlowName, FlowVersion, QueueClass, SourceLane, TargetLane,
            State, RunAfter, Attempt, MaxAttempts, OwnershipEpoch, FailureClass, LastFailedAt, CancelRequestedAt
       FROM (SELECT WorkId AS PageWorkId
               FROM {table} FORCE INDEX (IX_WorkItem_Pack)
              WHERE PackInstallId = %(pack_install_id)s AND State = '{state}'
              ORDER BY LaneOrdinal
              LIMIT %(page)s) AS page
            STRAIGHT_JOIN {table} FORCE INDEX (PRIMARY) ON WorkId = PageWorkId
      WHERE State = '{state}' AND RunAfter <= UTC_TIMESTAMP(6){only}
        AND COALESCE({lane_name}, '') NOT IN %(blocked_lanes)s
        AND COALESCE(CONCAT(Namespace, '/', TargetLane), '') NOT IN %(busy_targets)s
      ORDER BY LaneOrdinal
      LIMIT %(limit)s)
    """

# The dead ones ahead of each item whose route stops its lane for them, until they are replayed. Read after the heads:
# what died in between is seen as the one or as the other. An item of such a lane can only die when the one before it
# was replayed, so that the range holds what operators have had in hand.
_LIST_STOPPED: Final = """
    SELECT w.WorkId,
           (SELECT d.WorkId FROM {table} d FORCE INDEX ({lane_index})
             WHERE d.Namespace = w.Namespace AND d.SourceLane = w.SourceLane AND d.State = 'dead'
               AND d.PackInstallId IN %(pack_install_ids)s
               AND (d.PackInstallId <> w.PackInstallId OR d.{position} < w.{position})
               AND d.RouteId IN %(route_ids)s {unreplayed}
             LIMIT 1) AS StoppedBy
      FROM {table} w FORCE INDEX (PRIMARY)
     WHERE w.WorkId IN %(work_ids)s
    """

_FIND_UNFINISHED_IN_OLDER: Final = """
    SELECT WorkId
      FROM {table} FORCE INDEX ({lane_index})
     WHERE Namespace = %(namespace)s AND SourceLane = %(source_lane)s
       AND State IN ('pending', 'processing', 'retry', 'blocked', 'awaiting_legacy_outcome', 'legacy_outcome_unknown')
       AND PackInstallId IN %(older_pack_install_ids)s
     LIMIT 1
    """

#: How an item that died tells that it was replayed: itself, or before it could by the child of its Event.
_UNREPLAYED: Final = "AND d.ReplayedAt IS NULL"
_UNREPLAYED_EVENT: Final = "AND NOT EXISTS (SELECT 1 FROM _System_ConnectorEvent r WHERE r.ReplayOfEventId = d.EventId)"
_NO_FENCE: Final = "\n       AND RollbackExecutionFenceId IS NULL"
_FAILED: Final = (
    "FailureCount = FailureCount + 1,\n           FirstFailedAt = COALESCE(FirstFailedAt, UTC_TIMESTAMP(6)),"
    " LastFailedAt = UTC_TIMESTAMP(6),\n           "
)
#: Every way in which a failure or a replay fact is written.
_FACTS: Final[tuple[LiteralString, ...]] = (
    "FailureClass = %(failure_class)s, FailureSummary = %(failure_summary)s, " + _FAILED,
    "FailureClass = 'lease_lost', FailureSummary = %(failure_summary)s, " + _FAILED,
    "FailureClass = %(failure_class)s, FailureSummary = %(failure_summary)s,\n           ",
    ", Outcome = 'succeeded'",
    ", Outcome = 'skipped'",
    ", Outcome = 'dead'",
    ", Outcome = 'cancelled'",
    "TerminalAt = UTC_TIMESTAMP(6), ",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackStatements:
    """What is asked besides of a table whose rows belong to packs."""

    list_candidates: Statement
    list_stopped: Statement
    find_unfinished_in_older: Statement


def pack_statements_of(table: WorkTable) -> PackStatements:
    """Return what is asked besides of a table whose rows belong to packs.

    Args:
        table: The table.
    """
    return PackStatements(
        list_candidates=_read(table, "LIST_PACK_CANDIDATES", _both_states(_PACK_CANDIDATES), Returns.ROWS),
        list_stopped=_read(
            table,
            "LIST_STOPPED",
            _LIST_STOPPED.replace("{unreplayed}", _UNREPLAYED if table.has_facts else _UNREPLAYED_EVENT),
            Returns.ROWS,
        ),
        find_unfinished_in_older=_read(
            table, "FIND_UNFINISHED_IN_OLDER_INCARNATIONS", _FIND_UNFINISHED_IN_OLDER, Returns.ROWS
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStatements:
    """The port: what the kernel asks of a table of WorkItems. `first_claim` is the one that a table brings itself."""

    first_claim: Statement
    list_page_ends: Statement
    list_candidates: Statement
    list_head_positions: Statement
    list_busy_target_lanes: Statement
    list_claimed_by_token: Statement
    later_claim: Statement
    renew_lease: Statement
    complete: Statement
    complete_many: Statement
    skip: Statement
    skip_many: Statement
    list_ended: Statement
    release: Statement
    retry: Statement
    bury: Statement
    acknowledge_cancel: Statement
    list_expired_leases: Statement
    reap: Statement
    reap_exhausted: Statement
    read_claim_facts: Statement
    find_unfinished: Statement
    cancel: Statement
    request_cancel: Statement
    list_cancel_requested: Statement
    insert_attempts: Statement
    block: Statement
    unblock: Statement


#: From which rows a claim that touches the WorkItem alone takes.
FROM_PENDING: Final = "\n       AND State = 'pending'\n       AND Attempt = 0"
FROM_RETRY: Final = "\n       AND State = 'retry'\n       AND Attempt = %(attempt)s\n       AND Attempt < MaxAttempts"


def claim_alone(table: WorkTable, name: LiteralString, source: LiteralString) -> Statement:
    """Return the claim that touches no other table's rows.

    Args:
        table: The table.
        name: The statement's name.
        source: Which rows it takes: `FROM_PENDING` or `FROM_RETRY`.
    """
    return _write(table, name, _LATER_CLAIM.replace("{source}", source))


def statements_of(table: WorkTable, *, first_claim: Statement) -> WorkStatements:
    """Return a table's statements.

    Args:
        table: The table.
        first_claim: Its first claim, which may lock what the items are made of.
    """
    return WorkStatements(
        first_claim=first_claim,
        list_page_ends=_read(table, "LIST_PAGE_ENDS", _both_states(_PAGE_END), Returns.ROWS),
        list_candidates=_read(table, "LIST_CLAIM_CANDIDATES", _both_states(_CANDIDATES_OF_PAGE), Returns.ROWS),
        list_head_positions=_read(table, "LIST_HEAD_POSITIONS", _heads(), Returns.ROWS),
        list_busy_target_lanes=_read(table, "LIST_BUSY_TARGET_LANES", _LIST_BUSY_TARGET_LANES, Returns.ROWS),
        list_claimed_by_token=_read(table, "LIST_CLAIMED_BY_TOKEN", _LIST_CLAIMED, Returns.ROWS),
        later_claim=claim_alone(table, "LATER_CLAIM", FROM_RETRY),
        renew_lease=_write(table, "RENEW_LEASE", _RENEW_LEASE),
        complete=_write(table, "COMPLETE_WORK_ITEM", _END_WELL.replace("{outcome}", "succeeded")),
        complete_many=_write(table, "COMPLETE_WORK_ITEMS", _END_MANY_WELL.replace("{outcome}", "succeeded")),
        skip=_write(table, "SKIP_WORK_ITEM", _END_WELL.replace("{outcome}", "skipped")),
        skip_many=_write(table, "SKIP_WORK_ITEMS", _END_MANY_WELL.replace("{outcome}", "skipped")),
        list_ended=_read(table, "LIST_ENDED", _LIST_ENDED, Returns.ROWS),
        release=_write(table, "RELEASE_WORK_ITEM", _RELEASE),
        retry=_write(table, "RETRY_WORK_ITEM", _RETRY),
        bury=_write(table, "BURY_WORK_ITEM", _BURY),
        acknowledge_cancel=_write(table, "ACKNOWLEDGE_CANCEL", _ACKNOWLEDGE_CANCEL),
        list_expired_leases=_read(table, "LIST_EXPIRED_LEASES", _LIST_EXPIRED_LEASES, Returns.ROWS),
        reap=_write(table, "REAP_WORK_ITEM", _REAP),
        reap_exhausted=_write(table, "REAP_EXHAUSTED_WORK_ITEM", _REAP_EXHAUSTED),
        read_claim_facts=_read(table, "READ_CLAIM_FACTS", _READ_CLAIM_FACTS, Returns.ROW),
        find_unfinished=_read(table, "FIND_UNFINISHED_WORK", _FIND_UNFINISHED, Returns.ROW),
        cancel=_write_held(table, "CANCEL_WORK_ITEM", _CANCEL),
        request_cancel=_write_held(table, "REQUEST_CANCEL", _REQUEST_CANCEL),
        list_cancel_requested=_read(table, "LIST_CANCEL_REQUESTED", _LIST_CANCEL_REQUESTED, Returns.ROWS),
        insert_attempts=_write_held(table, "INSERT_ATTEMPTS_OF_CLAIM", _INSERT_ATTEMPTS),
        block=_write(table, "BLOCK_WORK_ITEMS", _BLOCK),
        unblock=_write(table, "UNBLOCK_WORK_ITEMS", _UNBLOCK),
    )


def _read(table: WorkTable, name: LiteralString, text: LiteralString, returns: Returns) -> Statement:
    return Statement(name=name + table.suffix, text=_fill(table, text), returns=returns)


def _write(table: WorkTable, name: LiteralString, text: LiteralString) -> Statement:
    return Statement(
        name=name + table.suffix, text=_fill(table, text), returns=Returns.COUNT, locks=(LockRank.WORK_ITEM,)
    )


def _write_held(table: WorkTable, name: LiteralString, text: LiteralString) -> Statement:
    return Statement(name=name + table.suffix, text=_fill(table, text), returns=Returns.COUNT, holds=LockRank.WORK_ITEM)


def _fill(table: WorkTable, text: LiteralString) -> LiteralString:
    filled = _name(table, text)
    if not table.has_fences:
        filled = filled.replace(_NO_FENCE, "")
    if not table.has_facts:
        for fact in _FACTS:
            filled = filled.replace(fact, "")
        filled = filled.replace(" FailureClass,", " NULL AS FailureClass,").replace(
            " LastFailedAt,", " NULL AS LastFailedAt,"
        )
    return filled


def _name(table: WorkTable, text: LiteralString) -> LiteralString:
    return (
        text.replace("{live_claim}", _LIVE_CLAIM)
        .replace("{no_lease}", _NO_LEASE)
        .replace("{table}", table.table)
        .replace("{candidate_columns}", table.candidate_columns)
        .replace("{position}", table.position)
        .replace("{same_lane}", table.same_lane)
        .replace("{lane_name}", table.lane_name)
        .replace("{closed}", table.closed)
        .replace("{ready}", table.ready)
        .replace("{claim_index}", table.claim_index)
        .replace("{lane_index}", table.lane_index)
        .replace("{target_index}", table.target_index)
        .replace("{active_key}", table.active_key)
        .replace("{projection_key}", table.projection_key)
        .replace("{pack}", table.pack)
        .replace("{of_family}", table.of_family)
        .replace("{many_end}", table.many_end)
        .replace("{many_guard}", table.many_guard)
    )
