"""A streaming response of Starlette whose reader goes away, in the middle of a run."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from lastgood import Client
from lastgood.testing.servers import PostgresServer, ValkeyServer

CHUNKS = 3
ENDED = {"2.3": "CancelledError", "2.4": "GeneratorExit"}
"""Up to 2.3 a server tells the application, in 2.4 what it sends raises."""


def application(client: Client) -> Starlette:
    async def answer() -> AsyncIterator[str]:
        async with client.run("chat", initial={"messages": []}) as run:
            await run.append("messages", "question")
            while True:
                yield "word "
                await asyncio.sleep(0.001)

    async def stream(_: Request) -> StreamingResponse:
        return StreamingResponse(answer())

    return Starlette(routes=[Route("/", stream)])


async def read_and_go(app: Starlette, version: str) -> None:
    """Ask, and go away after some chunks."""
    told: list[dict[str, Any]] = [{"type": "http.request", "body": b"", "more_body": False}]
    gone, count = asyncio.Event(), 0

    async def receive() -> dict[str, Any]:
        if told:
            return told.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        nonlocal count
        count += 1
        if count > CHUNKS:
            gone.set()
            if version == "2.4":
                raise OSError("it went away")

    asgi = {"version": "3.0", "spec_version": version}
    scope = {"type": "http", "asgi": asgi, "method": "GET", "path": "/", "headers": []}
    with suppress(ClientDisconnect):
        await app({**scope, "query_string": b"", "root_path": ""}, receive, send)  # type: ignore[arg-type]


async def left(client: Client) -> tuple[str, str | None]:
    """Status and error of the thread, once nobody is in it."""
    for _ in range(200):
        gc.collect()
        (info,) = await client.threads()
        if info.status != "running":
            break
        await asyncio.sleep(0.02)
    return info.status, info.error


@pytest.mark.server
@pytest.mark.parametrize("version", ENDED)
@pytest.mark.parametrize("kind", ["postgres", "valkey"])
def test_the_run_is_stale_and_goes_on(kind: str, version: str) -> None:
    async def body(url: str) -> None:
        async with Client.open(url) as client:
            await read_and_go(application(client), version)
            assert await left(client) == ("stale", ENDED[version])
            async with client.run("chat") as run:
                assert (run.state, run.resumed) == ({"messages": ["question"]}, True)

    with {"postgres": PostgresServer, "valkey": ValkeyServer}[kind]() as server:
        asyncio.run(body(server.url))
