"""Every named statement is parsed and its locks are held against the ranks that it declares."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import LiteralString

import pytest
import sqlglot
from MySQLdb.cursors import RE_INSERT_VALUES
from sqlglot import exp

from integration.states import NONTERMINAL_STATES
from integration.storage.sql import work_items
from integration.storage.sql.integration_work_items import INTEGRATION
from integration.storage.sql.work_port import WorkStatements
from integration.storage.statements import LockRank, Returns, Statement, all_statements

#: Which rank a table's rows have. A table that is not here cannot be locked.
RANK_OF_TABLE = {
    "_System_ConnectorNamespace": LockRank.NAMESPACE,
    "_System_ConnectorPackInstall": LockRank.PACK,
    "_System_ConnectorRoute": LockRank.ROUTE,
    "_System_ConnectorClaimProcess": LockRank.PROCESS,
    "_System_ConnectorIngressReceipt": LockRank.RECEIPT,
    "_System_ConnectorEvent": LockRank.EVENT,
    "_System_ConnectorWorkItem": LockRank.WORK_ITEM,
    "_System_IntegrationWorkItem": LockRank.WORK_ITEM,
    "_System_IntegrationExternalCommand": LockRank.COMMAND,
    "_System_ConnectorExecutionAttempt": LockRank.ATTEMPT,
    "_System_IntegrationEffectAttempt": LockRank.ATTEMPT,
    "_System_IntegrationPrincipalBinding": LockRank.BINDING,
    "_System_IntegrationAuthorizationGrant": LockRank.GRANT,
    "_System_IntegrationQuotaWindow": LockRank.QUOTA,
    "_System_ConnectorAdmissionFence": LockRank.LEAF,
    "_System_ConnectorAdmissionOverride": LockRank.LEAF,
    "_System_ConnectorRollbackFence": LockRank.LEAF,
    "_System_ConnectorLegacyOutcomeReceipt": LockRank.LEAF,
    "_System_ConnectorSchedulerLease": LockRank.LEAF,
    "console_replaybatch": LockRank.LEAF,
    "console_replaybatchitem": LockRank.LEAF,
    "console_apitoken": LockRank.LEAF,
    "console_keptanswer": LockRank.LEAF,
}
#: Columns that find one row, or a sorted set of rows, of a table by a key.
KEYS_OF_TABLE = {
    "_System_ConnectorNamespace": {"Namespace"},
    "_System_ConnectorPackInstall": {"PackInstallId"},
    "_System_ConnectorRoute": {"RouteId", "PackInstallId"},
    "_System_ConnectorClaimProcess": {"ProcessId"},
    "_System_ConnectorIngressReceipt": {"ReceiptId"},
    "_System_ConnectorEvent": {"EventId"},
    "_System_ConnectorWorkItem": {"WorkId", "EventId"},
    "_System_IntegrationWorkItem": {"WorkId"},
    "_System_ConnectorExecutionAttempt": {"WorkId"},
    "_System_ConnectorAdmissionFence": {"FenceId"},
    "_System_ConnectorAdmissionOverride": {"OverrideId"},
    "_System_ConnectorRollbackFence": {"FenceId"},
    "_System_ConnectorLegacyOutcomeReceipt": {"EventId"},
    "_System_ConnectorSchedulerLease": {"PackInstallId"},
    "console_replaybatch": {"id"},
    "console_replaybatchitem": {"id"},
    "console_apitoken": {"id"},
    "console_keptanswer": {"id"},
}
#: The only statement that locks through a join: two tables, in rank order, each by its key.
JOINED_LOCKS = {"FIRST_CLAIM", "FIRST_CLAIM_OF_OLD_SCHEMA"}

STATEMENTS = list(all_statements())
IDS = [f"{module}.{constant}" for module, constant, _ in STATEMENTS]


def as_sql(text: str) -> str:
    """Replace the driver's placeholders by literals that a parser takes."""
    text = re.sub(r"IN\s+%\(\w+\)s", "IN ('x')", text)
    text = re.sub(r"LIMIT\s+%\(\w+\)s", "LIMIT 1", text)
    return re.sub(r"%\(\w+\)s", "'x'", text).replace("%%", "%")


def parse(statement: Statement) -> exp.Expression:
    parsed = sqlglot.parse(as_sql(statement.text), read="mysql")
    assert len(parsed) == 1, "one statement, not several"
    assert parsed[0] is not None
    return parsed[0]


