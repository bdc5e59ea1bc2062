"""Store receipts before the answer, and materialize them into Events and WorkItems afterwards."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import structlog
from django.conf import settings
from django.db import IntegrityError
from prometheus_client import Counter

from integration import errors
from integration.catalog.reads import WebhookBinding
from integration.failpoints import failpoint
from integration.ingress import crypto, idempotency, materialize
from integration.ingress.backlog import HeldBacklog
from integration.ingress.materialize import MaterializedBatch, Position
from integration.ingress.policy import QuarantineCode
from integration.storage import db
from integration.storage.sql import packs, receipts
from integration.values import ReceiptId, canonical_json, new_id

BATCH_SIZE: Final = 200
#: A provider waits five seconds; a receipt that is not stored by then is answered for.
DEADLINE_SECONDS: Final = 4.0
#: A statement may take so long (the alias's own timeout): with less left, another try would answer too late.
_SETTLE_SECONDS: Final = 3.0
_MAX_DELIVERY_ID_CHARACTERS: Final = 255
log = structlog.get_logger(__name__)

RECEIPTS = Counter("lockhouse_ingress_receipts_total", "Verified webhooks, by what storing them came to.", ["outcome"])
MATERIALIZED = Counter("lockhouse_ingress_materialized_total", "Receipts that left the backlog.", ["outcome"])
QUARANTINED = Counter("lockhouse_ingress_quarantined_total", "Receipts that cannot become work, by code.", ["code"])
PLACED = Counter(
    "lockhouse_projection_placed_total", "Sources of a batch, by where their inputs went in the ranges.", ["place"]
)
# A series that begins with its first count has no increase that an alert could see.
for _code in QuarantineCode:
    QUARANTINED.labels(_code.value)
MATERIALIZER_ERRORS = Counter("lockhouse_ingress_materializer_errors_total", "Batches that failed, by code.", ["code"])


class StoreOutcome(StrEnum):
    """What storing a receipt came to."""

    STORED = "stored"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReceipt:
    """A receipt that is durable.

    Attributes:
        receipt_id: The receipt of this delivery, or of the one that it repeats; None when that was not read.
        outcome: Whether this request stored it.
    """

    receipt_id: ReceiptId | None
    outcome: StoreOutcome


def store_receipt(
    binding: WebhookBinding,
    *,
    body: bytes,
    delivery_id: str | None,
    safe_headers: Mapping[str, str],
    deadline: float | None = None,
    using: str | None = None,
) -> StoredReceipt:
    """Store a verified delivery, once.

    One INSERT by the unique idempotency key, committed when this returns. A fence never stops it.

    Args:
        binding: The webhook it was posted to.
        body: The raw body.
        delivery_id: The provider's delivery identifier, if the request has one; an unusable one is ignored.
        safe_headers: The headers that are kept, from an allow-list.
        deadline: On the monotonic clock, in seconds; 4 s from now when absent.
        using: The database alias; LOCKHOUSE_INGRESS_DATABASE when absent.

    Returns:
        The stored receipt, or the fact that it was stored before.

    Raises:
        Busy: It could not be stored in time; nothing was stored.
        CommitUnknown: Whether it was stored could not be read in time; a repeated delivery settles it.

    Rule: O-02, O-04.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS if deadline is None else deadline
    delivery_id = usable_delivery_id(delivery_id)
    body_hash = hashlib.sha256(body).hexdigest()
    identity = {
        "namespace": binding.namespace,
        "route_key": binding.route_key,
        "subscription_generation": binding.subscription_generation,
    }
    key = (
        idempotency.delivery_key(**identity, delivery_id=delivery_id)  # type: ignore[arg-type]
        if delivery_id is not None
        else idempotency.deterministic_key(
            **identity,  # type: ignore[arg-type]
            body_hash=body_hash,
            rule=binding.rule.identity,
            body=body,
        )
    )
    receipt_id = ReceiptId(new_id())
    row = {
        **identity,
        "receipt_id": receipt_id,
        "pack_install_id": binding.pack_install_id,
        "provider": binding.provider,
        "delivery_id": delivery_id,
        "idempotency_key": key,
        "body_hash": body_hash,
        "body": crypto.seal(body, crypto.row_aad(crypto.SealedColumn.RECEIPT_BODY, receipt_id)),
        "safe_headers": canonical_json(dict(safe_headers)),
    }
    failpoint("receipt.before_store")
    stored = _insert(row, receipt_id, deadline, using or settings.LOCKHOUSE_INGRESS_DATABASE)
    failpoint("receipt.after_store")
    RECEIPTS.labels(stored.outcome.value).inc()
    return stored


