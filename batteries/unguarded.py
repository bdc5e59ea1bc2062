"""The guards of a replay, each taken away in the process that asks for it: what a mutant is made of."""

from __future__ import annotations

import dataclasses
from typing import Any

from integration.authority import policy
from integration.authority.original_rules import decide_not_replayed
from integration.authority.verdicts import ok
from integration.storage.sql import events, replays, work_items
from integration.storage.statements import Statement


def without_rule() -> None:
    """Let what was replayed be replayed again, as far as the rules go."""

    def let_through(facts: Any) -> Any:
        return ok("already_replayed", "Not asked.")

    policy.RULES = tuple(let_through if rule is decide_not_replayed else rule for rule in policy.RULES)  # type: ignore[misc]


def without_item_guard() -> None:
    """Reserve a WorkItem that is reserved already."""
    text = work_items.RESERVE_REPLAY.text.replace("AND ReplayedAt IS NULL", "")
    work_items.RESERVE_REPLAY = changed(work_items.RESERVE_REPLAY, text)


def without_event_guard() -> None:
    """Reserve an Event that is reserved already."""
    text = replays.RESERVE_EVENT_REPLAY.text.replace("AND ReplayedAt IS NULL", "")
    replays.RESERVE_EVENT_REPLAY = changed(replays.RESERVE_EVENT_REPLAY, text)


def without_keys() -> None:
    """Insert children that no unique key tells from each other."""
    text = events.INSERT_REPLAY_EVENT.text.replace("%(replay_of_event_id)s", "NULL")
    text = text.replace("%(idempotency_key)s", "%(event_id)s")
    events.INSERT_REPLAY_EVENT = changed(events.INSERT_REPLAY_EVENT, text)
    text = work_items.INSERT_REPLAY_WORK_ITEM.text.replace("%(replay_of_work_id)s", "NULL")
    work_items.INSERT_REPLAY_WORK_ITEM = changed(work_items.INSERT_REPLAY_WORK_ITEM, text)


def changed(statement: Statement, text: Any) -> Statement:
    """Return a statement with another text."""
    assert text != statement.text
    return dataclasses.replace(statement, text=text)
