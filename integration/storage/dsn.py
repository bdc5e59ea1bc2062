"""A database that an address names instead of the settings: for commands that are run beside an installation."""

from __future__ import annotations

import math
import re
from copy import deepcopy
from typing import Any, Final

import dj_database_url
from django.db import DEFAULT_DB_ALIAS, connections

from integration import errors

_ENGINES: Final = frozenset({"django.db.backends.mysql", "django_tidb"})
_ADDRESS: Final = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
_OPTIONS: Final = frozenset({"unix_socket"})
_OPTION_NAME: Final = re.compile(r"[a-z][a-z_-]{0,31}", re.ASCII)
_CONNECT_SECONDS: Final = 10
#: A lock is waited for in short turns, so that whoever waits can be stopped.
_LOCK_WAIT: Final = "innodb_lock_wait_timeout = 1"
dj_database_url.register("tidb", "django_tidb")


def register_dsn(dsn: str, *, name: str, alias: str, timeout_seconds: float) -> str:
    """Make a database known under an alias, with the session that the settings give to `default`.

    The address says where the database is and who asks, and nothing of the session.

    Args:
        dsn: `mysql://USER:PASSWORD@HOST:PORT/NAME` or `tidb://...`; a Unix socket by `?unix_socket=PATH`.
        name: Where the address comes from; named in the error, which quotes none of it.
        alias: The alias.
        timeout_seconds: How long one statement may take.

    Returns:
        The alias.

    Raises:
        InvalidInput: It is no such address, or has another option.
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
    options = _check(parsed, name)
    settings = deepcopy(connections.settings[DEFAULT_DB_ALIAS])
    inherited = {key: value for key, value in settings["OPTIONS"].items() if key not in _OPTIONS}
    session = inherited.get("init_command")
    seconds = max(math.ceil(timeout_seconds), 1)
    settings.update({key: parsed.get(key, "") for key in _ADDRESS})
    settings["OPTIONS"] = {
        **inherited,
        **options,
        "init_command": f"{session}, {_LOCK_WAIT}" if session else f"SET {_LOCK_WAIT}",
        "connect_timeout": min(seconds, _CONNECT_SECONDS),
        "read_timeout": seconds,
        "write_timeout": seconds,
    }
    connections.settings[alias] = settings
    return alias


def _check(parsed: dict[str, Any], name: str) -> dict[str, str]:
    """Return the options of an address; of one that is refused, the error says which option, never its value."""
    options = {key: str(value) for key, value in parsed.get("OPTIONS", {}).items()}
    for key in options:
        if key not in _OPTIONS:
            # What was to be the end of a password that holds a question mark is no option's name.
            which = key if _OPTION_NAME.fullmatch(key) else "of another name"
            message = f"{name} has an option that is not taken, {which}; an address may have unix_socket alone."
            raise errors.InvalidInput(message, field=name)
    if any("\0" in str(value) for value in (*(parsed.get(key, "") for key in _ADDRESS), *options.values())):
        message = f"{name} holds a NUL character (%00), which no part of an address may."
        raise errors.InvalidInput(message, field=name)
    return options
