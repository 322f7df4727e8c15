"""A client by what people write down: an address, a connection string, or the path of a file."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from typing import Any, Unpack

from lastgood.client import BlockingClient, Client
from lastgood.core import Core
from lastgood.opening import ClientOptions
from lastgood.registry import BACKENDS, scheme_of

_LIBPQ = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service|sslmode)\s*=")


def client_for(address: str | os.PathLike[str], **options: Unpack[ClientOptions]) -> Client:
    """A client by an address such as `redis://...`, by libpq's `host=... dbname=...`, or by a path.

    What has a scheme is never taken for a path: its password would end up in the name of a file.
    """
    if isinstance(address, os.PathLike):
        return Client.sqlite(address, **options)
    if not isinstance(address, str):
        raise TypeError(
            f"an address or a path is a str or a Path, not {type(address).__name__}. "
            "Does the environment variable that it comes from have a value?"
        )
    if address == ":memory:":
        return Client.memory(**options)
    if _LIBPQ.match(address):
        return Client.postgres(address, **options)
    if "://" in address or (":" in address and scheme_of(address) in BACKENDS):
        return Client.open(address, **options)
    return Client.sqlite(address, **options)


def core_of(client: Client | BlockingClient) -> Core:
    """What a client of either colour sits on; raises TypeError for anything else."""
    if isinstance(client, BlockingClient):
        return client.aio._core
    if isinstance(client, Client):
        return client._core
    raise TypeError(
        f"this takes a client of Lastgood, not a {type(client).__module__}."
        f"{type(client).__qualname__}. For a path or an address use from_conn_string(...), for a "
        "pool of psycopg from_postgres(pool), for a store beside a saver its saver.client."
    )


class Ready:
    """What there was to set up is set up: for those who await it, and for those who do not."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()
