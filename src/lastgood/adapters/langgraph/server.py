"""Entry points for `langgraph dev` and the LangGraph server, configured by LASTGOOD_URL.

In langgraph.json:

    "checkpointer": {"path": "lastgood.adapters.langgraph.server.checkpointer"},
    "store": {"path": "lastgood.adapters.langgraph.server.store"}

The server calls them once for each of its event loops; all share one client.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from lastgood.adapters.langgraph.opening import client_for
from lastgood.adapters.langgraph.saver import LastgoodSaver
from lastgood.adapters.langgraph.store import LastgoodStore
from lastgood.client import Client

VARIABLE, DEFAULT = "LASTGOOD_URL", "lastgood.db"


@cache
def _client(address: str) -> Client:
    return client_for(address)


def _shared() -> Client:
    return _client(os.environ.get(VARIABLE) or DEFAULT)


@asynccontextmanager
async def checkpointer() -> AsyncIterator[LastgoodSaver]:
    """The server's checkpointer."""
    async with LastgoodSaver(_shared()) as saver:
        yield saver


@asynccontextmanager
async def store() -> AsyncIterator[LastgoodStore]:
    """The server's store."""
    client = _shared()
    try:
        yield LastgoodStore(client)
    finally:
        await client.close()
