"""What the cutover pages show: every incarnation with the owner of its work and its projection protocol, every receipt.

Nothing here is decided. What a receipt is worth is asked of the receipts themselves; whether the database still agrees
with the newest one is `inbound.verify`, and what stands in the way of a next one is asked of the cutovers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from integration import errors
from integration.cutover import receipts
from integration.cutover.receipts import Direction, Fault
from integration.scopes import EVERYWHERE, Scope, names_to_read
from integration.states import PackStatus, stored
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.sql import cutover_pages as sql
from integration.storage.sql import cutovers

PAGE_ROWS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class IncarnationFilters:
    """What a list of incarnations is narrowed to; None means everything.

    Attributes:
        namespace: A namespace, exact.
    """

    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Where an incarnation's old projection protocol ended, and who said so."""

    version: int
    legacy_max_ordinal: int
    written_at: datetime
    written_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptHead:
    """A cutover receipt without its proof."""

    receipt_id: str
    direction: str
    owner_generation: int
    written_at: datetime
    written_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """An incarnation of a pack and who executes its work.

    Attributes:
        pack_install_id: Its id.
        status: Where it stands.
        next_ordinal: The ordinal that its next input would get.
        is_projecting: One of its routes coalesces inputs into ranges.
        newest: Its newest cutover receipt; None while the Event executor has never handed anything over.
        protocol: Its projection checkpoint; None before one was written.
    """

    pack_install_id: str
    org_id: str
    namespace: str
    name: str
    version: str
    incarnation: int
    status: PackStatus
    next_ordinal: int
    activated_at: datetime | None
    retired_at: datetime | None
    is_projecting: bool
    newest: ReceiptHead | None
    protocol: Protocol | None

    @property
    def is_forward(self) -> bool:
        """Whether the WorkItems own its work."""
        return self.newest is not None and self.newest.direction == Direction.FORWARD

    @property
    def needs_projection_cutover(self) -> bool:
        """Whether it coalesces inputs and nothing says yet where the old protocol ended."""
        return self.is_projecting and self.protocol is None and self.status is not PackStatus.INSTALLED


@dataclass(frozen=True, slots=True, kw_only=True)
class IncarnationPage:
    """A page of incarnations by namespace, pack and number; `older` is the next page's cursor."""

    rows: tuple[Incarnation, ...]
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReceipt:
    """A cutover receipt with its proof, and what is wrong with it.

    Attributes:
        head: What its row says.
        kind: Which transition its proof tells of; empty when that cannot be read.
        proof: The proof, parsed; None when it is no JSON object.
        proof_text: The proof as it is stored: the text that the digest is of.
        proof_digest: The digest as it is stored.
        previous_receipt_id: The receipt before it.
        next_receipt_id: The receipt after it.
        faults: What is wrong with it, from the receipts alone.
    """

    head: ReceiptHead
    kind: str
    proof: Mapping[str, Any] | None
    proof_text: str
    proof_digest: str
    previous_receipt_id: str | None
    next_receipt_id: str | None
    faults: tuple[Fault, ...]


def list_incarnations(
    filters: IncarnationFilters | None = None,
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
    *,
    within: Scope = EVERYWHERE,
) -> IncarnationPage:
    """Return one page of incarnations, by namespace, pack and number.

    Args:
        filters: What to narrow the list to.
        cursor: The cursor of an earlier page; None for the first.
        limit: Rows on the page.
        within: Where the reader may look, at most 20 namespaces.

    Raises:
        InvalidInput: The cursor is not one of this list, or the reader has to name a namespace.

    Locks: none.
    """
    names = names_to_read(within, filters.namespace if filters else None)
    namespace, pack_name, number = ("", "", 0) if cursor is None else _parse(cursor)
    params = {"namespace": namespace, "pack_name": pack_name, "incarnation": number, "limit": limit + 1}
    reader = db.read()
    if names is None:
        found = reader.fetch_all(sql.LIST_INCARNATIONS_AFTER, params)
    else:
        found = reader.fetch_all(sql.LIST_INCARNATIONS_WITHIN_AFTER, {**params, "namespaces": names or ("",)})
    rows = _incarnations(reader, found[:limit])
    older = None
    if len(found) > limit:
        last = rows[-1]
        older = json.dumps([last.namespace, last.name, last.incarnation], separators=(",", ":"))
    return IncarnationPage(rows=rows, older=older)


def list_active(limit: int) -> tuple[Incarnation, ...]:
    """Return the active incarnations, by namespace and pack.

    Args:
        limit: How many at the most.

    Locks: none.
    """
    reader = db.read()
    return _incarnations(reader, reader.fetch_all(sql.LIST_ACTIVE_INCARNATIONS, {"limit": limit}))


