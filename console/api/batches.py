"""`/api/v1/batches`: bulk replays, made and steered as on the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from console.api.batch_shapes import BatchIn, BatchItemsOut, BatchOut, BatchPageOut, BatchStep
from console.api.once import HEADER
from console.api.queries import refuse_unknown
from console.api.shapes import ItemsQuery, PageQuery
from console.middleware import actor_of
from console.permissions import VIEW
from integration.authority.listing import DeadFilters
from integration.authority.values import Ref
from integration.batches import reads, service
from integration.batches.rights import demand_bulk
from integration.batches.selection import select
from integration.batches.values import Batch
from integration.values import Actor, plain

router = Router()


@router.get("batches", response=BatchPageOut, url_name="batches")
def list_batches(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """List bulk replays, newest first."""
    refuse_unknown(request, PageQuery)
    page = reads.list_batches(query.cursor, query.limit, within=_actor(request).reach(VIEW))
    return {"items": plain(page.batches), "older": page.older}


@router.post("batches", response={201: BatchOut}, url_name="batches")
def create(request: HttpRequest, body: BatchIn) -> Any:
    """Store a bulk replay of a filter or of ids; the workers begin with it at once."""
    actor = _actor(request)
    chosen = None if body.filter is None else DeadFilters(**body.filter.model_dump())
    refs = None if body.ids is None else [Ref.parse(text) for text in body.ids]
    batch = service.create(
        select(chosen, refs, within=demand_bulk(actor)),
        actor=actor,
        reason=body.reason,
        canary=body.canary,
        halt_after=body.halt_after,
        per_minute=body.per_minute,
        expected_digest=body.expected_digest,
        # Beyond the day for which an answer is kept, the batch still knows the key.
        idempotency_key=request.headers[HEADER],
    )
    return Status(201, plain(batch))


@router.get("batches/{str:batch_id}", response=BatchOut, url_name="batch")
def get_batch(request: HttpRequest, batch_id: str) -> Any:
    """Return one bulk replay and how far it is."""
    return plain(_find(request, batch_id))


@router.get("batches/{str:batch_id}/items", response=BatchItemsOut, url_name="batch-items")
def list_items(request: HttpRequest, batch_id: str, query: Query[ItemsQuery]) -> Any:
    """List the rows of a bulk replay in their order, each with what became of it."""
    refuse_unknown(request, ItemsQuery)
    items = reads.list_items(_find(request, batch_id).id, query.after, query.limit + 1)
    return {
        "items": plain(items[: query.limit]),
        "after": items[query.limit - 1].position if len(items) > query.limit else None,
    }


@router.post("batches/{str:batch_id}/go", response=BatchOut, url_name="batch-go")
def go(request: HttpRequest, batch_id: str, body: BatchStep) -> Any:
    """Let a bulk replay go on that waits after its canary or was halted."""
    return plain(service.go(batch_id, actor=_actor(request), reason=body.reason))


@router.post("batches/{str:batch_id}/cancel", response=BatchOut, url_name="batch-cancel")
def cancel(request: HttpRequest, batch_id: str, body: BatchStep) -> Any:
    """Stop a bulk replay for good."""
    return plain(service.cancel(batch_id, actor=_actor(request), reason=body.reason))


def _find(request: HttpRequest, batch_id: str) -> Batch:
    return reads.get_batch(batch_id, within=_actor(request).reach(VIEW))


def _actor(request: HttpRequest) -> Actor:
    return replace(actor_of(request), via="api")