def faults(constant: str, statement: Statement) -> list[str]:
    """Return what is wrong with a statement; empty when nothing is."""
    found = []
    upper = " ".join(statement.text.upper().split())
    if statement.name != constant:
        found.append(f"is named {statement.name}")
    for banned in ("SKIP LOCKED", "FOR SHARE", "LOCK IN SHARE MODE", "NOWAIT", " RETURNING ", " OFFSET "):
        if banned in f"{upper} ":
            found.append(f"uses {banned.strip()}")
    if re.search(r"\(\s*\w+\s*,\s*\w+[^()]*\)\s*[<>]", statement.text):
        found.append("compares a row constructor")
    tree = parse(statement)
    match tree:
        case exp.Update() | exp.Delete():
            found += write_faults(constant, statement, tree)
        case exp.Insert():
            found += insert_faults(statement)
        case _:
            found += read_faults(statement, tree)
    return found


def write_faults(constant: str, statement: Statement, tree: exp.Expression) -> list[str]:
    tables = [table.name for table in tree.find_all(exp.Table)]
    targets = tables if constant in JOINED_LOCKS else tables[:1]
    found = []
    if not statement.locks and statement.holds is None:
        found.append("writes and declares neither `locks` nor `holds`")
    declared = set(statement.locks) | ({statement.holds} if statement.holds is not None else set())
    for table in targets:
        rank = RANK_OF_TABLE.get(table)
        if rank is None:
            found.append(f"writes {table}, which has no rank")
        elif rank not in declared:
            found.append(f"locks {table} but does not declare {rank.name}")
        found += key_faults(tree, table)
    if len(tables) > 1 and constant not in JOINED_LOCKS and any(tree.find_all(exp.Join)):
        found.append("locks through a join")
    if statement.returns is not Returns.COUNT:
        found.append("must return a count")
    return found


def key_faults(tree: exp.Expression, table: str) -> list[str]:
    where = tree.find(exp.Where)
    if where is None:
        return [f"writes every row of {table}"]
    # The join of the one joined lock is by key, and stands in ON.
    conditions = [where, *tree.find_all(exp.Join)]
    columns = {column.name for condition in conditions for column in condition.find_all(exp.Column)}
    return [] if columns & KEYS_OF_TABLE.get(table, {"?"}) else [f"finds the rows of {table} without a key"]


def insert_faults(statement: Statement) -> list[str]:
    found = []
    if statement.locks:
        found.append("an insert of a row that nobody can see takes no rank")
    if statement.many and not RE_INSERT_VALUES.match(statement.text):
        found.append("is executed many times with more than parameters in VALUES, which the driver runs row by row")
    return found


def read_faults(statement: Statement, tree: exp.Expression) -> list[str]:
    locked = any(select.args.get("locks") for select in tree.find_all(exp.Select))
    if not locked:
        return ["declares locks and takes none"] if statement.locks else []
    found = []
    tables = [table.name for table in tree.find_all(exp.Table)]
    if len(tables) != 1:
        return [f"locks a read of {len(tables)} tables"]
    rank = RANK_OF_TABLE.get(tables[0])
    if statement.locks != (rank,):
        found.append(f"locks {tables[0]} and declares {statement.locks}")
    found += key_faults(tree, tables[0])
    if statement.returns is Returns.ROWS and tree.find(exp.Order) is None:
        found.append("locks several rows without ORDER BY")
    return found


@pytest.mark.parametrize(("module", "constant", "statement"), STATEMENTS, ids=IDS)
def test_statement__keeps_the_house_rules(module: str, constant: str, statement: Statement):
    assert faults(constant, statement) == []


def test_statements__exist_for_every_lock_of_the_claim_and_the_replay():
    names = {constant for _, constant, _ in STATEMENTS}
    assert {"LOCK_PACK", "LOCK_EVENTS", "LOCK_WORK_ITEMS_OF_EVENT", "LOCK_PROCESS"} <= names


PORTS = {"work_items", "integration_work_items"}
#: How the names of a table's statements end: of the other table, of the first one's older schemas.
SUFFIXES = ("", "_OF_INTEGRATION", "_OF_ADDITIVE", "_OF_LEGACY")
TRANSITIONS_OF_CLAIMS = [
    (constant, statement)
    for module, constant, statement in STATEMENTS
    if module in PORTS and isinstance(parse(statement), exp.Update) and "State = 'processing'\n" in statement.text
]


@pytest.mark.parametrize(
    ("constant", "statement"), TRANSITIONS_OF_CLAIMS, ids=[name for name, _ in TRANSITIONS_OF_CLAIMS]
)
def test_transition_of_a_claimed_row__names_token_and_epoch(constant: str, statement: Statement):
    """Three leading queues lost work to an owner that had lost its lease, for want of it."""
    where = statement.text.partition("WHERE")[2]
    assert "LeaseToken = %(lease_token)s" in where
    assert "OwnershipEpoch = %(epoch)s" in where


