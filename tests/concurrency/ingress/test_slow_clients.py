"""Clients that send slowly do not stop the others."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from tests.support.processes import free_port, start_python

pytestmark = pytest.mark.django_db(transaction=True)
THREADS = 2
SLOW = {
    "headers": b"POST /hooks/demo/deals HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "body": b"POST /hooks/demo/deals HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200\r\n\r\n{",
}


@contextlib.contextmanager
def server(database_url: str, worker: str, request_seconds: float) -> Iterator[int]:
    port = free_port()
    arguments = ["-m", "gunicorn", f"--bind=127.0.0.1:{port}", "--workers=1", f"--threads={THREADS}", f"-k{worker}"]
    command = start_python([*arguments, "console.wsgi"], database_url, LOCKHOUSE_REQUEST_SECONDS=str(request_seconds))
    try:
        deadline = time.monotonic() + 240
        while healthy(port, 30) is None:
            assert command.process.poll() is None
            assert time.monotonic() < deadline
        yield port
    finally:
        command.process.kill()
        command.process.communicate()


def healthy(port: int, seconds: float) -> bytes | None:
    """Ask /healthz once; None when nothing answers in time."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return client.recv(64) or None
    except OSError:
        return None


@contextlib.contextmanager
def slow_clients(port: int, beginning: bytes) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120)) for _ in range(THREADS * 2)
        ]
        for client in clients:
            client.sendall(beginning)
        yield clients


def is_let_go(client: socket.socket) -> bool:
    """Wait until the server has answered or closed a connection; a reset is a close too."""
    try:
        return client.recv(64) is not None
    except ConnectionError:
        return True


@pytest.mark.parametrize("what", SLOW)
def test_slow_clients__are_let_go_and_the_next_request_is_answered(database_url: str, what: str):
    with server(database_url, "console.patience.PatientWorker", 3) as port, slow_clients(port, SLOW[what]) as clients:
        assert (healthy(port, 120) or b"").startswith(b"HTTP/1.1 200")
        # Each was answered or closed by the server, though it never sent the rest.
        assert all(is_let_go(client) for client in clients)


@pytest.mark.parametrize("what", SLOW)
def test_slow_clients__hold_every_thread_where_nothing_ends_them(database_url: str, what: str):
    with server(database_url, "gthread", 1) as port, slow_clients(port, SLOW[what]):
        assert healthy(port, 4) is None
