"""A web worker that does not wait for ever: a client that sends slowly holds a thread, and there are few."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from typing import Any, Final

from gunicorn.workers.gthread import ThreadWorker

#: A request must have arrived whole by then, headers and body; its answer may take longer.
REQUEST_SECONDS: Final = float(os.environ.get("LOCKHOUSE_REQUEST_SECONDS", "10"))


class Impatience:
    """Ends the reading side of connections that are overdue; one thread for all of them.

    A request that has arrived is not disturbed: its answer goes out on the other side of the connection.
    """

    def __init__(self, seconds: float) -> None:
        """Start with no connection.

        Args:
            seconds: How long a request may take to arrive.
        """
        self._seconds = seconds
        self._deadlines: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def over(self, connection: socket.socket) -> Any:
        """Hold one connection to its time while the block runs."""
        with self._lock:
            self._deadlines[connection] = time.monotonic() + self._seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="impatience", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._deadlines.pop(connection, None)

    def _run(self) -> None:
        while True:
            time.sleep(self._seconds / 10)
            now = time.monotonic()
            with self._lock:
                overdue = [found for found, deadline in self._deadlines.items() if deadline < now]
                for found in overdue:
                    del self._deadlines[found]
            for found in overdue:
                with contextlib.suppress(OSError):
                    found.shutdown(socket.SHUT_RD)


class PatientWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Gunicorn's threads, each request held to `REQUEST_SECONDS`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Give every process its own watch."""
        super().__init__(*args, **kwargs)
        self._impatience = Impatience(REQUEST_SECONDS)

    def handle(self, conn: Any) -> Any:
        """Handle one request of a connection, in a thread of the pool."""
        with self._impatience.over(conn.sock):
            return super().handle(conn)