def test_transitions_of_claimed_rows__are_all_found():
    assert {name for name, _ in TRANSITIONS_OF_CLAIMS} == {
        constant
        for module, constant, statement in STATEMENTS
        if module in PORTS and statement.locks == (LockRank.WORK_ITEM,) and "LeaseToken" in statement.text
    } - {f"{claim}{suffix}" for claim in ("FIRST_CLAIM", "LATER_CLAIM", "BLOCK_WORK_ITEMS") for suffix in SUFFIXES}


def test_statements__of_every_table_of_work_are_the_same_ones():
    """A family is added by declaring its table; nothing of a claim or a retry is written again."""
    members = [member.name for member in fields(WorkStatements)]
    ports = [work_items.CONNECTOR, work_items.CONNECTOR_OF_ADDITIVE, work_items.CONNECTOR_OF_LEGACY, INTEGRATION]
    assert {statement.name for port in ports for statement in (getattr(port, name) for name in members)} <= {
        constant for _, constant, _ in STATEMENTS
    }
    # A first claim is a table's own.
    for name in set(members) - {"first_claim"}:
        bare = {re.sub(r"_OF_(INTEGRATION|ADDITIVE|LEGACY)$", "", getattr(port, name).name) for port in ports}
        assert len(bare) == 1


LISTS_OF_STATES = [
    (constant, found)
    for _, constant, statement in STATEMENTS
    if "SourceLane" in statement.text and not statement.locks and statement.holds is None
    for found in re.findall(r"\bState IN \(('pending'[^)]*)\)", statement.text)
    if "'blocked'" in found
]


def test_lists_of_states__that_block_a_lane_are_the_nonterminal_ones():
    assert LISTS_OF_STATES
    for constant, found in LISTS_OF_STATES:
        assert set(re.findall(r"'(\w+)'", found)) == NONTERMINAL_STATES, constant


def test_statements__have_names_of_their_own():
    names = [constant for _, constant, _ in STATEMENTS]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def bad(text: LiteralString, **fields: object) -> Statement:
    return Statement(name="BAD", text=text, **{"returns": Returns.ROW, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        (
            bad("SELECT WorkId FROM _System_ConnectorWorkItem WHERE WorkId = %(w)s FOR UPDATE"),
            "declares ()",
        ),
        (
            bad(
                "SELECT WorkId FROM _System_ConnectorWorkItem WHERE WorkId = %(w)s FOR UPDATE SKIP LOCKED",
                locks=(LockRank.WORK_ITEM,),
            ),
            "SKIP LOCKED",
        ),
        (
            bad(
                "SELECT WorkId FROM _System_ConnectorWorkItem WHERE State = 'dead' FOR UPDATE",
                locks=(LockRank.WORK_ITEM,),
            ),
            "without a key",
        ),
        (
            bad(
                "SELECT e.EventId FROM _System_ConnectorEvent e JOIN _System_ConnectorWorkItem w ON w.EventId = e.EventId"
                " WHERE e.EventId = %(e)s FOR UPDATE",
                locks=(LockRank.EVENT,),
            ),
            "2 tables",
        ),
        (
            bad(
                "UPDATE _System_ConnectorEvent SET Status = 'dead' WHERE EventId = %(e)s",
                returns=Returns.COUNT,
                locks=(LockRank.WORK_ITEM,),
            ),
            "does not declare EVENT",
        ),
        (
            bad(
                "UPDATE _System_ConnectorWorkItem SET State = 'dead'",
                returns=Returns.COUNT,
                locks=(LockRank.WORK_ITEM,),
            ),
            "every row",
        ),
        (
            bad(
                "INSERT INTO _System_ConnectorEvent (EventId, ReceivedAt) VALUES (%(e)s, UTC_TIMESTAMP(6))",
                returns=Returns.COUNT,
                many=True,
            ),
            "row by row",
        ),
        (
            bad(
                "INSERT INTO _System_ConnectorEvent (EventId, Status) VALUES (%(e)s, 'pending')",
                returns=Returns.COUNT,
                many=True,
            ),
            "row by row",
        ),
        (
            bad("SELECT WorkId FROM _System_ConnectorWorkItem WHERE (TerminalAt, WorkId) < (%(t)s, %(w)s)"),
            "row constructor",
        ),
        (bad("SELECT WorkId FROM _System_ConnectorWorkItem LIMIT 50 OFFSET 100"), "OFFSET"),
    ],
)
def test_statement__that_breaks_a_rule_is_caught(statement: Statement, complaint: str):
    assert any(complaint in fault for fault in faults("BAD", statement)), faults("BAD", statement)
