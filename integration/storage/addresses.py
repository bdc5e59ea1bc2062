"""Where the embedded database listens: pure path arithmetic, so that settings can name it before it runs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

DATABASE_NAME: Final = "lockhouse"
# The kernel takes 107 bytes; the server appends a few of its own while it starts.
MAX_SOCKET_PATH_BYTES: Final = 100


def socket_path(directory: Path) -> Path:
    """Return the Unix socket of the database that lives in a directory.

    A path that is too long for a socket address is replaced by one in a short private directory, whose name is
    derived from the long one, so that every process of a checkout finds the same place.

    Args:
        directory: The database's own directory, e.g. `var/mariadb`.

    Returns:
        An absolute path of at most `MAX_SOCKET_PATH_BYTES` bytes.
    """
    own = directory.absolute() / "mariadb.sock"
    if len(os.fsencode(own)) <= MAX_SOCKET_PATH_BYTES:
        return own
    digest = hashlib.sha256(os.fsencode(directory.absolute())).hexdigest()[:12]
    for base in (os.environ.get("XDG_RUNTIME_DIR"), "/tmp"):  # noqa: S108 - the private directory below is 0700
        if base:
            short = Path(base) / f"lockhouse-{os.getuid()}-{digest}" / "mariadb.sock"
            if len(os.fsencode(short)) <= MAX_SOCKET_PATH_BYTES:
                return short
    return own
