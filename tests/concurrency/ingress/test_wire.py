"""What only a real server shows: chunks, lengths that lie, two signatures, and a database that stands still."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import urlsplit

import pytest

from tests.support import webhooks
from tests.support.processes import web_server

pytestmark = pytest.mark.django_db(transaction=True)


def exchange(base: str, head: list[str], body: bytes) -> int:
    """Send raw bytes; return the status, or 0 when the server closed without one."""
    address = urlsplit(base)
    lines = [f"POST {webhooks.DEMO_URL} HTTP/1.1", f"Host: {address.netloc}", "Connection: close", *head, "", ""]
    with socket.create_connection((address.hostname, address.port), timeout=120) as wire:
        # A server that has heard enough may close before everything is sent; what it answered can still be read.
        with contextlib.suppress(OSError):
            wire.sendall("\r\n".join(lines).encode() + body)
            wire.shutdown(socket.SHUT_WR)
        answer = wire.makefile("rb").readline().split()
    return int(answer[1]) if len(answer) > 1 else 0


def chunked(body: bytes, size: int) -> bytes:
    parts = [body[place : place + size] for place in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.evidence("O-01")
def test_wire__the_raw_bytes_count__however_they_come(database_url: str):
    webhooks.activate()
    body = webhooks.deal()
    signed = f"X-Demo-Signature: {webhooks.signature(body)}"
    large = webhooks.deal(pad="x" * 70_000)
    with web_server(database_url) as (_, base):
        assert exchange(base, [signed, "Transfer-Encoding: chunked"], chunked(body, 7)) == 200
        assert len(webhooks.rows("IngressReceipt")) == 1
        assert exchange(base, [signed, f"Content-Length: {len(body)}"], body) == 200
        assert exchange(base, [signed, "Transfer-Encoding: chunked"], chunked(body[:-1], 7)) == 401
        assert exchange(base, [signed, "Transfer-Encoding: chunked"], chunked(large, 4096)) == 413
        assert exchange(base, [signed, f"Content-Length: {len(large)}"], b"") == 413
        assert exchange(base, [signed, f"Content-Length: {len(body)}"], body[:-5]) == 400
        for junk in (b"zz\r\nabc\r\n0\r\n\r\n", b"5;\x00\r\nabcde\r\n0\r\n\r\n", b"3\r\nabcdef\r\n0\r\n\r\n"):
            assert exchange(base, [signed, "Transfer-Encoding: chunked"], junk) == 400
        assert exchange(base, [signed, signed, f"Content-Length: {len(body)}"], body) == 401
        assert exchange(base, [f"Content-Length: {len(body)}"], body) == 401
        underscored = signed.replace("X-Demo-", "X_Demo_")
        assert exchange(base, [underscored, f"Content-Length: {len(body)}"], body) in {400, 401}
    assert len(webhooks.rows("IngressReceipt")) == 1
