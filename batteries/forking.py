"""Children of a battery: forked once Django is loaded, so that a process costs milliseconds; each has its own
connections, dies with its parent, and leaves its result in a file, so that a kill is seen as one."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from django.db import connections

_PDEATHSIG: Final = 1
_FAILED: Final = 70


class BatteryBroken(RuntimeError):
    """The battery itself did not work; this says nothing about the program."""


class StillRunning(BatteryBroken):
    """A child did not end in its time, and was killed."""


@dataclass
class Child:
    """A forked process."""

    pid: int
    result: Path
    log: Path
    status: int | None = field(default=None, init=False)

    def poll(self) -> int | None:
        """Return its exit code if it has ended, negative for the signal that killed it."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def wait(self, seconds: float = 240.0) -> int:
        """Wait for its end; return its exit code, negative for the signal that killed it."""
        deadline = time.monotonic() + seconds
        pause = 0.001
        while self.poll() is None:
            if time.monotonic() > deadline:
                self.kill()
                message = f"a child did not end within {seconds} s:\n{self.tail()}"
                raise StillRunning(message)
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        if self.status == _FAILED:
            message = f"a child failed:\n{self.tail()}"
            raise BatteryBroken(message)
        return self.status

    def await_stopped(self, seconds: float = 240.0) -> None:
        """Wait until it has stopped itself."""
        deadline = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                message = f"a child ended instead of stopping:\n{self.tail()}"
                raise BatteryBroken(message)
            if time.monotonic() > deadline:
                self.kill()
                message = f"a child did not stop:\n{self.tail()}"
                raise BatteryBroken(message)
            time.sleep(0.002)

    def resume(self) -> None:
        """Let a stopped child go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it and wait."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def value(self) -> Any:
        """Return what its function returned."""
        if self.wait() != 0:
            message = f"a child was killed ({self.status}):\n{self.tail()}"
            raise BatteryBroken(message)
        return json.loads(self.result.read_text(encoding="utf-8"))

    def tail(self) -> str:
        """Return the end of what it printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:]


class Gate:
    """Where children wait for each other: each says that it is ready, and all are let go at once."""

    def __init__(self) -> None:
        self._ready = os.pipe()
        self._go = os.pipe()

    def wait(self) -> None:
        """In a child: say that it is ready, and wait to be let go."""
        os.write(self._ready[1], b".")
        os.read(self._go[0], 1)

    def entered(self) -> None:
        """In a child, first thing: give up the end that would keep the gate shut."""
        os.close(self._go[1])

    def open(self, count: int, children: Sequence[Child], seconds: float = 240.0) -> None:
        """In the parent: wait for so many children, then let them go."""
        os.close(self._ready[1])
        seen = 0
        while seen < count:
            got = os.read(self._ready[0], count)
            if not got:
                for child in children:
                    child.wait(seconds)
                message = "children ended before the start"
                raise BatteryBroken(message)
            seen += len(got)
        for end in (self._go[1], self._go[0], self._ready[0]):
            os.close(end)


_serial = 0


def fork(folder: Path, function: Callable[..., Any], *args: Any, gate: Gate | None = None, **kwargs: Any) -> Child:
    """Run a function in a child.

    Args:
        folder: Where its result and its output go.
        function: Returns something that JSON can hold.
        *args: Its arguments.
        gate: Where it will wait for others.
        **kwargs: Its keyword arguments.
    """
    global _serial
    _serial += 1
    # A connection is one process's; the parent connects anew when it next reads.
    connections.close_all()
    result, log = folder / f"child-{_serial}.json", folder / f"child-{_serial}.log"
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return Child(pid=pid, result=result, log=log)
    code = _FAILED
    try:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(_FAILED)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if gate is not None:
            gate.entered()
        value = function(*args, **kwargs)
        result.write_text(json.dumps(value), encoding="utf-8")
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        # No clean-up of the parent's: not its servers, not its folders.
        os._exit(code)


@contextlib.contextmanager
def killed_at_exit(children: list[Child]) -> Iterator[None]:
    """Leave no child behind, whatever happens."""
    try:
        yield
    finally:
        for child in children:
            child.kill()


def race(folder: Path, function: Callable[..., Any], arguments: Sequence[dict[str, Any]]) -> list[Any]:
    """Run a function in one child for each set of arguments, with a gate as `start`; return what each said."""
    gate = Gate()
    children: list[Child] = []
    with killed_at_exit(children):
        children += [fork(folder, function, gate=gate, start=gate, **kwargs) for kwargs in arguments]
        gate.open(len(children), children)
        for child in children:
            child.wait(900)
        return [child.value() for child in children]
