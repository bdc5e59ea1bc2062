"""A relay between clients and a database server, whose connections can all be cut at once, whatever they are doing."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

_BLOCK: Final = 65536


class Relay:
    """Carries connections from a Unix socket of its own to a server, in a thread.

    Args:
        url: The server's address, as LOCKHOUSE_DATABASE_URL takes it.
        socket: Where to listen.
    """

    def __init__(self, url: str, socket: Path) -> None:
        self._parts = urlsplit(url)
        self._socket = socket
        self._loop: asyncio.AbstractEventLoop
        self._links: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()

    @property
    def url(self) -> str:
        """The address that clients use instead of the server's."""
        query = f"unix_socket={quote(str(self._socket), safe='/')}"
        return urlunsplit(self._parts._replace(query=query))

    def cut(self) -> int:
        """End every connection, without a word to either side, and return how many there were."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    async def _cut(self) -> int:
        ends = list(self._links)
        for client, server in ends:
            client.transport.abort()
            server.transport.abort()
        return len(ends)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, up_writer)
        self._links.add(ends)
        try:
            await asyncio.gather(_carry(reader, up_writer), _carry(up_reader, writer))
        finally:
            self._links.discard(ends)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if path := parse_qs(self._parts.query).get("unix_socket"):
            return await asyncio.open_unix_connection(path[0])
        return await asyncio.open_connection(self._parts.hostname, self._parts.port)

    @contextlib.contextmanager
    def running(self) -> Iterator[Relay]:
        """Listen for as long as the context is open."""
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            server = runner.run(asyncio.start_unix_server(self._accept, self._socket))
            thread = threading.Thread(target=self._loop.run_forever, name="relay")
            thread.start()
            try:
                yield self
            finally:
                self._loop.call_soon_threadsafe(server.close)
                self._loop.call_soon_threadsafe(self._loop.stop)
                thread.join()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way, and end the other side when this one has ended."""
    with contextlib.suppress(OSError):
        while data := await reader.read(_BLOCK):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
