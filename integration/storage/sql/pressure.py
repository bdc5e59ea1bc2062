"""Lock-free statements on the pressure of durable work, made from the same templates for both tables of WorkItems.

Every branch is one range of an index that ends at its cap; what is grouped afterwards is at most the caps' sum. No
payload, lease, failure text or lane's name leaves the database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, LiteralString

from integration.storage.statements import Returns, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureTable:
    """What differs between the tables. Every field is a part of SQL text.

    Attributes:
        table: The table.
        suffix: What the names of its statements end with; empty for the first table.
        family: The expression for a row's family; a text where the table holds one, so that the index covers it.
        claim_index: The index of (`State`, `RunAfter`, `QueueClass`, `WorkId`).
        ended_index: The index of (`State`, `TerminalAt`, `WorkId`).
        lane: The columns that name a source lane.
    """

    table: LiteralString
    suffix: LiteralString
    family: LiteralString
    claim_index: LiteralString
    ended_index: LiteralString
    lane: LiteralString


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureStatements:
    """What is asked of a table of WorkItems."""

    read_depth: Statement
    read_ended: Statement
    read_lanes: Statement


# In the order of the index, so that the earliest of a state are what a cap leaves.
_WAITING: Final = """
            (SELECT {columns}
               FROM {table} FORCE INDEX ({claim_index})
              WHERE State = '{state}'
              ORDER BY RunAfter, QueueClass, WorkId
              LIMIT %(cap)s)"""

_ENDED: Final = """
            (SELECT {columns}
               FROM {table} FORCE INDEX ({ended_index})
              WHERE State = '{state}' AND TerminalAt >= UTC_TIMESTAMP(6) - INTERVAL %(long_seconds)s SECOND
              ORDER BY TerminalAt DESC, WorkId DESC
              LIMIT %(cap)s)"""

_READ_DEPTH: Final = """
    SELECT WorkFamily, State, COUNT(*) AS Found,
           TIMESTAMPDIFF(MICROSECOND, MIN(RunAfter), UTC_TIMESTAMP(6)) AS DueMicroseconds
      FROM ({branches}) AS waiting
     GROUP BY WorkFamily, State
    """

_READ_ENDED: Final = """
    SELECT WorkFamily, State, COUNT(*) AS FoundLong,
           SUM(TerminalAt >= UTC_TIMESTAMP(6) - INTERVAL %(short_seconds)s SECOND) AS FoundShort,
           TIMESTAMPDIFF(MICROSECOND, MIN(TerminalAt), UTC_TIMESTAMP(6)) AS SpanMicroseconds
      FROM ({branches}) AS ended
     GROUP BY WorkFamily, State
    """

_READ_LANES: Final = """
    SELECT WorkFamily, COUNT(*) AS InLanes, SUM(LaneOrdinal > HeadOrdinal) AS Behind
      FROM (SELECT WorkFamily, LaneOrdinal,
                   MIN(LaneOrdinal) OVER (PARTITION BY {lane}) AS HeadOrdinal
              FROM ({branches}) AS sampled
             WHERE SourceLane IS NOT NULL AND LaneOrdinal IS NOT NULL) AS placed
     GROUP BY WorkFamily
    """

_UNION: Final = "\n             UNION ALL"


def _waiting(columns: LiteralString) -> LiteralString:
    branch = _WAITING.replace("{columns}", columns)
    return _UNION.join(
        (
            branch.replace("{state}", "pending"),
            branch.replace("{state}", "processing"),
            branch.replace("{state}", "retry"),
            branch.replace("{state}", "blocked"),
            branch.replace("{state}", "awaiting_legacy_outcome"),
            branch.replace("{state}", "legacy_outcome_unknown"),
        )
    )


def _ended(columns: LiteralString) -> LiteralString:
    branch = _ENDED.replace("{columns}", columns)
    return _UNION.join(
        (
            branch.replace("{state}", "succeeded"),
            branch.replace("{state}", "skipped"),
            branch.replace("{state}", "dead"),
            branch.replace("{state}", "cancelled"),
            branch.replace("{state}", "reconciled_legacy_terminal"),
        )
    )


def _statement(table: PressureTable, name: LiteralString, text: LiteralString, branches: LiteralString) -> Statement:
    filled = (
        text.replace("{branches}", branches)
        .replace("{table}", table.table)
        .replace("{family}", table.family)
        .replace("{claim_index}", table.claim_index)
        .replace("{ended_index}", table.ended_index)
        .replace("{lane}", table.lane)
    )
    return Statement(name=name + table.suffix, text=filled, returns=Returns.ROWS)


def _statements_of(table: PressureTable) -> PressureStatements:
    in_lane: LiteralString = "{family} AS WorkFamily, {lane}, LaneOrdinal"
    return PressureStatements(
        read_depth=_statement(
            table, "READ_QUEUE_DEPTH", _READ_DEPTH, _waiting("{family} AS WorkFamily, State, RunAfter")
        ),
        read_ended=_statement(
            table, "READ_QUEUE_ENDED", _READ_ENDED, _ended("{family} AS WorkFamily, State, TerminalAt")
        ),
        read_lanes=_statement(table, "READ_LANE_PRESSURE", _READ_LANES, _waiting(in_lane)),
    )


CONNECTOR: Final = _statements_of(
    PressureTable(
        table="_System_ConnectorWorkItem",
        suffix="",
        family="'connector'",
        claim_index="IX_WorkItem_Claim",
        ended_index="IX_WorkItem_Dead",
        lane="PackInstallId, Namespace, SourceLane",
    )
)
INTEGRATION: Final = _statements_of(
    PressureTable(
        table="_System_IntegrationWorkItem",
        suffix="_OF_INTEGRATION",
        family="WorkFamily",
        claim_index="IX_IntegrationWork_Claim",
        ended_index="IX_IntegrationWork_Dead",
        lane="Namespace, SourceLane",
    )
)
