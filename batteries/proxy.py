"""A proxy between the program and its database that sees every COMMIT, and cuts some of them, by a seed.

It speaks as much of the MySQL protocol as it takes to know a query from an answer. A commit site is a COMMIT, or a
write on a connection that commits by itself. Three cuts: `before`, the connection ends and the server never hears of
the COMMIT; `after`, the server has answered and the answer is thrown away; `killed`, the server itself ends the
connection just before the COMMIT arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
from pathlib import Path
from typing import Final

import MySQLdb

#: TiDB keeps the locks of a killed session that was idle in its transaction, for longer than a battery can wait.
KINDS: Final = {"mariadb": ("before", "after", "killed"), "tidb": ("before", "after")}
_HEADER: Final = 4
_QUERY: Final = 0x03
_AUTOCOMMIT: Final = re.compile(r"^SET\s+(?:SESSION\s+)?autocommit\s*=\s*([01])", re.IGNORECASE)
_WRITE: Final = re.compile(r"^\s*(UPDATE|INSERT|DELETE|REPLACE)\b", re.IGNORECASE)
_KEPT_CHARACTERS: Final = 400


class Proxy:
    """Every connection that goes through one socket."""

    def __init__(self, upstream: str, *, rate: float, seed: int, kinds: list[str], log: Path) -> None:
        self._upstream = upstream
        self._kinds = kinds
        self._rate = rate
        self._chance = random.Random(seed)
        self._log = log.open("a", encoding="utf-8")
        self._cuts = 0

    def choose(self, site: str) -> str:
        """Decide about the next commit site: a kind of cut, or an empty string."""
        kind = ""
        if self._chance.random() < self._rate:
            kind = self._kinds[self._cuts % len(self._kinds)]
            self._cuts += 1
        self._log.write(json.dumps({"site": site[:_KEPT_CHARACTERS], "cut": kind}) + "\n")
        self._log.flush()
        return kind

    def kill_connection(self, identity: int) -> None:
        """Have the server end a connection."""
        with contextlib.closing(MySQLdb.connect(unix_socket=self._upstream, user="root")) as admin:
            admin.cursor().execute(f"KILL CONNECTION {identity}")

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(self._upstream)
        except OSError:
            writer.transport.abort()
            return
        link = Link(self, writer, up_writer)
        await asyncio.gather(link.carry_up(reader), link.carry_down(up_reader))


class Link:
    """One connection: what the client says and what the server answers."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._commits_alone = True
        self._last_write = ""
        self._drop_answer = False
        self._identity = 0

    def cut(self) -> None:
        """End both sides at once."""
        self._client.transport.abort()
        self._server.transport.abort()

    async def carry_up(self, reader: asyncio.StreamReader) -> None:
        """Carry packets from the client to the server."""
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                header = await reader.readexactly(_HEADER)
                body = await reader.readexactly(int.from_bytes(header[:3], "little"))
                if header[3] == 0 and body[:1] == bytes([_QUERY]):
                    site = self._site(body[1:].decode("utf-8", "replace"))
                    match self._proxy.choose(site) if site else "":
                        case "before":
                            break
                        case "after":
                            self._drop_answer = True
                        case "killed":
                            self._proxy.kill_connection(self._identity)
                self._server.write(header + body)
                await self._server.drain()
        # A connection whose answer is still to be dropped ends when the answer has come.
        if not self._drop_answer:
            self.cut()

    async def carry_down(self, reader: asyncio.StreamReader) -> None:
        """Carry what the server says to the client."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if not self._identity:
                    # The greeting: length and number, protocol version, the server's name ended by a zero, our id.
                    end = data.index(b"\0", _HEADER + 1)
                    self._identity = int.from_bytes(data[end + 1 : end + 5], "little")
                if self._drop_answer:
                    break
                self._client.write(data)
                await self._client.drain()
        self.cut()

    def _site(self, text: str) -> str:
        if found := _AUTOCOMMIT.match(text):
            self._commits_alone = found.group(1) == "1"
        if _WRITE.match(text):
            self._last_write = text
            return text if self._commits_alone else ""
        if text.strip().upper() == "COMMIT":
            return f"COMMIT {self._last_write}"
        return ""


def serve(*, socket: str, upstream: str, rate: float, seed: int, kinds: list[str], log: str) -> None:
    """Carry connections until killed."""

    async def main() -> None:
        proxy = Proxy(upstream, rate=rate, seed=seed, kinds=kinds, log=Path(log))
        server = await asyncio.start_unix_server(proxy.accept, path=socket)
        await server.serve_forever()

    asyncio.run(main())
