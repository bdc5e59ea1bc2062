"""The rules of a replay: one list, asked by the plan and by the replay alike. Pure.

Each rule looks at the facts and answers with its verdict. The replay stops at the first refusal; the plan
shows them all. A rule whose facts are missing says NOT_REACHED: an earlier rule has refused then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from integration.authority.facts import Facts
from integration.authority.original_rules import (
    decide_dead,
    decide_event_fence,
    decide_found,
    decide_mirror,
    decide_not_reconciled,
    decide_not_replayed,
    decide_owner_is_clear,
    decide_permission,
    decide_schema,
)
from integration.authority.target_rules import (
    decide_admission,
    decide_binding,
    decide_catalog,
    decide_event_only_successor,
    decide_execution_class,
    decide_materialization,
    decide_pack,
    decide_route,
    decide_scope,
    decide_snapshot,
)
from integration.authority.values import Ruling, Verdict

Rule = Callable[[Facts], Verdict]

#: Asked in this order, by the plan and by the replay.
RULES: Final[tuple[Rule, ...]] = (
    decide_permission,
    decide_found,
    decide_schema,
    decide_owner_is_clear,
    decide_not_reconciled,
    decide_dead,
    decide_not_replayed,
    decide_event_fence,
    decide_mirror,
    decide_pack,
    decide_admission,
    decide_route,
    decide_snapshot,
    decide_execution_class,
    decide_scope,
    decide_event_only_successor,
    decide_catalog,
    decide_binding,
    decide_materialization,
)


def judge(facts: Facts) -> tuple[Verdict, ...]:
    """Return every rule's verdict, in order."""
    return tuple(rule(facts) for rule in RULES)


def first_refusal(facts: Facts) -> Verdict | None:
    """Return the first rule's verdict that refuses, or None if all let the replay through."""
    return next((verdict for rule in RULES if (verdict := rule(facts)).ruling is Ruling.REFUSED), None)
