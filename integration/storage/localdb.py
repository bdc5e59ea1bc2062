"""The embedded database: a private MariaDB server in a directory of ours, on a Unix socket and nothing else.

It owns the server's life and its directory. It knows no table, and it never touches a server that it did not
start: a directory without our marker, and a process whose command line does not name the directory, are left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import MySQLdb

from integration.errors import EXIT_NOT_ALLOWED, SetupError
from integration.storage.addresses import DATABASE_NAME, socket_path

PACKAGES: Final = "mariadb-server-core mariadb-client-core"
MARKER: Final = "LOCKHOUSE-LOCALDB"
MIN_FREE_BYTES: Final = 300 * 1024 * 1024
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_FULL_DISK: Final = ("No space left on device", "Errcode: 28", "error 28", "OS error: 28", "Disk full")


class DatabaseBinaryMissing(SetupError):
    """The MariaDB server is not installed on this machine."""

    code: ClassVar[str] = "localdb_binary_missing"


class DirectoryNotOurs(SetupError):
    """The directory holds something that this program did not put there."""

    code: ClassVar[str] = "localdb_directory_not_ours"
    exit_code: ClassVar[int] = EXIT_NOT_ALLOWED


class DiskFull(SetupError):
    """There is no room on the disk for the database."""

    code: ClassVar[str] = "localdb_disk_full"


class DatabaseStartFailed(SetupError):
    """The MariaDB server did not start."""

    code: ClassVar[str] = "localdb_start_failed"


class DatabaseStopFailed(SetupError):
    """The MariaDB server did not stop in time; it may still be writing."""

    code: ClassVar[str] = "localdb_stop_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of the server."""

    running: bool
    pid: int | None
    directory: Path
    socket: Path
    version: str | None