def get_incarnation(pack_install_id: str, *, within: Scope = EVERYWHERE) -> Incarnation:
    """Return one incarnation.

    Args:
        pack_install_id: The incarnation.
        within: Where the reader may look; one elsewhere is none.

    Raises:
        PackNotFound: There is none of this id.
    """
    reader = db.read()
    row = None
    # The column is ASCII; MariaDB refuses to compare it with anything else.
    if pack_install_id.isascii():
        row = reader.fetch_one(sql.GET_INCARNATION, {"pack_install_id": pack_install_id})
    if row is None or not within.covers(row["Namespace"]):
        raise errors.PackNotFound
    return _incarnations(reader, [row])[0]


def list_receipts(pack_install_id: str) -> tuple[StoredReceipt, ...]:
    """Return an incarnation's receipts with what is wrong with them, newest first.

    Args:
        pack_install_id: The incarnation.

    Locks: none.
    """
    rows = receipts.list_receipts(db.read(), pack_install_id)
    faults = receipts.find_faults(rows)
    after = [*(row["ReceiptId"] for row in rows[1:]), None]
    return tuple(_receipt(row, following, faults) for row, following in zip(rows, after, strict=False))[::-1]


def get_receipt(receipt_id: str, *, within: Scope = EVERYWHERE) -> tuple[Incarnation, StoredReceipt]:
    """Return one receipt and the incarnation that it is of.

    Args:
        receipt_id: The receipt.
        within: Where the reader may look; a receipt elsewhere is none.

    Raises:
        NotFound: There is none of this id.
    """
    row = None
    if receipt_id.isascii():
        row = db.read().fetch_one(cutovers.FIND_CUTOVER_RECEIPT, {"receipt_id": receipt_id})
    pack = None if row is None else get_incarnation(row["PackInstallId"])
    if row is None or pack is None or not within.covers(pack.namespace):
        message = "There is no such cutover receipt."
        raise errors.NotFound(message)
    of_pack = list_receipts(pack.pack_install_id)
    return pack, next(one for one in of_pack if one.head.receipt_id == row["ReceiptId"])


def _incarnations(reader: Reader, rows: Iterable[Row]) -> tuple[Incarnation, ...]:
    rows = list(rows)
    if not rows:
        return ()
    by_ids = {"pack_install_ids": tuple(row["PackInstallId"] for row in rows)}
    newest = {row["PackInstallId"]: row for row in reader.fetch_all(sql.LIST_NEWEST_RECEIPTS_OF_PACKS, by_ids)}
    protocols = {row["PackInstallId"]: row for row in reader.fetch_all(sql.LIST_PROTOCOLS_OF_PACKS, by_ids)}
    return tuple(
        _incarnation(row, newest.get(row["PackInstallId"]), protocols.get(row["PackInstallId"])) for row in rows
    )


def _incarnation(row: Row, newest: Row | None, protocol: Row | None) -> Incarnation:
    return Incarnation(
        pack_install_id=row["PackInstallId"],
        org_id=row["OrgId"],
        namespace=row["Namespace"],
        name=row["PackName"],
        version=row["PackVersion"],
        incarnation=row["Incarnation"],
        status=stored(PackStatus, row["Status"]),
        next_ordinal=row["NextLaneOrdinal"],
        activated_at=row["ActivatedAt"],
        retired_at=row["RetiredAt"],
        is_projecting=bool(row["IsProjecting"]),
        newest=None if newest is None else _head(newest),
        protocol=None
        if protocol is None
        else Protocol(
            version=protocol["ProtocolVersion"],
            legacy_max_ordinal=protocol["LegacyMaxOrdinal"],
            written_at=protocol["WrittenAt"],
            written_by=protocol["WrittenBy"],
        ),
    )


def _head(row: Row) -> ReceiptHead:
    return ReceiptHead(
        receipt_id=row["ReceiptId"],
        direction=row["Direction"],
        owner_generation=row["OwnerGeneration"],
        written_at=row["WrittenAt"],
        written_by=row["WrittenBy"],
    )


def _receipt(row: Row, following: str | None, faults: Iterable[Fault]) -> StoredReceipt:
    proof = receipts.parse_proof(row["Proof"])
    return StoredReceipt(
        head=_head(row),
        kind=str((proof or {}).get("kind", "")),
        proof=proof,
        proof_text=row["Proof"],
        proof_digest=row["ProofDigest"],
        previous_receipt_id=row["PreviousReceiptId"],
        next_receipt_id=following,
        faults=tuple(fault for fault in faults if fault.receipt_id == row["ReceiptId"]),
    )


def _parse(cursor: str) -> tuple[str, str, int]:
    message = "The page's cursor is not one of this list."
    try:
        namespace, pack_name, number = json.loads(cursor[:600])
        # No column holds half a character.
        f"{namespace}{pack_name}".encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise errors.InvalidInput(message) from error
    if not (isinstance(namespace, str) and isinstance(pack_name, str) and type(number) is int and 0 <= number < 2**31):
        raise errors.InvalidInput(message)
    return namespace, pack_name, number
