"""What an operator lists, counts and opens."""

from __future__ import annotations

from integration.authority.values import CappedCount, DeadDetail, DeadFilters, DeadPage, Lineage, Ref

PAGE_ROWS = 50
COUNT_CAP = 10_000


def list_dead(filters: DeadFilters, cursor: str | None = None, limit: int = PAGE_ROWS) -> DeadPage:
    """Return one page of dead rows; signature only for the moment."""
    raise NotImplementedError


def count_dead(filters: DeadFilters, cap: int = COUNT_CAP) -> CappedCount:
    """Count dead rows up to a cap; signature only for the moment."""
    raise NotImplementedError


def get_detail(ref: Ref) -> DeadDetail:
    """Return one row, in any state; raises NotFound or OwnerAmbiguous; signature only for the moment."""
    raise NotImplementedError


def lineage(ref: Ref) -> Lineage:
    """Return the replay chain around a row; signature only for the moment."""
    raise NotImplementedError
