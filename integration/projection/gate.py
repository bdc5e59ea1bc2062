"""The activation gate: whether this build may execute the source projections of a database.

It reads a projection's inputs by ranges, so it needs the whole WorkItem schema and, of each incarnation, the protocol
row that says where the old protocol ended. Neither is taken for granted as the optional columns of per-event work are:
a worker refuses to start, and what a running one meets later it leaves alone. Whoever executes work by this library
asks `require_activation` before it serves.
"""

from __future__ import annotations

from dataclasses import dataclass

from integration.errors import Refused
from integration.projection.coverage import read_cutoffs
from integration.storage import db
from integration.storage.db import Reader
from integration.storage.probe import WORK_ITEM_TABLE, Capabilities, capabilities
from integration.storage.sql import protocols

PROTOCOL_TABLE = "_System_ConnectorProjectionProtocol"


class ProjectionsNotActivated(Refused):
    """Source projections cannot be executed here yet; no work was started."""

    code = "projections_not_activated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inactive:
    """An incarnation whose projections may not be executed.

    Attributes:
        pack_install_id: The incarnation.
        namespace: Its namespace.
        pack_name: Its pack.
    """

    pack_install_id: str
    namespace: str
    pack_name: str


def require_activation(*, using: str = "default") -> None:
    """Make sure that the projections of every pack that may be claimed from can be executed.

    A database without a pack that projects passes, whatever its schema: per-event work needs none of this.

    Args:
        using: The database alias.

    Raises:
        ProjectionsNotActivated: The schema or a protocol row is missing; names it, and the command that supplies it.

    Locks: none.
    Rule: P-13.
    """
    reader, found = db.read(using), capabilities(using, fresh=True)
    inactive = find_inactive(reader, found)
    if not inactive:
        return
    names = ", ".join(f"{pack.pack_name} in {pack.namespace} ({pack.pack_install_id})" for pack in inactive)
    ids = [pack.pack_install_id for pack in inactive]
    missing = missing_of_schema(found)
    if missing:
        message = (
            f"The schema lacks {', '.join(missing)}, which the source projections of {names} need: run manage.py"
            " install_schema, then the projection cutover of each."
        )
        raise ProjectionsNotActivated(message, missing=list(missing), pack_install_ids=ids)
    message = (
        f"No row of {PROTOCOL_TABLE} says where the old protocol of {names} ended: run connector-projection-cutover"
        " -pack-install-id ID for each. Per-event work alone is executed with --per-event-only."
    )
    raise ProjectionsNotActivated(message, missing=[PROTOCOL_TABLE], pack_install_ids=ids)


def find_inactive(reader: Reader, found: Capabilities) -> tuple[Inactive, ...]:
    """Return the active incarnations of WorkItems that project and may not.

    Args:
        reader: Where to read.
        found: What the database has.
    """
    if not found.has_work_items:
        return ()
    packs = reader.fetch_all(protocols.LIST_PROJECTING_PACKS)
    ids = {row["PackInstallId"] for row in packs}
    activated = read_cutoffs(reader, ids) if ids and not missing_of_schema(found) else {}
    return tuple(
        Inactive(pack_install_id=row["PackInstallId"], namespace=row["Namespace"], pack_name=row["PackName"])
        for row in packs
        if row["PackInstallId"] not in activated
    )


def may_project(reader: Reader, pack_install_id: str, found: Capabilities) -> bool:
    """Return whether the projections of one incarnation, active or retired, may be claimed.

    Args:
        reader: Reads in the transaction that registers a claimer, under the pack's lock.
        pack_install_id: The incarnation.
        found: What the database has.

    Locks: none.
    Rule: P-13.
    """
    if reader.fetch_one(protocols.FIND_PROJECTING_PACK, {"pack_install_id": pack_install_id}) is None:
        return True
    return not missing_of_schema(found) and pack_install_id in read_cutoffs(reader, (pack_install_id,))


def missing_of_schema(found: Capabilities) -> tuple[str, ...]:
    """Return the tables, columns and keys of WorkItem and protocol that a database lacks, by name."""
    tables = (WORK_ITEM_TABLE, PROTOCOL_TABLE)
    names = (*found.missing_tables, *found.missing_columns, *found.missing_keys)
    return tuple(name for name in names if name.partition(".")[0] in tables)
