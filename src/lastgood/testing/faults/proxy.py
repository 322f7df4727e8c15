"""A network that fails on purpose: a proxy between a client and a real server.

    with Proxy(server.url) as proxy:
        client = Client.open(proxy.url)
        proxy.cut_after(1, match=b"COMMIT")

The next request with COMMIT in it reaches the server, the reply reaches the proxy, and then the
connection is gone: the client cannot know. The proxy also delays, swallows, refuses, and counts
round trips. It runs on an event loop in a thread of its own; its methods may be called from any
other, and have taken effect when they return.

A *request* is what a client sends when the server owes it nothing, however many pieces it comes in:
as many requests, as many round trips. What is pipelined without waiting is one; only a pipeline
without a transaction that a driver sends in several packets may be counted as more.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from lastgood.testing.faults.endpoints import Endpoint, endpoint_of, moved
from lastgood.testing.faults.exchanges import EXCHANGES, Exchange
from lastgood.testing.servers.places import make_place, remove_place
from lastgood.testing.servers.ports import free_port

CHUNK = 1 << 16

T = TypeVar("T")
Way = Literal["to_server", "to_client"]
WAYS: tuple[Way, ...] = ("to_server", "to_client")


class Streams(NamedTuple):
    """The two ends of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Severed(Exception):
    """A connection was cut by the proxy."""


class Cut:
    """An order to cut at the nth request from now, before it is passed on or after its reply."""

    def __init__(self, nth: int, match: bytes | None, *, after: bool) -> None:
        assert nth >= 1
        self.left = nth
        self.match = match
        self.after = after

    def due(self, data: bytes, *, begins: bool) -> bool:
        """Whether this piece of a request is the one; `begins` says that it is the first piece."""
        if begins if self.match is None else self.match in data:
            self.left -= 1
            return self.left == 0
        return False


