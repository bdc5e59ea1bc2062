"""Connections of the harness and of the raw loops, by the address that the program is given."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import MySQLdb


def connect(url: str) -> Any:
    """Open a connection to an address, at the console's isolation."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    where: dict[str, Any] = (
        {"unix_socket": query["unix_socket"][0]}
        if "unix_socket" in query
        else {"host": parts.hostname, "port": parts.port or 3306}
    )
    database = parts.path.strip("/")
    connection = MySQLdb.connect(
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        charset="utf8mb4",
        autocommit=True,
        **where,
        **({"database": database} if database else {}),
    )
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("SET time_zone = '+00:00'")
    return connection
