"""The pack that the machine works with: every kind of route that the kernel tells apart, over a few shared lanes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from integration.catalog.documents import PackDocument, parse_pack

_HEAD = """
lockhouse: 1
pack: demo
version: "1.0.{version}"
provider: demo-deals
webhooks:
  - key: deals
    verifier:
      algorithm: hmac-sha256
      header: X-Demo-Signature
      encoding: hex
      secrets: [webhook]
    response_status: 200
    max_body_bytes: 65536
    delivery_id_header: X-Demo-Delivery
    event_kind: event
    items: {{value: '@', id: item}}
    occurred_at: {{value: at, format: rfc3339}}
    identity: {{event_name: "[0].event", resource_type: "'deal'", resource_id: "[0].deal", delivered_at: "[0].at"}}
binding:
  namespace: demo
  org: 00000000-0000-4000-8000-000000000001
  secrets:
    webhook: demo
routes:
"""
_ROUTE = """
  - event: {name}
    version: 1
    execution: {execution}
    work_type: connector_event
    target_lane: "join(':', ['deal', to_string(deal)])"
    flow: {{name: demo.apply_deal, version: 1}}
    retry: {{max_attempts: {attempts}, base_seconds: 0.5, factor: 2, cap_seconds: 5, jitter: 0.2}}
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """One route, as the model knows it.

    Attributes:
        name: The event kind.
        attempts: How often an item may be tried.
        is_projection: Its inputs coalesce.
        lane: What its source lane is called before the deal's number; None when it has none.
        waits_for: The kind that must have ended well in the target lane.
        stops: A dead item stops its source lane until it is replayed.
    """

    name: str
    attempts: int = 2
    is_projection: bool = False
    lane: str | None = "deal"
    waits_for: str | None = None
    stops: bool = False

    def route(self) -> str:
        """Return the route's text."""
        execution = "source_projection" if self.is_projection else "per_event"
        text = _ROUTE.format(name=self.name, execution=execution, attempts=self.attempts)
        if self.lane is not None:
            text += f"    source_lane: \"join(':', ['{self.lane}', to_string(deal)])\"\n"
        if self.waits_for is not None:
            text += f"    waits_for: {self.waits_for}\n"
        if self.stops:
            text += "    on_dead: block\n"
        return text


#: Two projections and four per-event kinds. Three share a source lane, all share the target lane of a deal.
KINDS = {
    kind.name: kind
    for kind in (
        Kind("deal.created", is_projection=True, attempts=3),
        Kind("deal.updated"),
        Kind("deal.closed", stops=True),
        Kind("note.added", lane=None),
        Kind("quote.sent", is_projection=True, lane="quote", waits_for="deal.created"),
        Kind("task.added", lane="task", waits_for="deal.created"),
    )
}


def document(version: int) -> PackDocument:
    """Return the pack under a version of its own, so that each is a new incarnation."""
    text = _HEAD.format(version=version) + "".join(kind.route() for kind in KINDS.values())
    return parse_pack(text.encode(), source="model.yaml")


@dataclass(frozen=True, slots=True)
class Input:
    """One event of a delivery.

    Attributes:
        kind: Its event kind.
        deal: The number of its deal, which names its lanes.
        item: What identifies it among the deliveries.
        minute: When it happened; says nothing about its order.
    """

    kind: str
    deal: int
    item: str
    minute: int

    @property
    def lane(self) -> str | None:
        """The source lane."""
        prefix = KINDS[self.kind].lane
        return None if prefix is None else f"{prefix}:{self.deal}"

    @property
    def target(self) -> str:
        """The target lane."""
        return f"deal:{self.deal}"


def body(inputs: tuple[Input, ...]) -> bytes:
    """Return the body of one delivery."""
    return json.dumps(
        [
            {"event": item.kind, "item": item.item, "deal": item.deal, "at": f"2026-11-29T10:{item.minute:02}:00Z"}
            for item in inputs
        ]
    ).encode()
