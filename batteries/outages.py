"""What can happen to a database server: it is killed, stopped, restarted, has no connection or no room left.

A server that is hurt here keeps what it has acknowledged: MariaDB by its full durability, on a small file system of
its own where one can be mounted, so that filling it up hurts nobody else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import MySQLdb
import MySQLdb.cursors

from batteries.forking import BatteryBroken
from integration.storage.localdb import LocalDatabase
from tests.support import servers
from tests.support.relay import Relay

STOPPED_SECONDS = 8.0
#: How long no connection, or no room, is to be had at least, and how long it is kept until the program has felt it.
SHORTAGE_SECONDS = 6.0
_LONGEST_SECONDS = 90.0
#: MariaDB takes no smaller limit.
FEW_CONNECTIONS = 10
_DISK_BYTES = 700 * 1024 * 1024
_BLOCK = bytes(64 * 1024)
#: No session is had, because there are too many.
_TOO_MANY = frozenset({1040, 1203})


@dataclass
class Target:
    """A server that can be hurt.

    Attributes:
        url: Its address, for the program.
        socket: Where it listens.
        pid: Its process now.
        start: Starts it again once it is gone.
        end_sessions: Ends every session but those with some ids.
        disk: The small file system that it writes to; None when it has none of its own.
    """

    url: str
    socket: Path
    pid: Callable[[], int]
    start: Callable[[], object]
    end_sessions: Callable[[MySQLdb.cursors.Cursor, set[int]], object]
    disk: Path | None = None


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a small file system; yield where, or None where that is not allowed."""
    image, place = folder / "disk.img", folder / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(_DISK_BYTES)
    made = (["mkfs.ext4", "-q", "-F", str(image)], ["mount", "-o", "loop", str(image), str(place)])
    try:
        is_mounted = all(subprocess.run(command, capture_output=True, check=False).returncode == 0 for command in made)
    except FileNotFoundError:
        is_mounted = False
    try:
        yield place if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(place)], capture_output=True, check=False)


@contextlib.contextmanager
def mariadb(folder: Path) -> Iterator[Target]:
    """Run MariaDB with its full durability."""
    with small_disk(folder) as disk:
        server = LocalDatabase(directory=(disk or folder) / "mariadb", launcher=servers.BOUND_TO_CALLER)
        server.start()

        def pid() -> int:
            found = server.status().pid
            if found is None:
                message = "the server does not run"
                raise BatteryBroken(message)
            return found

        url = f"mysql://root@localhost/lockhouse?unix_socket={quote(str(server.socket), safe='/')}"
        try:
            yield Target(
                url=url, socket=server.socket, pid=pid, start=server.start, end_sessions=kill_sessions, disk=disk
            )
        finally:
            with contextlib.suppress(Exception):
                os.kill(pid(), signal.SIGCONT)
            server.stop()


@contextlib.contextmanager
def tidb(folder: Path) -> Iterator[Target]:
    """Run TiDB on its embedded store."""
    running = [servers.launch_tidb(folder, is_killed=True)]
    socket = folder / "tidb.sock"

    def start() -> None:
        running[-1].wait(240)
        running.append(servers.launch_tidb(folder, is_killed=True))

    url = f"tidb://root@localhost/lockhouse?unix_socket={quote(str(socket), safe='/')}"
    try:
        # This server panics as a whole when it kills a session that writes, so the program's are cut on their way.
        with Relay(url, folder / "relay.sock").running() as relay:
            yield Target(
                url=relay.url,
                socket=socket,
                pid=lambda: running[-1].pid,
                start=start,
                end_sessions=lambda cursor, own: relay.cut(),
            )
    finally:
        running[-1].kill()
        running[-1].wait()


SERVERS = {"mariadb": mariadb, "tidb": tidb}


#: Says whether the program has met the trouble.
Felt = Callable[[], bool]


def kill(target: Target, felt: Felt) -> None:
    """End the server without a word, and start it again."""
    os.kill(target.pid(), signal.SIGKILL)
    _await_gone(target)
    target.start()


def freeze(target: Target, felt: Felt) -> None:
    """Stop the server for longer than a provider waits."""
    pid = target.pid()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    os.kill(pid, signal.SIGCONT)


def restart(target: Target, felt: Felt) -> None:
    """End the server in good order, and start it again."""
    os.kill(target.pid(), signal.SIGTERM)
    _await_gone(target)
    target.start()


def crowd(target: Target, felt: Felt) -> None:
    """Take every connection that the server gives, end everybody else's, and keep them for a while."""
    admin = MySQLdb.connect(unix_socket=str(target.socket), user="root")
    held: list[MySQLdb.Connection] = []
    try:
        with contextlib.closing(admin.cursor()) as cursor:
            cursor.execute("SELECT @@GLOBAL.max_connections")
            (before,) = cursor.fetchone()
            cursor.execute("SET GLOBAL max_connections = %s", [FEW_CONNECTIONS])
            refused = 0
            for _ in _shortage(felt):
                refused += _take_all(target, held)
                own = {admin.thread_id(), *(connection.thread_id() for connection in held)}
                target.end_sessions(cursor, own)
            cursor.execute("SET GLOBAL max_connections = %s", [before])
        if not refused:
            message = "the server refused no connection"
            raise BatteryBroken(message)
    finally:
        for connection in (*held, admin):
            connection.close()


def kill_sessions(cursor: MySQLdb.cursors.Cursor, own: set[int]) -> None:
    """Have the server end every session but some."""
    cursor.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'root'")
    for (identity,) in cursor.fetchall():
        if identity not in own:
            with contextlib.suppress(MySQLdb.Error):
                cursor.execute(f"KILL {int(identity)}")


def _take_all(target: Target, held: list[MySQLdb.Connection]) -> bool:
    """Open connections until the server gives no more; return whether that came."""
    while len(held) <= FEW_CONNECTIONS:
        try:
            held.append(MySQLdb.connect(unix_socket=str(target.socket), user="root"))
        except MySQLdb.Error as error:
            return error.args[0] in _TOO_MANY
    return False


def fill(target: Target, felt: Felt) -> None:
    """Leave no room on the server's disk for a while."""
    assert target.disk is not None
    ballast = target.disk / "ballast"
    try:
        # What the server gives up meanwhile is taken too.
        with ballast.open("ab", buffering=0) as file:
            for _ in _shortage(felt):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(_BLOCK)
    finally:
        ballast.unlink(missing_ok=True)


def _shortage(felt: Felt) -> Iterator[None]:
    """Yield again and again, for a while and until the program has met what is short."""
    began = time.monotonic()
    while time.monotonic() < began + SHORTAGE_SECONDS or not felt():
        if time.monotonic() > began + _LONGEST_SECONDS:
            message = "the program never met the shortage"
            raise BatteryBroken(message)
        yield
        time.sleep(0.05)


def _await_gone(target: Target) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            pid = target.pid()
            # A child that was not waited for is a zombie, and gone.
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
        except (BatteryBroken, OSError):
            return
        time.sleep(0.02)


def outages(target: Target) -> dict[str, Callable[[Target, Felt], None]]:
    """Return what can be done to a server, by name."""
    found: dict[str, Callable[[Target, Felt], None]] = {
        "kill": kill,
        "freeze": freeze,
        "restart": restart,
        "max_connections": crowd,
    }
    if target.disk is not None:
        found["disk_full"] = fill
    return found