def _binary(name: str) -> str:
    path = os.environ.get("PATH", os.defpath)
    found = shutil.which(name, path=f"{path}{os.pathsep}/usr/sbin{os.pathsep}/usr/bin")
    if found is None:
        message = f"{name} is not installed. On Debian: apt-get install {PACKAGES}"
        raise DatabaseBinaryMissing(message, binary=name, packages=PACKAGES)
    return found


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDatabase:
    """A private server and its directory.

    Attributes:
        directory: Holds everything: marker, data, log, pid and (when its path is short enough) the socket.
        extra_options: Further server options, e.g. weaker durability for a throwaway server.
    """

    directory: Path
    extra_options: tuple[str, ...] = ()
    #: A command that runs the server as its child's argv, e.g. to bind its life to the caller's.
    launcher: tuple[str, ...] = ()

    @property
    def socket(self) -> Path:
        """The Unix socket that clients connect to."""
        return socket_path(self.directory)

    @property
    def _data(self) -> Path:
        return self.directory.absolute() / "data"

    @property
    def _temporary(self) -> Path:
        # Every server that starts removes the temporary tables it finds, its neighbour's in a shared /tmp too.
        return self.directory.absolute() / "tmp"

    @property
    def _pid_file(self) -> Path:
        return self.directory.absolute() / "mariadbd.pid"

    @property
    def _log(self) -> Path:
        return self.directory.absolute() / "mariadbd.log"

    def start(self) -> Status:
        """Start the server unless it runs, and return when it answers.

        What a killed server left behind (pid file, socket, a half-made data directory) is cleared away; its data
        is recovered by the server itself.

        Returns:
            The status of the running server.

        Raises:
            DatabaseBinaryMissing: MariaDB is not installed; the message names Debian's packages.
            DirectoryNotOurs: The directory was not made by this program, or belongs to another user.
            DiskFull: There is no room to start.
            DatabaseStartFailed: The server gave up or did not answer in time; the message says where its log is.
        """
        server = _binary("mariadbd")
        self._claim_directory()
        with self._exclusive():
            if self._ping() is None:
                if self._live_pid() is None:
                    self._check_room()
                    self._initialise()
                    self._clear_leftovers()
                    self._launch(server)
                else:
                    self._await_ready(None)
            self._create_database()
        return self.status()

    def stop(self) -> bool:
        """Stop the server in good order and wait until it is gone.

        Returns:
            True if a server was stopped, False if none ran.

        Raises:
            DirectoryNotOurs: The directory was not made by this program.
            DatabaseStopFailed: The server was still there after the time it is given.
        """
        if not self.directory.exists():
            return False
        self._refuse_foreign_directory()
        with self._exclusive():
            pid = self._live_pid()
            if pid is None:
                self._clear_leftovers()
                return False
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            while self._is_ours(pid):
                if time.monotonic() > deadline:
                    message = f"the database server {pid} did not stop within {STOP_SECONDS:.0f} s; see {self._log}"
                    raise DatabaseStopFailed(message)
                time.sleep(_POLL_SECONDS)
            self._clear_leftovers()
            return True

    def status(self) -> Status:
        """Return what runs, without changing anything."""
        version = self._ping()
        return Status(
            running=version is not None,
            pid=self._live_pid(),
            directory=self.directory.absolute(),
            socket=self.socket,
            version=version,
        )

    # The directory

    def _refuse_foreign_directory(self) -> None:
        if self.directory.is_symlink() or not self.directory.is_dir():
            message = f"{self.directory} is not a directory of its own"
            raise DirectoryNotOurs(message)
        if self.directory.stat().st_uid != os.geteuid():
            message = f"{self.directory} belongs to another user"
            raise DirectoryNotOurs(message)
        if not (self.directory / MARKER).is_file() and any(self.directory.iterdir()):
            message = f"{self.directory} holds files that are not ours (no {MARKER} in it); nothing was touched"
            raise DirectoryNotOurs(message)

    def _claim_directory(self) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._refuse_foreign_directory()
            self.directory.chmod(0o700)
            (self.directory / MARKER).touch(mode=0o600)
            self._temporary.mkdir(mode=0o700, exist_ok=True)
            self.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError as error:
            message = f"{self.directory} is not a directory"
            raise DirectoryNotOurs(message) from error
        except OSError as error:
            raise self._disk_error(error) from error
        runtime = self.socket.parent.lstat()
        if runtime.st_uid != os.geteuid() or runtime.st_mode & 0o077:
            message = f"{self.socket.parent} is not private to this user"
            raise DirectoryNotOurs(message)

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        try:
            descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._disk_error(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _disk_error(self, error: OSError) -> SetupError:
        if error.errno in {28, 122}:
            return DiskFull(f"the disk that holds {self.directory} is full")
        return DatabaseStartFailed(f"{self.directory}: {error.strerror}")

    def _check_room(self) -> None:
        free = shutil.disk_usage(self.directory).free
        if free < MIN_FREE_BYTES:
            message = (
                f"the disk that holds {self.directory} has {free // 2**20} MiB free; "
                f"the database needs {MIN_FREE_BYTES // 2**20} MiB"
            )
            raise DiskFull(message, free_bytes=free, needed_bytes=MIN_FREE_BYTES)

    def _initialise(self) -> None:
        if self._data.is_dir():
            return
        draft = self.directory.absolute() / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        command = [
            _binary("mariadb-install-db"),
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            # The script does not quote the paths that it hands on, so that they must not hold a space.
            f"--datadir=./{draft.name}",
            *_as_root(),
        ]
        environment = {**os.environ, "TMPDIR": str(self._temporary)}
        with self._log.open("ab") as log:
            made = subprocess.run(  # noqa: S603
                command,
                cwd=draft.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )
        if made.returncode != 0:
            raise self._start_error("the data directory could not be made")
        # A crash before this line leaves only a draft, which the next start throws away.
        draft.rename(self._data)

    def _clear_leftovers(self) -> None:
        for path in (self._pid_file, self.socket, self.socket.with_name(self.socket.name + ".lock")):
            path.unlink(missing_ok=True)

    # The process

    def _is_ours(self, pid: int) -> bool:
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return os.fsencode(f"--datadir={self._data}") in arguments

    def _live_pid(self) -> int | None:
        try:
            pid = int(self._pid_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return pid if self._is_ours(pid) else None

    def _launch(self, server: str) -> None:
        command = [
            *self.launcher,
            server,
            "--no-defaults",
            f"--datadir={self._data}",
            f"--socket={self.socket}",
            f"--pid-file={self._pid_file}",
            f"--tmpdir={self._temporary}",
            "--skip-networking",
            "--character-set-server=utf8mb4",
            "--max-connections=250",
            "--innodb-buffer-pool-size=256M",
            *self.extra_options,
            *_as_root(),
        ]
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - a fixed program with our own arguments
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=not self.launcher
            )
        self._await_ready(process)
        # The server outlives this process by design; without this, Popen warns that its child still runs.
        process.returncode = 0

    def _await_ready(self, process: subprocess.Popen[bytes] | None) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self._ping() is None:
            if process is not None and process.poll() is not None:
                raise self._start_error(f"the server ended with exit code {process.returncode}")
            if time.monotonic() > deadline:
                raise self._start_error(f"the server did not answer within {START_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _start_error(self, what: str) -> SetupError:
        try:
            tail = self._log.read_bytes()[-8192:].decode("utf-8", "replace")
        except OSError:
            tail = ""
        if any(sign in tail for sign in _FULL_DISK):
            return DiskFull(f"the disk that holds {self.directory} is full ({what})")
        last = [line.strip() for line in tail.splitlines() if "[ERROR]" in line][-1:]
        return DatabaseStartFailed(f"{what}; its log is {self._log}" + (f": {last[0]}" if last else ""))

    def _ping(self) -> str | None:
        if not self.socket.is_socket():
            return None
        try:
            with contextlib.closing(
                MySQLdb.connect(unix_socket=str(self.socket), user="root", connect_timeout=5)
            ) as connection:
                return str(connection.get_server_info())
        except MySQLdb.OperationalError:
            return None

    def _create_database(self) -> None:
        with (
            contextlib.closing(MySQLdb.connect(unix_socket=str(self.socket), user="root")) as connection,
            contextlib.closing(connection.cursor()) as cursor,
        ):
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE_NAME} CHARACTER SET utf8mb4")
