"""A client by what people write down: an address, or the path of a file."""

from __future__ import annotations

from typing import Unpack

from lastgood.client import BlockingClient, Client
from lastgood.core import Core
from lastgood.opening import ClientOptions
from lastgood.registry import BACKENDS


def client_for(address: str, **options: Unpack[ClientOptions]) -> Client:
    """A client on a store by its address, such as `redis://...`, or on a file by its path."""
    scheme, colon, _ = address.partition(":")
    if address == ":memory:":
        return Client.memory(**options)
    if colon and scheme in BACKENDS:
        return Client.open(address, **options)
    return Client.sqlite(address, **options)


def core_of(client: Client | BlockingClient) -> Core:
    """What a client of either colour sits on."""
    return client.aio._core if isinstance(client, BlockingClient) else client._core
