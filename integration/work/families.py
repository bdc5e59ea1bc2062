"""The families of durable work. A family is declared here; claim, lease, retry and lanes are the same for all.

To add one: declare a `WorkTable` beside the others in `storage/sql` unless it shares a table, add a `Family` below,
and let the conformance suite run over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from integration.storage.probe import Capabilities
from integration.storage.sql import integration_work_items, work_items
from integration.storage.sql.work_port import PackStatements, WorkStatements


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family of work.

    Attributes:
        name: As in `WorkFamily`, and as an operator names it.
        statements: The port to its table.
        packs: What is asked besides where items belong to packs.
        is_event_backed: Its items are made of Events and fenced pack by pack; the first claim takes the Event over.
    """

    name: str
    statements: WorkStatements = field(repr=False, compare=False)
    is_event_backed: bool = False
    packs: PackStatements | None = field(default=None, repr=False, compare=False)


CONNECTOR: Final = Family(
    name="connector", statements=work_items.CONNECTOR, is_event_backed=True, packs=work_items.PACKS
)
EFFECT: Final = Family(name="effect", statements=integration_work_items.INTEGRATION)
SUBSCRIPTION: Final = Family(name="subscription", statements=integration_work_items.INTEGRATION)
RECONCILE: Final = Family(name="reconcile", statements=integration_work_items.INTEGRATION)
TOKEN: Final = Family(name="token", statements=integration_work_items.INTEGRATION)
FAMILIES: Final = {family.name: family for family in (CONNECTOR, EFFECT, SUBSCRIPTION, RECONCILE, TOKEN)}


def of_schema(family: Family, found: Capabilities) -> Family:
    """Return a family with the statements for what a database has.

    A worker chooses when it starts. The statements of an older schema stay right when the database is upgraded under
    it: what they leave out, no state that they claim from depends on.

    Args:
        family: A family.
        found: What the database has.

    Rule: P-23.
    """
    if not family.is_event_backed or (found.has_ranges and found.has_rollback):
        return family
    if found.has_additive:
        return replace(family, statements=work_items.CONNECTOR_OF_ADDITIVE, packs=work_items.PACKS_OF_ADDITIVE)
    return replace(family, statements=work_items.CONNECTOR_OF_LEGACY, packs=work_items.PACKS_OF_LEGACY)


def tables_of(families: Iterable[Family]) -> list[Family]:
    """Return one family for each table that some families have, in their order.

    What concerns every row of a table, whichever family it is of, is done once: taking back expired leases.
    """
    found: dict[int, Family] = {}
    for family in families:
        found.setdefault(id(family.statements), family)
    return list(found.values())