class Proxy:
    """A door to a server that can be slammed. Closed when the block is left."""

    def __init__(self, url: str) -> None:
        self._target = endpoint_of(url)
        self._place = make_place()
        self._door = _door_like(self._target, self._place)
        self.url = moved(url, self._door)
        self.round_trips = 0
        self.connections = 0
        """How many connections were made through it, ever."""
        self.cuts = 0
        """How many connections were cut by `cut_before` and `cut_after`."""
        self._exchange = EXCHANGES[urlsplit(url).scheme]
        self._delays: dict[Way, float] = dict.fromkeys(WAYS, 0.0)
        self._order: Cut | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._gates = {way: asyncio.Event() for way in WAYS}
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._healed())
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Cut every connection and stop listening."""
        self._call(self._closing())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        remove_place(self._place)

    def delay(self, *, to_server: float = 0.0, to_client: float = 0.0) -> None:
        """From now on, everything arrives so many seconds later."""
        self._delays = {"to_server": to_server, "to_client": to_client}

    def cut_before(self, nth: int = 1, *, match: bytes | None = None) -> None:
        """Cut its connection instead of passing on the nth request from now.

        With `match`, only requests that contain these bytes count.
        """
        self._order = Cut(nth, match, after=False)

    def cut_after(self, nth: int = 1, *, match: bytes | None = None) -> None:
        """Pass the nth request on, wait for its whole reply, and cut instead of passing that on."""
        self._order = Cut(nth, match, after=True)

    def cut(self) -> None:
        """Cut every connection that there is now."""
        self._call(self._cutting())

    def lead_to(self, url: str) -> None:
        """Let new connections lead to another server; those that are open stay as they are."""
        self._target = endpoint_of(url)

    def refuse(self) -> None:
        """Cut every connection and let nobody in, as if the server were gone, until `heal`."""
        self._call(self._refusing())

    def black_hole(self, *ways: Way) -> None:
        """Let nothing through in these directions (both, if none is given) until `heal`.

        Connections stay open and can be made. What was sent meanwhile arrives afterwards.
        """
        self._call(self._swallowing(ways or WAYS))

    def heal(self) -> None:
        """End `delay`, `refuse`, `black_hole` and orders to cut."""
        self._delays = dict.fromkeys(WAYS, 0.0)
        self._order = None
        self._call(self._healed())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _healed(self) -> None:
        for gate in self._gates.values():
            gate.set()
        if self._listener is None:
            path, host, port = self._door
            if path is not None:
                self._listener = await asyncio.start_unix_server(self._admit, path)
            else:
                self._listener = await asyncio.start_server(self._admit, host, port)

    async def _swallowing(self, ways: tuple[Way, ...]) -> None:
        for way in ways:
            self._gates[way].clear()

    async def _refusing(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            if self._door.path is not None:
                self._door.path.unlink(missing_ok=True)
        await self._cutting()

    async def _cutting(self) -> None:
        await _ended(self._links)

    async def _closing(self) -> None:
        await self._refusing()
        await _ended(asyncio.all_tasks() - {asyncio.current_task()})  # who came in meanwhile

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client to its end."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            await self._serve(Streams(reader, writer))
        except asyncio.CancelledError:
            pass  # cut; the stream protocol would report it as an error of ours
        finally:
            self._links.discard(task)

    async def _serve(self, client: Streams) -> None:
        opened = [client]
        try:
            server = await _connected(self._target)
            opened.append(server)
            await Link(self, client, server, self._exchange()).run()
        except Severed:
            self.cuts += 1
        except OSError:
            pass  # the server or the client went away, and now the other is told
        finally:
            for stream in opened:
                stream.writer.transport.abort()
            for stream in opened:
                with suppress(OSError):
                    await stream.writer.wait_closed()

    def passes(self, data: bytes, *, begins: bool) -> bool:
        """Whether the reply to this piece of a request is passed on too. Raises Severed."""
        self.round_trips += begins
        order = self._order
        if order is None or not order.due(data, begins=begins):
            return True
        self._order = None
        if not order.after:
            raise Severed
        return False

    async def travel(self, way: Way) -> None:
        """Wait for as long as the network takes in a direction."""
        await asyncio.sleep(self._delays[way])
        await self._gates[way].wait()


class Link:
    """One connection through a proxy."""

    def __init__(self, proxy: Proxy, client: Streams, server: Streams, exchange: Exchange) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._exchange = exchange
        self._doomed = False
        """Whether the next reply is the last thing that the server says."""

    async def run(self) -> None:
        """Pass data on until one side is done. Raises Severed, or OSError."""
        ways = [asyncio.ensure_future(way) for way in (self._to_server(), self._to_client())]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _to_server(self) -> None:
        while data := await self._client.reader.read(CHUNK):
            waits = not self._exchange.settled
            self._exchange.asked(data)
            begins = not waits and not self._exchange.settled  # something is asked for
            if not self._proxy.passes(data, begins=begins):
                self._doomed = True
            await self._proxy.travel("to_server")
            await _sent(data, self._server.writer)
        await self._proxy.travel("to_server")

    async def _to_client(self) -> None:
        while data := await self._server.reader.read(CHUNK):
            if self._doomed:
                self._exchange.answered(data)
                if self._exchange.settled:
                    raise Severed
            else:
                await self._proxy.travel("to_client")
                self._exchange.answered(data)  # only now may the client go on
                await _sent(data, self._client.writer)
        await self._proxy.travel("to_client")


async def _sent(data: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(data)
    await writer.drain()


async def _ended(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel tasks and wait for their ends."""
    ending = [task for task in tasks if task is not None]
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


async def _connected(endpoint: Endpoint) -> Streams:
    if endpoint.path is not None:
        return Streams(*await asyncio.open_unix_connection(endpoint.path, limit=CHUNK))
    return Streams(*await asyncio.open_connection(endpoint.host, endpoint.port, limit=CHUNK))


def _door_like(target: Endpoint, place: Path) -> Endpoint:
    """An endpoint of our own, of the same kind as the server's."""
    if target.path is None:
        return Endpoint(None, "127.0.0.1", free_port())
    return Endpoint(place / target.path.name, str(place), target.port)
