"""A database that an address names instead of the settings: for commands that are run beside an installation."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any, Final

import dj_database_url
from django.db import DEFAULT_DB_ALIAS, connections

from integration import errors

_ENGINES: Final = frozenset({"django.db.backends.mysql", "django_tidb"})
_ADDRESS: Final = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
_CONNECT_SECONDS: Final = 10
#: A lock is waited for in short turns, so that whoever waits can be stopped.
_LOCK_WAIT: Final = "innodb_lock_wait_timeout = 1"
dj_database_url.register("tidb", "django_tidb")


def register_dsn(dsn: str, *, name: str, alias: str, timeout_seconds: float) -> str:
    """Make a database known under an alias, with the session that the settings give to `default`.

    Args:
        dsn: `mysql://USER:PASSWORD@HOST:PORT/NAME` or `tidb://...`; a Unix socket by `?unix_socket=PATH`.
        name: Where the address comes from; named in the error, which quotes none of it.
        alias: The alias.
        timeout_seconds: How long one statement may take.

    Returns:
        The alias.

    Raises:
        InvalidInput: It is no such address.
    """
    try:
        parsed: dict[str, Any] = dict(dj_database_url.parse(dsn))
    except ValueError:
        parsed = {}
    if parsed.get("ENGINE") not in _ENGINES or not parsed.get("NAME"):
        message = (
            f"{name} must be the address of a database, mysql://USER:PASSWORD@HOST:PORT/NAME or tidb://...; what is set"
            " is none."
        )
        # Without the parser's error, which quotes the address.
        raise errors.InvalidInput(message, field=name) from None
    settings = deepcopy(connections.settings[DEFAULT_DB_ALIAS])
    options = {key: value for key, value in settings["OPTIONS"].items() if key != "unix_socket"}
    session = options.get("init_command")
    seconds = max(math.ceil(timeout_seconds), 1)
    settings.update({key: parsed.get(key, "") for key in _ADDRESS})
    settings["OPTIONS"] = {
        **options,
        **parsed.get("OPTIONS", {}),
        "init_command": f"{session}, {_LOCK_WAIT}" if session else f"SET {_LOCK_WAIT}",
        "connect_timeout": min(seconds, _CONNECT_SECONDS),
        "read_timeout": seconds,
        "write_timeout": seconds,
    }
    connections.settings[alias] = settings
    return alias
