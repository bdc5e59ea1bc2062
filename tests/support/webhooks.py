"""Signed webhooks for tests, and what they became."""

from __future__ import annotations

import http.client
import json
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connections

from integration.catalog.documents import PackDocument, load_pack, parse_pack
from integration.catalog.reads import forget_all
from integration.catalog.service import activate_pack, install_pack
from integration.ingress.verify import SignedRequest, sign
from integration.values import SYSTEM_ACTOR

PACKS = Path(__file__).resolve().parents[2] / "integration" / "packs"
ORG = "00000000-0000-4000-8000-000000000001"
DEMO_URL = "/hooks/demo/deals"
OUTREACH_URL = "/hooks/sales/prospects"


@cache
def pack(name: str = "demo", **binding: str) -> PackDocument:
    """Return one of the packs that ship."""
    return load_pack(PACKS / f"{name}.yaml", **binding)


def variant(name: str = "demo", *replacements: tuple[str, str]) -> PackDocument:
    """Return a shipped pack with texts replaced."""
    text = (PACKS / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    return parse_pack(text.encode(), source=f"{name}.yaml")


def activate(document: PackDocument | None = None) -> str:
    """Install and activate a pack; return the incarnation."""
    forget_all()
    installed = install_pack(document or pack(), actor=SYSTEM_ACTOR)
    activate_pack(installed.pack_install_id, actor=SYSTEM_ACTOR)
    return installed.pack_install_id


def send(base: str, body: bytes, delivery_id: str | None, *, timeout: float = 200) -> int:
    """Post one of the demo provider's bodies, signed, over HTTP; return the status, or 0 when there was no answer."""
    address = urlsplit(base)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout)
    try:
        connection.request("POST", DEMO_URL, body, headers(body, delivery_id=delivery_id))
        return connection.getresponse().status
    except (http.client.HTTPException, OSError):
        return 0
    finally:
        connection.close()


def deal(number: int = 1, *, event: str = "deal.created", stage: str = "won", **extra: Any) -> bytes:
    """Return the demo provider's body."""
    body = {"event": event, "sent_at": "2026-11-29T10:00:00.250-08:00", "deal": {"id": number, "stage": stage}, **extra}
    return json.dumps(body).encode()


def prospect_updated(number: int = 4711) -> bytes:
    """Return a body of the shape that Outreach publishes for prospect.updated."""
    return json.dumps(
        {
            "data": {
                "type": "prospect",
                "id": number,
                "attributes": {"title": "VP Sales", "updatedAt": "2025-11-06T18:11:12.000Z"},
                "relationships": {"owner": {"type": "owner", "id": 2}},
            },
            "meta": {
                "deliveredAt": "2025-11-06T10:11:12.795-08:00",
                "eventName": "prospect.updated",
                "jobId": "0b0f5c7e-6a37-4a6c-9b3e-111111111111",
            },
        }
    ).encode()


@cache
def _rule(name: str) -> Any:
    return pack(name).webhooks[0].verifier


def signature(body: bytes, name: str = "demo", secret: str | None = None) -> str:
    """Return the signature that the provider would send."""
    secret = secret or settings.LOCKHOUSE_SECRETS.get(name.upper(), "a-secret-of-nobody")
    request = SignedRequest(body=body, method="POST", uri=lambda: "", header=lambda _name: None)
    return sign(_rule(name), secret.encode(), request)


def headers(body: bytes, name: str = "demo", *, delivery_id: str | None = None) -> dict[str, str]:
    """Return the headers of a signed request, by their HTTP names."""
    rule = pack(name).webhooks[0]
    found = {rule.verifier.header: signature(body, name), "Content-Type": "application/json"}
    if delivery_id is not None and rule.delivery_id_header is not None:
        found[rule.delivery_id_header] = delivery_id
    return found


def post(client: Any, body: bytes, name: str = "demo", *, delivery_id: str | None = None, **changed: str) -> Any:
    """Post a signed webhook with Django's test client; a header of None is left out."""
    sent = {**headers(body, name, delivery_id=delivery_id), **changed}
    content_type = sent.pop("Content-Type")
    url = DEMO_URL if name == "demo" else OUTREACH_URL
    return client.post(url, data=body, content_type=content_type, headers=sent)


def rows(table: str, order: str = "1") -> list[dict[str, Any]]:
    """Return every row of a system table."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SELECT * FROM `_System_Connector{table}` ORDER BY {order}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
