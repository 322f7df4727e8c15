"""The built-in checkpointers, one for each kind of store."""

from __future__ import annotations

import os
from typing import Unpack

from lastgood.checkpointers.base import StateT
from lastgood.checkpointers.client_checkpointer import ClientCheckpointer
from lastgood.checkpointers.stored import DAY
from lastgood.client import Client
from lastgood.opening import ClientOptions


class InMemoryCheckpointer(ClientCheckpointer[StateT]):
    """Threads in this process, which end with it: for tests and single-process jobs."""

    def __init__(
        self,
        *,
        cache_ttl: float = DAY,
        enforce_user_isolation: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        client = Client.memory(**options)
        super().__init__(client, cache_ttl=cache_ttl, enforce_user_isolation=enforce_user_isolation)


class SqliteCheckpointer(ClientCheckpointer[StateT]):
    """Threads in one file, for any number of processes on one machine."""

    def __init__(
        self,
        db_path: str | os.PathLike[str] = "./lastgood.db",
        *,
        cache_ttl: float = DAY,
        enforce_user_isolation: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        client = Client.sqlite(db_path, **options)
        super().__init__(client, cache_ttl=cache_ttl, enforce_user_isolation=enforce_user_isolation)
