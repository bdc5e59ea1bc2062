"""Signed webhooks, and the clients that post them."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.harness import SECRET

PATH = "/hooks/demo/deals"
BODY_BYTES = 1024
_BODIES = 2000


def body(number: int) -> bytes:
    """Return one webhook of 1 KB."""
    value = {
        "event": "deal.updated",
        "sent_at": "2026-01-01T00:00:00Z",
        "deal": {"id": number, "stage": "won", "amount": 1000 + number, "note": ""},
    }
    missing = BODY_BYTES - len(json.dumps(value))
    value["deal"]["note"] = (hashlib.sha256(str(number).encode()).hexdigest() * 16)[:missing]  # type: ignore[index]
    return json.dumps(value).encode()


def sign(content: bytes) -> str:
    """Return the signature header's value."""
    return hmac.new(SECRET.encode(), content, hashlib.sha256).hexdigest()


def write_bodies(path: Path) -> None:
    """Write the file that the wrk script reads."""
    with path.open("w") as file:
        for number in range(_BODIES):
            content = body(number)
            file.write(f"{sign(content)}\t{content.decode()}\n")


def wrk(base: str, bodies: Path, seconds: float, *, connections: int = 32) -> dict[str, float]:
    """Post for some seconds.

    Returns:
        `requests`, `seconds`, `p50`, `p99` and `max` in ms, `refused` (401 and worse), `broken` connections.
    """
    done = subprocess.run(
        [
            *("wrk", f"-c{connections}", "-t1", f"-d{seconds:.0f}s", "--timeout", "10s"),
            *("-s", str(Path(__file__).with_name("webhooks.lua")), base + PATH, "--", str(bodies), uuid.uuid4().hex),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    found: dict[str, float] = json.loads(line.removeprefix("RESULT "))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one delivery was answered.

    Attributes:
        delivery_id: Its id.
        status: The status; 0 when the connection broke.
        seconds: From the first byte sent to the answer.
        at: When it was answered, on the monotonic clock.
    """

    delivery_id: str
    status: int
    seconds: float
    at: float


def await_answers(base: str, *, wanted: int = 64, seconds: float = 90.0) -> None:
    """Post until the server's processes are warm.

    Raises:
        RuntimeError: It stored nothing in time.
    """
    clients = SteadyClients(base, 8)
    clients.start()
    deadline = time.monotonic() + seconds
    while clients.stored() < wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    answers = clients.stop()
    if sum(answer.status == 200 for answer in answers) < wanted:
        message = f"the web server stores nothing: {[answer.status for answer in answers][:5]}"
        raise RuntimeError(message)


class SteadyClients:
    """Clients that post one delivery after the other and remember every answer."""

    def __init__(self, base: str, count: int) -> None:
        """Prepare `count` clients; `start` lets them go."""
        self._base = urlsplit(base)
        self._stop = threading.Event()
        self._answers: list[list[Answer]] = [[] for _ in range(count)]
        self._threads = [threading.Thread(target=self._post, args=(index,), daemon=True) for index in range(count)]

    def start(self) -> None:
        """Let them go."""
        for thread in self._threads:
            thread.start()

    def stored(self) -> int:
        """Return how many deliveries were acknowledged so far."""
        return sum(answer.status == 200 for answers in self._answers for answer in list(answers))

    def stop(self) -> list[Answer]:
        """Stop after the running posts and return every answer."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)
        return [answer for answers in self._answers for answer in answers]

    def _post(self, index: int) -> None:
        content = body(index)
        signature = sign(content)
        connection: http.client.HTTPConnection | None = None
        while not self._stop.is_set():
            delivery_id = uuid.uuid4().hex
            headers = {"X-Demo-Signature": signature, "X-Demo-Delivery": delivery_id}
            started = time.monotonic()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(str(self._base.hostname), self._base.port or 80, timeout=60)
                connection.request("POST", PATH, content, {**headers, "Content-Type": "application/json"})
                response = connection.getresponse()
                response.read()
                status = response.status
                if response.will_close:
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException):
                status, connection = 0, None
                time.sleep(0.05)
            ended = time.monotonic()
            self._answers[index].append(
                Answer(delivery_id=delivery_id, status=status, seconds=ended - started, at=ended)
            )
