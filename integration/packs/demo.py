"""The demo's provider: it posts signed webhooks over HTTP, as the demo pack expects them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import httpx

from integration.catalog.reads import WebhookBinding, find_webhook
from integration.errors import IntegrationError, NotFound
from integration.ingress.secrets import resolve_secrets
from integration.ingress.verify import SignedRequest, sign

NAMESPACE: Final = "demo"
ROUTE_KEY: Final = "deals"
#: Not among the stages that are allowed at first.
UNKNOWN_STAGE: Final = "legal_review"
_STAGES: Final = ("prospecting", "qualified", "proposal", "won", "lost")
_NAMES: Final = ("Alder", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Juniper", "Larch", "Maple", "Oak", "Pine", "Rowan")
_DEALS: Final = 500
_CONTACTS: Final = 12
_CITIES: Final = ("Aachen", "Bremen", "Celle", "Dresden", "Essen", "Fulda")
_TIMEOUT_SECONDS: Final = 6.0
_PATIENCE_SECONDS: Final = 30.0


class DemoStopped(IntegrationError):
    """The webhooks could not be delivered; is the web server running?"""

    code = "demo_stopped"


class Kind(StrEnum):
    """What a delivery is meant to show."""

    NEW = "new"
    DUPLICATE = "duplicate"
    FORGED = "forged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What is sent.

    Attributes:
        count: How many deliveries; 0 for no end.
        fail_share: Of the new ones, the share whose stage is not allowed at first.
        flaky_share: Of the new ones, the share that fails its first attempt.
        duplicate_share: The share that repeats an earlier delivery.
        forged_share: The share whose signature is wrong.
        contact_share: Of the new ones, the share that changes one of a few contacts, whose changes coalesce.
        seed: The same seed gives the same deliveries; a repeated run then repeats them all.
    """

    count: int = 200
    fail_share: float = 0.15
    flaky_share: float = 0.05
    duplicate_share: float = 0.0
    forged_share: float = 0.0
    contact_share: float = 0.0
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One webhook to post."""

    kind: Kind
    delivery_id: str
    body: bytes


@dataclass(slots=True, kw_only=True)
class Totals:
    """How the deliveries were answered."""

    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    unexpected: int = 0

    @property
    def sent(self) -> int:
        """All of them."""
        return self.stored + self.duplicates + self.refused + self.unexpected


def make_deliveries(mix: Mix) -> Iterator[Delivery]:
    """Yield deliveries: deals that are created once and then change, and fields of contacts.

    Args:
        mix: What is sent.

    Yields:
        `mix.count` deliveries, or deliveries without end.
    """
    chance = random.Random(mix.seed)  # noqa: S311 - a demo's dice
    run = f"{chance.getrandbits(48):012x}"
    known: set[int] = set()
    earlier: list[Delivery] = []
    number = 0
    while mix.count == 0 or number < mix.count:
        number += 1
        if earlier and chance.random() < mix.duplicate_share:
            repeated = chance.choice(earlier)
            yield Delivery(kind=Kind.DUPLICATE, delivery_id=repeated.delivery_id, body=repeated.body)
            continue
        if mix.contact_share and chance.random() < mix.contact_share:
            delivery = Delivery(
                kind=Kind.NEW,
                delivery_id=f"demo-{run}-{number}",
                body=_body("contact.changed", contact=_change(chance)),
            )
            earlier = [*earlier[-99:], delivery]
            yield delivery
            continue
        forged = chance.random() < mix.forged_share
        deal_id = chance.randint(1, _DEALS)
        deal: dict[str, object] = {
            "id": deal_id,
            "name": f"{chance.choice(_NAMES)} {deal_id}",
            "stage": UNKNOWN_STAGE if chance.random() < mix.fail_share else chance.choice(_STAGES),
            "amount": chance.randint(1, 400) * 250,
        }
        if chance.random() < mix.flaky_share:
            deal["fail_first"] = 1
        delivery = Delivery(
            kind=Kind.FORGED if forged else Kind.NEW,
            delivery_id=f"demo-{run}-{number}",
            body=_body("deal.updated" if deal_id in known else "deal.created", deal=deal),
        )
        if not forged:
            known.add(deal_id)
            earlier = [*earlier[-99:], delivery]
        yield delivery


def _change(chance: random.Random) -> dict[str, object]:
    """Return a contact's id and one field of it that changed; now and then an email that is none."""
    contact_id = chance.randint(1, _CONTACTS)
    name = chance.choice(_NAMES)
    address = f"{name.lower()}@example.test" if chance.random() > 0.05 else name
    field, value = chance.choice((("name", name), ("city", chance.choice(_CITIES)), ("email", address)))
    return {"id": contact_id, field: value}


