"""What the rules of a replay answer with, and what several of them ask first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from integration.authority.facts import Facts
from integration.authority.gate import decide_owner
from integration.authority.values import Owner, Ruling, Verdict
from integration.states import ExecutionClass


def ok(code: str, sentence: str, **facts: Any) -> Verdict:
    """Return the verdict of a rule that lets the replay through."""
    return Verdict(code=code, ruling=Ruling.OK, sentence=sentence, facts=facts)


def no(code: str, sentence: str, next_step: str, facts: Mapping[str, Any] | None = None) -> Verdict:
    """Return the verdict of a rule that refuses, with what to do about it."""
    return Verdict(code=code, ruling=Ruling.REFUSED, sentence=sentence, facts=facts or {}, next_step=next_step)


def unasked(code: str) -> Verdict:
    """Return the verdict of a rule whose facts are missing."""
    return Verdict(code=code, ruling=Ruling.NOT_REACHED, sentence="Not asked: an earlier rule refuses.")


def find_owner(facts: Facts) -> Owner | None:
    """Return the owner of the original, or None if the row was not read."""
    if facts.event is None:
        return None
    return decide_owner(facts.event, facts.items, has_additive=facts.schema.has_additive)


def makes_work_item(facts: Facts) -> bool:
    """Return whether the child has a WorkItem: wherever the schema can hold it, and a projection's its range."""
    if not facts.schema.has_additive and facts.execution_class is ExecutionClass.SOURCE_PROJECTION:
        return False
    return facts.schema.has_work_items
