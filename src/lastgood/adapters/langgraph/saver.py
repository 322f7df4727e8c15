"""LangGraph's checkpointer on any Lastgood store: one class, both colours.

Holds nothing but a client's core and what the operations share; every method is the edge of an
operation. What users' classes need is decoded on the caller's thread, and nothing is locked while
a caller iterates.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import Any, Self, Unpack

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)

from lastgood.adapters.langgraph import deltas, tags
from lastgood.adapters.langgraph.copying import Copying
from lastgood.adapters.langgraph.listing import Asked, pages
from lastgood.adapters.langgraph.memory import Memory
from lastgood.adapters.langgraph.opening import Ready, client_for, core_of
from lastgood.adapters.langgraph.putting import Putting
from lastgood.adapters.langgraph.reading import Raw, Reading
from lastgood.adapters.langgraph.removal import Removal
from lastgood.adapters.langgraph.shapes import config_of, id_of, new_writes, run_of, spot_of
from lastgood.client import BlockingClient, Client
from lastgood.core import Core
from lastgood.driver import give_way, iterated, run_blocking
from lastgood.errors import CheckpointIntegrityError, CheckpointNotFoundError, LastgoodError
from lastgood.opening import ClientOptions

DELETE = ("delete", "delete_all")


class LastgoodSaver(BaseCheckpointSaver[str]):
    """A checkpointer that keeps a graph's state in a Lastgood store.

    `LastgoodSaver(client)`, or one of the `from_` factories. Sync and async methods work on one
    object, from any thread and inside a running loop. Needs no `with` and no `setup`.
    """

    def __init__(self, client: Client | BlockingClient) -> None:
        super().__init__()
        self.client = client
        self._memory = Memory()
        self._use(core_of(client))

    def _use(self, core: Core) -> None:
        self._core = core
        self._putting = Putting(core, self._memory)
        self._reading = Reading(core, self._memory)
        self._removal = Removal(core, self._reading, self._memory)
        self._copying = Copying(core, self._reading, self._putting)

    @classmethod
    def from_sqlite(cls, path: str = "./lastgood.db", **options: Unpack[ClientOptions]) -> Self:
        """A saver on one file."""
        return cls(Client.sqlite(path, **options))

    @classmethod
    def from_postgres(
        cls, dsn: Any, *, schema: str = "lastgood", **options: Unpack[ClientOptions]
    ) -> Self:
        """A saver in PostgreSQL: by a connection string, or on a pool of psycopg that you own."""
        return cls(Client.postgres(dsn, schema=schema, **options))

    @classmethod
    def from_redis(
        cls,
        url: str = "redis://localhost:6379",
        *,
        prefix: str = "lastgood",
        **options: Unpack[ClientOptions],
    ) -> Self:
        """A saver in Redis or Valkey; all keys begin with the prefix."""
        return cls(Client.redis(url, prefix=prefix, **options))

    @classmethod
    def from_memory(cls, **options: Unpack[ClientOptions]) -> Self:
        """A saver that ends with the process."""
        return cls(Client.memory(**options))

    @classmethod
    def from_conn_string(
        cls, address: str | os.PathLike[str], **options: Unpack[ClientOptions]
    ) -> Self:
        """A saver on a store by its address, or on a file by its path."""
        return cls(client_for(address, **options))

    def setup(self) -> Ready:
        """Nothing to do: a store is made at its first use. May be awaited, and may be left out."""
        return Ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def close(self) -> None:
        """Let go of the store; the next call would open it again."""
        run_blocking(self._core.backend.close())
        self._core.driver.rest()

    async def aclose(self) -> None:
        """The same for async code."""
        await self._core.driver.close(self._core.backend.close)
        self._core.driver.rest()

    def get_next_version(self, current: Any, channel: None) -> str:  # noqa: ARG002
        """A version that no other branch of the thread will ever give; sorts as text."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    def with_allowlist(self, extra_allowlist: Collection[Any]) -> Self:
        """The same saver, which accepts these classes and what is registered, and no other."""
        clone = copy.copy(self)
        core = copy.copy(self._core)
        core.codec = tags.narrowed(core.codec, extra_allowlist)
        clone._use(core)
        return clone

    # reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._tuple(run_blocking(self._get(config)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._tuple(await self._core.driver.run(self._get(config)))

    async def _get(self, config: RunnableConfig) -> Raw | None:
        spot, id = spot_of(config), id_of(config)
        if self._memory.is_put(spot.thread):
            await give_way()  # a run that was cancelled does not wait for its last writes
        return await (self._reading.latest(spot) if id is None else self._reading.by_id(spot, id))

    def _tuple(self, raw: Raw | None) -> CheckpointTuple | None:
        return raw.shape(self._core.codec).tuple() if raw is not None else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        asked = Asked.of(config, filter, before, limit)
        for raw in iterated(pages(self._reading, asked)):
            yield raw.shape(self._core.codec).tuple()

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        asked = Asked.of(config, filter, before, limit)
        async for raw in pages(self._reading, asked, self._core.driver):
            yield raw.shape(self._core.codec).tuple()

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return run_blocking(self._walk(config, channels)).histories(self._core.codec)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        walk = await self._core.driver.run(self._walk(config, channels))
        return walk.histories(self._core.codec)

    async def _walk(self, config: RunnableConfig, channels: Sequence[str]) -> deltas.Walk:
        spot, id, reading = spot_of(config), id_of(config), self._reading
        start = await (reading.head(spot) if id is None else reading.named(spot, id))
        if start is None:
            return deltas.Walk(tuple(channels), [], {}, {})
        return await deltas.walk(self._core, reading, start, channels)

    # writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = self._captured(config, checkpoint, metadata, new_versions)
        run_blocking(self._putting.put(put))
        return config_of(put.spot, put.context.id)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = self._captured(config, checkpoint, metadata, new_versions)
        await self._core.driver.run(self._putting.put(put))
        return config_of(put.spot, put.context.id)

    def _captured(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Any:
        about = get_checkpoint_metadata(config, metadata)
        return self._putting.capture(
            spot_of(config), checkpoint, dict(about), new_versions, id_of(config)
        )

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        run_blocking(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._core.driver.run(self._put_writes(config, writes, task_id, task_path))

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> Any:
        spot, id = spot_of(config), id_of(config)
        if id is None:
            raise ValueError("the config names no checkpoint_id: writes belong to a checkpoint.")
        run, new = run_of(config), new_writes(writes, str(task), path)
        drafts = self._putting.write_drafts(spot, id, new, run)
        return self._putting.put_writes(spot, drafts, run)

    # removing and copying

    def delete_thread(self, thread_id: str) -> None:
        run_blocking(self._removal.delete(str(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._core.driver.run(self._removal.delete(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        run_blocking(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._core.driver.run(self._delete_for_runs(run_ids))

    async def _delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = _names(run_ids)
        await self._removal.put_by_now()
        threads = await self._removal.threads_of(runs)
        await _from_each(threads, lambda thread: self._removal.of_runs(thread, runs))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        run_blocking(self._copying.copy(str(source_thread_id), str(target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._core.driver.run(
            self._copying.copy(str(source_thread_id), str(target_thread_id))
        )

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        run_blocking(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._core.driver.run(self._prune(thread_ids, strategy))

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", *DELETE):
            raise ValueError(f"strategy is 'keep_latest' or 'delete', not {strategy!r}.")
        remove = self._removal.delete if strategy in DELETE else self._removal.keep_latest
        await _from_each(_names(thread_ids), remove)


async def _from_each(threads: Iterable[str], remove: Callable[[str], Awaitable[None]]) -> None:
    """Remove something from some threads; one that is damaged keeps no other from it."""
    damage: LastgoodError | None = None
    for thread in threads:
        try:
            await remove(thread)
        except (CheckpointIntegrityError, CheckpointNotFoundError) as error:
            damage = damage or error
    if damage is not None:
        raise damage


def _names(given: Iterable[object]) -> list[str]:
    """Ids that were passed in; one alone is no row of letters."""
    return [given] if isinstance(given, str) else [str(each) for each in given]
