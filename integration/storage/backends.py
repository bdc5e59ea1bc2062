"""Which Django backend speaks to which server. A wrong one gets no connection, in no process."""

from __future__ import annotations

from typing import Any, Final

from integration import errors

TIDB_BACKEND: Final = "django_tidb"


def refuse_wrong_backend(connection: Any, **kwargs: Any) -> None:
    """Close a connection that was opened with the wrong backend; called for each that opens.

    Django takes TiDB for MySQL 8 and lets the clause through that skips locked rows, which TiDB accepts and then locks
    nothing. The banner comes with the handshake: asking costs no query.

    Args:
        connection: Django's connection, just opened.
        **kwargs: What else the signal carries.

    Raises:
        WrongBackend: The server is TiDB and the backend another one, or the other way round.
    """
    is_tidb = "tidb" in connection.connection.get_server_info().lower()
    is_for_tidb = str(connection.settings_dict["ENGINE"]).startswith(TIDB_BACKEND)
    if is_tidb == is_for_tidb:
        return
    connection.close()
    if is_tidb:
        message = (
            "The server is TiDB, but the database backend is not django_tidb. Use a tidb:// address: Django's MySQL "
            "backend lets SKIP LOCKED through, and TiDB then locks nothing."
        )
    else:
        message = "The server is not TiDB, but the database backend is django_tidb. Use a mysql:// address."
    raise errors.WrongBackend(message)
