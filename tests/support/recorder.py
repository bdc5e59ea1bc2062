"""Every SQL statement that the test process sends, held against what both databases can do.

A pytest plugin. A test fails when a statement that it caused uses what one of the databases lacks or does not honour,
or when a transaction of the door locks rows against the order of ranks. It looks at the text that reaches the driver,
whoever wrote it; what other processes send is theirs to record.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from typing import Any, Final

import pytest
from django.db import transaction

from batteries import hook
from batteries.figures import Figures
from tests.support import servers

_BANNED: Final = {
    "SKIP LOCKED": re.compile(r"\bSKIP\s+LOCKED\b", re.IGNORECASE),
    "a share lock": re.compile(r"\bFOR\s+SHARE\b|\bLOCK\s+IN\s+SHARE\s+MODE\b", re.IGNORECASE),
    "a row constructor": re.compile(
        r"(?<![\w`])\(\s*`?\w+`?\s*,[^()]*\)\s*(?:[<>]|=(?!=)|(?:NOT\s+)?IN\s*\(\s*\()", re.IGNORECASE
    ),
}
_RETURNING: Final = re.compile(r"\bRETURNING\b", re.IGNORECASE)
_DDL: Final = re.compile(r"^\s*(?:CREATE|ALTER|DROP|TRUNCATE|RENAME)\s+(?!TEMPORARY)", re.IGNORECASE)
_LITERALS: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'")
_LOCKED_READ: Final = re.compile(r"\bFOR\s+UPDATE\b", re.IGNORECASE)
_TABLE: Final = re.compile(r"_System_\w+")
_SYSTEM: Final = re.compile(r"`?_System_", re.IGNORECASE)


def banned_in(text: str, *, in_transaction: bool, in_unit: bool) -> list[str]:
    """Return what a statement does that it must not.

    Args:
        text: As it reaches the driver, parameters not filled in.
        in_transaction: Whether its connection has a transaction open.
        in_unit: Whether a transaction of the storage door is open.
    """
    plain = _LITERALS.sub("''", text)
    found = [name for name, pattern in _BANNED.items() if pattern.search(plain)]
    # Django's own INSERTs use it where its backend says that it may; those are of tables that it manages.
    if _RETURNING.search(plain) and _SYSTEM.search(plain):
        found.append("RETURNING")
    if _DDL.match(plain) and in_transaction:
        found.append("DDL in a transaction")
    if _LOCKED_READ.search(plain) and not (in_unit if hook.name_of(text) else in_transaction):
        found.append("a locked read outside a transaction")
    return found


def locked_tables(text: str) -> list[str]:
    """Return the system tables whose rows a statement locks; an INSERT's row can be seen by nobody yet."""
    head = text.lstrip().upper()
    if head.startswith("UPDATE"):
        return _TABLE.findall(re.split(r"\bSET\b", text, maxsplit=1)[0])
    if head.startswith("DELETE") or _LOCKED_READ.search(text):
        return _TABLE.findall(text)[:1]
    return []


class Recorder(hook.Observer):
    """What was sent, and what was wrong with it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.names: set[str] = set()
        self.violations: list[str] = []
        self._own = threading.local()
        self._ranks: dict[str, int] = {}

    @property
    def _held(self) -> list[str] | None:
        """The tables that this thread's transaction has locked; None outside of one."""
        return getattr(self._own, "held", None)

    @_held.setter
    def _held(self, tables: list[str] | None) -> None:
        self._own.held = tables

    def ranks(self) -> dict[str, int]:
        """Return each table's rank, as the statements' own test has it."""
        if not self._ranks:
            from tests.unit.storage.test_statements import RANK_OF_TABLE

            self._ranks = {table: int(rank) for table, rank in RANK_OF_TABLE.items()}
        return self._ranks

    def begin(self) -> None:
        """Be told that a transaction of the door begins."""
        self._held = []

    def end(self) -> None:
        """Be told that it ended."""
        self.counts["transactions"] += bool(self._held)
        self._held = None

    def before(self, text: str, params: Any, wrapper: Any) -> None:
        if text == hook.COMMIT or not isinstance(text, str):
            return
        self.counts["statements"] += 1
        if name := hook.name_of(text):
            self.names.add(name)
        connection = getattr(wrapper.cursor, "connection", None)
        in_transaction = connection is not None and not connection.get_autocommit()
        for what in banned_in(text, in_transaction=in_transaction, in_unit=self._held is not None):
            self.violations.append(f"{what}: {' '.join(text.split())[:300]}")
        if self._held is not None:
            self._note_locks(text)

    def _note_locks(self, text: str) -> None:
        assert self._held is not None
        ranks = self.ranks()
        for table in locked_tables(text):
            rank = ranks.get(table)
            if rank is None or table in self._held:
                continue
            highest = max((ranks[held] for held in self._held), default=0)
            if rank < highest:
                self.counts["inverted"] += 1
                self.violations.append(f"locks {table} after {', '.join(self._held)}: {' '.join(text.split())[:200]}")
            self._held.append(table)

    def tally(self) -> dict[str, Any]:
        """Return the counts, for a controller to add up."""
        return {**self.counts, "violations": len(self.violations), "names": sorted(self.names)}


_recorder = Recorder()
_totals: Counter[str] = Counter()
_names: set[str] = set()


def _watch_units() -> None:
    enter, leave = transaction.Atomic.__enter__, transaction.Atomic.__exit__

    def observed_enter(self: Any) -> None:
        enter(self)
        if self.durable:
            _recorder.begin()

    def observed_exit(self: Any, *args: Any) -> None:
        if self.durable:
            _recorder.end()
        leave(self, *args)

    transaction.Atomic.__enter__ = observed_enter  # type: ignore[method-assign]
    transaction.Atomic.__exit__ = observed_exit  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    """Start to record."""
    config.addinivalue_line("markers", "breaks_the_rules(why): a test whose own SQL is what must not be written")
    hook.install(_recorder)
    _watch_units()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Fail a test for what it sent."""
    before = len(_recorder.violations)
    result = yield
    found = _recorder.violations[before:]
    if found and item.get_closest_marker("breaks_the_rules"):
        del _recorder.violations[before:]
        _recorder.counts["inverted"] = 0
    elif found:
        message = "SQL that must not be written:\n" + "\n".join(found)
        raise AssertionError(message)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts over: to the controller, or to the summary."""
    tally = _recorder.tally()
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["recorder"] = tally
    else:
        _add(tally)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a worker recorded."""
    _add(getattr(node, "workeroutput", {}).get("recorder", {}))


def _add(tally: dict[str, Any]) -> None:
    _names.update(tally.get("names", ()))
    _totals.update({name: count for name, count in tally.items() if name != "names"})


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the totals, and keep them beside the batteries' figures when the whole suite ran."""
    if not _totals["statements"]:
        return
    terminalreporter.write_line(
        f"recorder: statements {_totals['statements']}, {len(_names)} of them by name, violations "
        f"{_totals['violations']}; transactions with locks {_totals['transactions']}, inverted {_totals['inverted']}"
    )
    if os.environ.get("LOCKHOUSE_EVIDENCE_DIR"):
        figures = Figures(battery="r10_recorder", engine=servers.engine(), form="suite", seed=0, mutant=False)
        figures.note(
            statements=_totals["statements"],
            named=len(_names),
            violations=_totals["violations"],
            transactions=_totals["transactions"],
            inverted=_totals["inverted"],
        )
        figures.demand("no statement breaks the rules", _totals["violations"] == 0)
        figures.store()
