"""Export dead rows and the audit trail.

The trail tells of an export twice: that it was begun, before the first row is read, and how many rows went out when it
ended, or was broken off. Where the second entry is missing nothing was read, or the process was killed in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import structlog
from django.conf import settings

from integration import errors
from integration.audit import reads as trail
from integration.audit.listing import AuditFilters, Entry
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.authority import reads as authority
from integration.authority.listing import DeadFilters, DeadRow
from integration.authority.values import VIEW_PERMISSION
from integration.exports.policy import CsvWriter, End, Format, JsonWriter, Summary, Writer
from integration.scopes import Scope, names_to_read
from integration.values import Actor, new_id, plain
from integration.work.outage import OUTAGE

AUDIT_PERMISSION: Final = "integration.view_audit"
_PAGE: Final = 500
#: Pages that one export reads at most: a filter that matches next to nothing ends there, not at the end of all rows.
_MOST_PAGES: Final = 400
_INTERRUPTED: Final = "interrupted"
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    rows: list[Mapping[str, Any]]
    left_out: int
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What is exported: its pages are read by a cursor and a limit."""

    noun: str
    columns: list[str]
    asked: Mapping[str, Any]
    read: Callable[[str | None, int], _Page]


def largest() -> int:
    """Return how many rows a file may have, as this installation is set up."""
    rows: int = settings.LOCKHOUSE_EXPORT_ROWS
    return rows


def export_dead(
    filters: DeadFilters, *, actor: Actor, form: Format, oldest_first: bool = False, using: str = "default"
) -> Iterator[str]:
    """Write the dead rows that match as a file, in the order of the list.

    Args:
        filters: What to narrow them to.
        actor: Who asks, with the permissions of this moment.
        form: CSV or JSON.
        oldest_first: Turn the list's order round.
        using: The database alias.

    Returns:
        The file's parts. The entry that it was begun is written before this returns.

    Raises:
        NotAllowed: The actor may view dead rows nowhere.
        InvalidInput: He may view them in more namespaces than a page merges, and the filter names none.
        Busy: The trail could not be written; nothing is exported.

    Locks: none.
    """
    within = _reach(actor, VIEW_PERMISSION, filters.namespace)

    def read(cursor: str | None, limit: int) -> _Page:
        page = authority.list_dead(filters, cursor, limit, within=within, oldest_first=oldest_first, using=using)
        left_out = sum(len(rejected.work_ids) for rejected in page.rejected)
        onward = page.newer if oldest_first else page.older
        return _Page(rows=[_dead_row(row) for row in page.rows], left_out=left_out, cursor=onward)

    source = _Source(
        noun="dead_letter",
        columns=[item.name for item in fields(DeadRow)],
        asked={**_asked(filters), "sort": _order(oldest_first=oldest_first)},
        read=read,
    )
    return _export(source, actor=actor, form=form, using=using)


def export_audit(
    filters: AuditFilters, *, actor: Actor, form: Format, oldest_first: bool = False, using: str = "default"
) -> Iterator[str]:
    """Write the entries of the trail that match as a file; as `export_dead`, under the permission to read the trail."""
    within = _reach(actor, AUDIT_PERMISSION, filters.namespace)

    def read(cursor: str | None, limit: int) -> _Page:
        page = trail.list_entries(filters, cursor, limit, within=within, oldest_first=oldest_first, using=using)
        onward = page.newer if oldest_first else page.older
        return _Page(rows=[plain(entry) for entry in page.entries], left_out=0, cursor=onward)

    source = _Source(
        noun="audit",
        columns=[item.name for item in fields(Entry)],
        asked={**_asked(filters), "sort": _order(oldest_first=oldest_first)},
        read=read,
    )
    return _export(source, actor=actor, form=form, using=using)


def _reach(actor: Actor, permission: str, namespace: str | None) -> Scope:
    """Return where an actor's rows are exported from; what cannot be listed is refused before the first part."""
    within = actor.reach(permission)
    if not within:
        raise errors.NotAllowed
    names_to_read(within, namespace)
    return within


def _export(source: _Source, *, actor: Actor, form: Format, using: str) -> Iterator[str]:
    export_id, cap = new_id(), largest()
    facts = {"filter": source.asked, "format": form.value, "cap": cap}

    def tell(verb: str, **more: Any) -> None:
        fact = AuditFact(
            action=f"{source.noun}.{verb}",
            outcome=AuditOutcome.DONE,
            actor=actor,
            ref_kind="export",
            ref_id=export_id,
            facts={**facts, **more},
        )
        record_alone(fact, using=using)

    tell("export_begun")
    asked = {"export": source.noun, "id": export_id, "by": actor.name, **facts}
    writer: Writer = CsvWriter(source.columns) if form is Format.CSV else JsonWriter(asked)

    def parts() -> Iterator[str]:
        rows, left_out, end = 0, 0, _INTERRUPTED
        try:
            yield writer.head()
            cursor, ended = None, End.BOUND
            for _ in range(_MOST_PAGES):
                page = source.read(cursor, min(_PAGE, cap - rows))
                rows, left_out, cursor = rows + len(page.rows), left_out + page.left_out, page.cursor
                yield writer.rows(page.rows)
                if cursor is None or rows >= cap:
                    ended = End.WHOLE if cursor is None else End.CAP
                    break
            yield writer.tail(Summary(rows=rows, left_out=left_out, end=ended))
            end = ended.value
        finally:
            # Whoever reads the file may go away at any part; what went out until then is told all the same.
            _tell_end(tell, rows=rows, end=end)

    return parts()


def _tell_end(tell: Callable[..., None], **facts: Any) -> None:
    try:
        tell("exported", **facts)
    except (errors.IntegrationError, *OUTAGE) as error:
        # The file is out: that it was begun stands in the trail.
        log.warning("export.end_not_recorded", error=type(error).__name__, **facts)


def _asked(filters: DeadFilters | AuditFilters) -> dict[str, Any]:
    return {name: value for name, value in plain(filters).items() if value is not None}


def _order(*, oldest_first: bool) -> str:
    return "oldest" if oldest_first else "newest"


def _dead_row(row: DeadRow) -> dict[str, Any]:
    return {**plain(row), "ref": str(row.ref)}