def _body(event: str, **subject: dict[str, object]) -> bytes:
    body = {"event": event, "sent_at": datetime.now(UTC).isoformat(timespec="milliseconds"), **subject}
    return json.dumps(body, separators=(",", ":")).encode()


def find_demo_webhook() -> tuple[WebhookBinding, bytes]:
    """Return the demo's webhook and the secret that signs for it.

    Raises:
        NotFound: The demo pack is not active.
        SecretUnavailable: Its secret is not set.
    """
    binding = find_webhook(NAMESPACE, ROUTE_KEY)
    if binding is None:
        message = (
            "The demo pack is not active; install it: manage.py install_pack integration/packs/demo.yaml --activate"
        )
        raise NotFound(message)
    return binding, resolve_secrets(binding.secret_references)[0]


def post_all(
    mix: Mix, *, base_url: str, rate: float, stop: Callable[[], bool], report: Callable[[Totals], None]
) -> Totals:
    """Post deliveries at a steady rate.

    Args:
        mix: What is sent.
        base_url: Where the web server listens.
        rate: Deliveries a second; 0 for as fast as they are answered.
        stop: Whether to send no more.
        report: Called after each answer.

    Returns:
        How they were answered.

    Raises:
        DemoStopped: The server did not answer for half a minute.
        NotFound: The demo pack is not active.
    """
    binding, secret = find_demo_webhook()
    url = f"{base_url.rstrip('/')}/hooks/{NAMESPACE}/{ROUTE_KEY}"
    totals = Totals()
    started = time.monotonic()
    with httpx.Client(timeout=_TIMEOUT_SECONDS, trust_env=False) as client:
        for number, delivery in enumerate(make_deliveries(mix)):
            if rate > 0:
                time.sleep(max(0.0, started + number / rate - time.monotonic()))
            if stop():
                break
            headers = {
                "Content-Type": "application/json",
                binding.rule.verifier.header: _signature(binding, secret, url, delivery),
                binding.rule.delivery_id_header or "X-Demo-Delivery": delivery.delivery_id,
            }
            status = _post(client, url, delivery.body, headers)
            _count(totals, delivery.kind, status)
            report(totals)
    return totals


def _signature(binding: WebhookBinding, secret: bytes, url: str, delivery: Delivery) -> str:
    key = secret if delivery.kind is not Kind.FORGED else b"not-the-secret-at-all"
    request = SignedRequest(body=delivery.body, method="POST", uri=lambda: url, header=lambda _: None)
    return sign(binding.rule.verifier, key, request)


def _post(client: httpx.Client, url: str, body: bytes, headers: dict[str, str]) -> int:
    """Post until it is answered; the delivery id makes a repetition harmless."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            status = client.post(url, content=body, headers=headers).status_code
        except httpx.TransportError as error:
            if time.monotonic() > deadline:
                raise DemoStopped from error
        else:
            if status != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                return status
        time.sleep(0.2)


def _count(totals: Totals, kind: Kind, status: int) -> None:
    match kind:
        case Kind.NEW if status == httpx.codes.OK:
            totals.stored += 1
        case Kind.DUPLICATE if status == httpx.codes.OK:
            totals.duplicates += 1
        case Kind.FORGED if status == httpx.codes.UNAUTHORIZED:
            totals.refused += 1
        case _:
            totals.unexpected += 1