def usable_delivery_id(text: str | None) -> str | None:
    """Return a delivery identifier that can be stored and compared, or None.

    Args:
        text: The header's value.

    Returns:
        Printable ASCII of at most 255 characters; anything else identifies nothing.
    """
    stripped = (text or "").strip()
    usable = 0 < len(stripped) <= _MAX_DELIVERY_ID_CHARACTERS and stripped.isascii() and stripped.isprintable()
    return stripped if usable else None


def _insert(row: dict[str, object], receipt_id: ReceiptId, deadline: float, using: str) -> StoredReceipt:
    while True:
        try:
            db.execute_alone(receipts.INSERT_RECEIPT, row, using=using)
        except IntegrityError:
            return StoredReceipt(receipt_id=None, outcome=StoreOutcome.DUPLICATE)
        except errors.CommitUnknown:
            # The connection may only have been stale: a fresh one tells, if there is time to ask it.
            if deadline - time.monotonic() < _SETTLE_SECONDS:
                raise
            found = _read_back(row, using)
            if found is None:
                continue
            is_own = found == receipt_id
            return StoredReceipt(receipt_id=found, outcome=StoreOutcome.STORED if is_own else StoreOutcome.DUPLICATE)
        else:
            return StoredReceipt(receipt_id=receipt_id, outcome=StoreOutcome.STORED)


def _read_back(row: Mapping[str, object], using: str) -> ReceiptId | None:
    found = db.read(using).fetch_one(receipts.FIND_RECEIPT_BY_KEY, {"idempotency_key": row["idempotency_key"]})
    return None if found is None else ReceiptId(found["ReceiptId"])


def materialize_batch(
    pack_install_id: str, limit: int = BATCH_SIZE, *, after: Position = materialize.START
) -> MaterializedBatch:
    """Materialize one page of a pack's receipts, oldest first, in one transaction.

    A receipt that cannot become work is quarantined beside the others. If another writer's row collides with
    the batch, its receipts are taken one by one, so that one of them cannot stop the rest.

    Args:
        pack_install_id: The incarnation; nothing happens unless it is active.
        limit: How many receipts, at most.
        after: Where the page before ended.

    Returns:
        Counts, and where this page ended.

    Raises:
        PackNotFound: There is no such incarnation.
        Busy: The database is busy; nothing was changed.

    Locks: PACK, RECEIPT.
    """
    page = materialize.read_page(pack_install_id, limit, after)
    if page is None:
        return MaterializedBatch()
    try:
        batch = materialize.materialize_page(page)
    except IntegrityError:
        log.warning("materialize.collision", pack_install_id=pack_install_id)
        batch = MaterializedBatch(end=page.end)
        for receipt_id in page.receipt_ids:
            single = page.only(receipt_id)
            try:
                batch += materialize.materialize_page(single)
            except IntegrityError:
                batch += materialize.quarantine_page(single)
    MATERIALIZED.labels("materialized").inc(batch.count)
    MATERIALIZED.labels("quarantined").inc(sum(batch.quarantined.values()))
    for code, count in batch.quarantined.items():
        QUARANTINED.labels(code.value).inc(count)
    for place, count in batch.placed.items():
        PLACED.labels(place.value).inc(count)
    return batch


def materialize_ready(limit: int = BATCH_SIZE, *, backlog: HeldBacklog | None = None) -> int:
    """Materialize what is stored, for every active pack, until nothing more can be.

    One pack's trouble does not stop another's: it is logged, counted and met again in the next round.

    Args:
        limit: How many receipts a transaction takes, at most.
        backlog: What earlier calls have found held by fences; without it everything is looked at.

    Returns:
        How many receipts became work or were quarantined.

    Raises:
        Busy: A pack's page met a busy database, and no other pack had anything: not the same as nothing to do.
        CommitUnknown: As above, and the page may have been stored.

    Locks: PACK, RECEIPT, a transaction each page.
    """
    reader, backlog = db.read(), backlog or HeldBacklog()
    if reader.fetch_one(receipts.FIND_ANY_READY_RECEIPT) is None:
        return 0
    done = 0
    trouble: errors.IntegrationError | None = None
    for row in reader.fetch_all(packs.LIST_ACTIVE_PACKS):
        pack_install_id = row["PackInstallId"]
        position: Position | None = backlog.begin(reader, pack_install_id, row["Namespace"])
        while position is not None:
            try:
                batch = materialize_batch(pack_install_id, limit, after=position)
            except errors.IntegrationError as error:
                MATERIALIZER_ERRORS.labels(error.code).inc()
                log.warning("materialize.failed", pack_install_id=pack_install_id, code=error.code)
                if isinstance(error, (errors.Busy, errors.CommitUnknown)):
                    trouble = error
                break
            backlog.met(pack_install_id, batch)
            done += batch.count + sum(batch.quarantined.values())
            position = batch.end
    if trouble is not None and not done:
        raise trouble
    return done
