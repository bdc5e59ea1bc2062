"""Throwaway database servers: one for a pytest run, shared by its xdist workers, gone with it.

A database that cannot be had is an error with a cause, never a skip.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import MySQLdb

from integration.storage.localdb import LocalDatabase

ROOT: Final = Path(__file__).resolve().parents[2]
ENGINES: Final = ("mariadb", "tidb")
# The kernel ends the server with the process that started it, even when that one is killed.
BOUND_TO_CALLER: Final = ("setpriv", "--pdeathsig", "KILL")
QUICK: Final = ("--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=O_DIRECT_NO_FSYNC")
_START_SECONDS: Final = 240.0


class TestDatabaseUnavailable(RuntimeError):
    """A test database could not be started."""

    __test__ = False


def engine() -> str:
    """Return the engine that this run tests: `mariadb` or `tidb`."""
    chosen = os.environ.get("LOCKHOUSE_TEST_DB", "mariadb")
    if chosen not in ENGINES:
        message = f"LOCKHOUSE_TEST_DB is {chosen!r}; it must be one of {', '.join(ENGINES)}"
        raise TestDatabaseUnavailable(message)
    return chosen


def tidb_binary() -> Path:
    """Return where the built TiDB server is cached: by what it is built from, outside the checkout."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((ROOT / "tests" / "tidb" / name).read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "lockhouse" / "tidb" / digest.hexdigest()[:16] / "tidb-server"


def _answers(socket: Path) -> bool:
    if not socket.is_socket():
        return False
    try:
        MySQLdb.connect(unix_socket=str(socket), user="root", connect_timeout=5).close()
    except MySQLdb.OperationalError:
        return False
    return True


@contextlib.contextmanager
def mariadb_server(*, durable: bool = False) -> Iterator[str]:
    """Run a throwaway MariaDB server.

    Args:
        durable: Keep the server's own durability, for tests that kill it.

    Yields:
        Its address, for LOCKHOUSE_DATABASE_URL.
    """
    with _scratch() as folder:
        server = LocalDatabase(
            directory=folder / "mariadb", extra_options=() if durable else QUICK, launcher=BOUND_TO_CALLER
        )
        server.start()
        try:
            yield f"mysql://root@localhost/lockhouse?unix_socket={quote(str(server.socket), safe='/')}"
        finally:
            server.stop()


def launch_tidb(folder: Path, *, is_killed: bool = False) -> subprocess.Popen[bytes]:
    """Start TiDB on an embedded store in a folder, and return when it answers on `folder/tidb.sock`.

    Args:
        folder: Everything of it.
        is_killed: It will be killed, and what it has committed is wanted afterwards. The embedded store keeps the
            locks of a commit under way in memory only: of a transaction over several regions, which TiDB makes one a
            table, a SIGKILL leaves a part, acknowledged or not. In one region a commit is one write.
    """
    binary = tidb_binary()
    if not binary.is_file():
        message = f"the TiDB server is not built ({binary}); run bin/build-tidb"
        raise TestDatabaseUnavailable(message)
    for name in ("store", "temp", "work"):
        (folder / name).mkdir(exist_ok=True)
    socket = folder / "tidb.sock"
    socket.unlink(missing_ok=True)
    config = folder / "tidb.toml"
    config.write_text(f"split-table = {'false' if is_killed else 'true'}\n", encoding="ascii")
    command = [
        *BOUND_TO_CALLER,
        str(binary),
        f"--config={config}",
        "--store=unistore",
        f"--path={folder / 'store'}",
        f"--socket={socket}",
        "-P",
        "0",
        "--report-status=false",
        f"--temp-dir={folder / 'temp'}",
        f"--log-file={folder / 'tidb.log'}",
        f"--log-slow-query={folder / 'slow.log'}",
        "-L",
        "error",
    ]
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=folder / "work",
            # Its spill folder is named after its port, which all servers without a port share.
            env={**os.environ, "TMPDIR": str(folder / "temp")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(socket):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            message = "TiDB did not start: " + (folder / "output").read_text(errors="replace")[-2000:]
            raise TestDatabaseUnavailable(message)
        time.sleep(0.05)
    return process


@contextlib.contextmanager
def tidb_server() -> Iterator[str]:
    """Run a throwaway TiDB server, or use the cluster that LOCKHOUSE_TIDB_DSN names; yield its address."""
    cluster = os.environ.get("LOCKHOUSE_TIDB_DSN")
    if cluster:
        yield cluster
        return
    with _scratch() as folder:
        process = launch_tidb(folder)
        try:
            yield f"tidb://root@localhost/lockhouse?unix_socket={quote(str(folder / 'tidb.sock'), safe='/')}"
        finally:
            if process.poll() is not None:
                print(_last_words(process, folder), file=sys.stderr)
            # Nothing of it is kept, so it need not close in good order.
            process.send_signal(signal.SIGKILL)
            process.wait()


def _last_words(process: subprocess.Popen[bytes], folder: Path) -> str:
    """Return what a server that ended by itself left: its exit, where it fell, how much its store and the disk held."""
    said = (folder / "output").read_text(errors="replace")
    fell = next((at for word in ("panic:", "fatal error:") if (at := said.find(word)) >= 0), max(0, len(said) - 2000))
    logged = (folder / "tidb.log").read_text(errors="replace") if (folder / "tidb.log").is_file() else ""
    stored = sum(path.stat().st_size for path in (folder / "store").rglob("*") if path.is_file())
    free = shutil.disk_usage(folder).free
    return (
        f"TiDB ended by itself, with {process.returncode}. Its store has {stored >> 20} MiB, the disk {free >> 20} MiB "
        f"free.\nIt said:\n{said[fell : fell + 4000]}\nIt logged:\n{logged[-4000:]}"
    )


@contextlib.contextmanager
def server(name: str) -> Iterator[str]:
    """Run the server of an engine and yield its address."""
    with mariadb_server() if name == "mariadb" else tidb_server() as url:
        yield url


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="lh-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
