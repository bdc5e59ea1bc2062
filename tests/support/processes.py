"""Real processes against the test database: commands, functions behind a common start, kills at named points."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.support.servers import BOUND_TO_CALLER, ROOT

T = TypeVar("T")
#: Against what hangs: a process may take long to start and to end on a machine that runs much besides.
_WAIT_SECONDS: Final = 240.0
#: How often a race is run until its sides have met.
_ROUNDS: Final = 6


def environment(database_url: str, **extra: str) -> dict[str, str]:
    """Return the environment of a process that works on the test database with the tests' settings and keys."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.support.settings",
        "LOCKHOUSE_DATABASE_URL": database_url,
        "LOCKHOUSE_TESTING": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        **extra,
    }


@dataclass
class Command:
    """A started process.

    Attributes:
        process: The process itself.
        fired_file: Holds the failpoint's name once it was reached.
    """

    process: subprocess.Popen[str]
    fired_file: Path | None = None
    output: str = field(default="", init=False)
    #: The lines that were heard so far, of a process that is listened to.
    heard: list[str] = field(default_factory=list, init=False)
    _listener: threading.Thread | None = field(default=None, init=False)

    def listen(self) -> Command:
        """Read what it says from now on: a process that nobody reads stands still once its pipe is full."""

        def read() -> None:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                self.heard.append(line)

        self._listener = threading.Thread(target=read, daemon=True)
        self._listener.start()
        return self

    def wait(self, seconds: float = _WAIT_SECONDS) -> int:
        """Wait for its end and return its exit code; negative for the signal that killed it."""
        try:
            self._finish(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self._finish(None)
            message = f"{self.process.args} did not end within {seconds} s:\n{self.output[-4000:]}"
            raise AssertionError(message) from None
        return self.process.returncode

    def _finish(self, seconds: float | None) -> None:
        if self._listener is None:
            self.output, _ = self.process.communicate(timeout=seconds)
            return
        self.process.wait(timeout=seconds)
        self._listener.join(_WAIT_SECONDS)
        self.output = "".join(self.heard)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def fired(self) -> str:
        """Return the failpoint that was reached, or an empty string."""
        return self.fired_file.read_text() if self.fired_file is not None and self.fired_file.exists() else ""


def start_python(
    arguments: Sequence[str], database_url: str, *, failpoint: str = "", folder: Path | None = None, **extra: str
) -> Command:
    """Start a Python process; with a failpoint it kills itself there and says so in a file under `folder`."""
    fired_file = None
    if failpoint:
        assert folder is not None, "a failpoint needs a folder to report in"
        fired_file = folder / f"fired-{failpoint}"
        fired_file.unlink(missing_ok=True)
        extra = {**extra, "LOCKHOUSE_FAILPOINT": failpoint, "LOCKHOUSE_FAILPOINT_FIRED": str(fired_file)}
    process = subprocess.Popen(
        [*BOUND_TO_CALLER, sys.executable, *arguments],
        cwd=ROOT,
        env=environment(database_url, **extra),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Command(process=process, fired_file=fired_file)


def manage(arguments: Sequence[str], database_url: str, **options: Any) -> Command:
    """Start a management command against the test database, and listen to it."""
    return start_python(["manage.py", *arguments], database_url, **options).listen()


def start_function(target: str, kwargs: dict[str, Any], database_url: str, **options: Any) -> Command:
    """Start a process that runs a function at once; as `race` names it, with the options of `start_python`."""
    command = start_python(["-m", "tests.support.processes", target, json.dumps(kwargs)], database_url, **options)
    assert command.process.stdin is not None
    command.process.stdin.write("go\n")
    command.process.stdin.flush()
    return command


def race(target: str, arguments: Sequence[dict[str, Any]], database_url: str, **extra: str) -> list[Any]:
    """Run a function in one process for each set of arguments, all let go at once.

    Args:
        target: `package.module:function`; it takes keyword arguments and returns a JSON value.
        arguments: One set of keyword arguments a process.
        database_url: The database.
        **extra: Environment variables.

    Returns:
        What each function returned, in the order of `arguments`.

    The processes connect first and report that they are ready; then each is sent one line. No sleep decides.
    """
    started = [
        start_python(["-m", "tests.support.processes", target, json.dumps(kwargs)], database_url, **extra)
        for kwargs in arguments
    ]
    try:
        for command in started:
            assert command.process.stdout is not None
            line = command.process.stdout.readline()
            assert line == "ready\n", line + (command.process.stdout.read() or "")
        for command in started:
            assert command.process.stdin is not None
            command.process.stdin.write("go\n")
            command.process.stdin.flush()
        # All of them are read at once: one that nobody reads would stand still as soon as its pipe is full.
        with ThreadPoolExecutor(len(started)) as readers:
            codes = list(readers.map(Command.wait, started))
        for command, code in zip(started, codes, strict=True):
            assert code == 0, command.output
        return [json.loads(command.output.splitlines()[-1]) for command in started]
    finally:
        for command in started:
            if command.process.poll() is None:
                command.process.kill()
                command.process.communicate()


def until_met(run: Callable[[], T], is_met: Callable[[T], bool]) -> T:
    """Run a race until its sides have met, which the machine's scheduler may prevent; return the round that was one.

    What must hold of every round is asserted by `run`.
    """
    for _ in range(_ROUNDS):
        found = run()
        if is_met(found):
            return found
    message = f"the sides did not meet in {_ROUNDS} rounds: {found}"
    raise AssertionError(message)


def free_port() -> int:
    """Return a loopback port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def web_server(database_url: str, **options: Any) -> Iterator[tuple[Command, str]]:
    """Run gunicorn on the test database; yield the process and its base address once it answers."""
    port = free_port()
    command = start_python(
        ["-m", "gunicorn", f"--bind=127.0.0.1:{port}", "--workers=1", "--threads=4", "-kgthread", "console.wsgi"],
        database_url,
        **options,
    ).listen()
    try:
        await_port(command, port)
        yield command, f"http://127.0.0.1:{port}"
    finally:
        if command.process.poll() is None:
            command.process.terminate()
        command.wait()


def await_port(command: Command, port: int) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if command.process.poll() is not None or time.monotonic() > deadline:
            command.process.kill()
            command.wait()
            message = f"the web server did not start:\n{command.output[-4000:]}"
            raise AssertionError(message)
        time.sleep(0.02)


def _main(target: str, kwargs: str) -> None:
    import django

    django.setup()
    from django.db import connection

    module, _, function = target.partition(":")
    call = getattr(importlib.import_module(module), function)
    connection.ensure_connection()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(call(**json.loads(kwargs))), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
