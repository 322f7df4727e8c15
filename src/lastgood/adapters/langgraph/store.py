"""LangGraph's cross-thread store on any Lastgood store: one class, both colours.

In a batch all reads come first, then all writes, as in LangGraph's own stores. The one invariant:
users' functions (embeddings, classes) run on the caller's thread or loop, never inside a commit.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, Self, Unpack

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
)

from lastgood.adapters.langgraph import vectors
from lastgood.adapters.langgraph.checks import checked
from lastgood.adapters.langgraph.filters import is_at, matches
from lastgood.adapters.langgraph.keeping import (
    Change,
    Keeping,
    Kept,
    Namespace,
    value_place,
    vector_place,
)
from lastgood.adapters.langgraph.opening import Ready, client_for, core_of
from lastgood.client import BlockingClient, Client
from lastgood.driver import run_blocking
from lastgood.item_rules import ItemDraft
from lastgood.opening import ClientOptions


class Found(NamedTuple):
    """What a batch has read."""

    kept: dict[int, Kept | None]
    below: dict[int, list[Kept]]
    vectors: dict[int, dict[tuple[Namespace, bytes], bytes]]
    namespaces: list[Namespace]


class Embedded(NamedTuple):
    """The vectors of the queries and of the values of a batch, by the number of the operation."""

    queries: dict[int, vectors.Vector]
    values: dict[int, list[vectors.Vector]]


class LastgoodStore(BaseStore):
    """LangGraph's store, kept beside the threads of a client.

    `index` makes values searchable by meaning: `{"dims": ..., "embed": ..., "fields": [...]}`.
    `ttl` is as in LangGraph; what is over its time is never returned.
    """

    supports_ttl = True
    __slots__ = ("_core", "_embeddings", "_keeping", "client", "index", "ttl_config")

    def __init__(
        self,
        client: Client | BlockingClient,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.client = client
        self.index = index
        self.ttl_config = ttl
        self._core = core_of(client)
        self._keeping = Keeping(self._core)
        self._embeddings = ensure_embeddings(index.get("embed")) if index else None

    @classmethod
    def from_sqlite(
        cls,
        path: str = "./lastgood.db",
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """On one file."""
        return cls(Client.sqlite(path, **options), index=index, ttl=ttl)

    @classmethod
    def from_postgres(
        cls,
        dsn: Any,
        *,
        schema: str = "lastgood",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """In PostgreSQL: by a connection string, or on a pool of psycopg that you own."""
        return cls(Client.postgres(dsn, schema=schema, **options), index=index, ttl=ttl)

    @classmethod
    def from_redis(
        cls,
        url: str = "redis://localhost:6379",
        *,
        prefix: str = "lastgood",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """In Redis or Valkey; all keys begin with the prefix."""
        return cls(Client.redis(url, prefix=prefix, **options), index=index, ttl=ttl)

    @classmethod
    def from_memory(
        cls,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """One that ends with the process."""
        return cls(Client.memory(**options), index=index, ttl=ttl)

    @classmethod
    def from_conn_string(
        cls,
        address: str | os.PathLike[str],
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """On a store by its address, or on a file by its path."""
        return cls(client_for(address, **options), index=index, ttl=ttl)

    def setup(self) -> Ready:
        """Nothing to do: a store is made at its first use. May be awaited, and may be left out."""
        return Ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Let go of the store; the next call would open it again."""
        run_blocking(self._core.backend.close())
        self._core.driver.rest()

    async def aclose(self) -> None:
        """The same for async code."""
        await self._core.driver.close(self._core.backend.close)
        self._core.driver.rest()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        listed = checked(ops)
        packed, texts = self._packed(listed), self._texts(listed)
        found = run_blocking(self._read(listed))
        embedded = self._embedded(_queries(listed), texts)
        results, read = self._answers(listed, found, embedded)
        run_blocking(self._write(listed, read, packed, embedded))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        listed = checked(ops)
        packed, texts = self._packed(listed), self._texts(listed)
        found = await self._core.driver.run(self._read(listed))
        embedded = await self._aembedded(_queries(listed), texts)
        results, read = self._answers(listed, found, embedded)
        await self._core.driver.run(self._write(listed, read, packed, embedded))
        return results

    def sweep_ttl(self) -> int:
        """Remove what is over its time; gives the number of values removed."""
        return run_blocking(self._keeping.sweep())

    async def asweep_ttl(self) -> int:
        """The same for async code."""
        return await self._core.driver.run(self._keeping.sweep())

    # reading

    async def _read(self, ops: Sequence[Op]) -> Found:
        gets = [(number, op) for number, op in enumerate(ops) if isinstance(op, GetOp)]
        kept = await self._keeping.get([(op.namespace, str(op.key)) for _, op in gets])
        below: dict[int, list[Kept]] = {}
        near: dict[int, dict[tuple[Namespace, bytes], bytes]] = {}
        for number, op in enumerate(ops):
            if isinstance(op, SearchOp):
                below[number] = await self._keeping.below(tuple(op.namespace_prefix))
                if op.query and self._embeddings:
                    near[number] = await self._keeping.vectors(tuple(op.namespace_prefix))
        listing = any(isinstance(op, ListNamespacesOp) for op in ops)
        names = await self._keeping.namespaces() if listing else []
        numbered = zip(gets, kept, strict=True)
        return Found({number: one for (number, _), one in numbered}, below, near, names)

    def _answers(
        self, ops: Sequence[Op], found: Found, embedded: Embedded
    ) -> tuple[list[Result], list[Kept]]:
        """The results, and the values whose time begins anew."""
        results: list[Result] = []
        read: list[Kept] = []
        for number, op in enumerate(ops):
            if isinstance(op, GetOp):
                kept = found.kept[number]
                results.append(kept.item(self._core.codec) if kept else None)
                read += [kept] if kept and op.refresh_ttl else []
            elif isinstance(op, SearchOp):
                items, shown = self._searched(op, number, found, embedded)
                results.append(items)
                read += shown if op.refresh_ttl else []
            elif isinstance(op, ListNamespacesOp):
                results.append(_namespaces(op, found.namespaces))
            else:
                results.append(None)
        return results, read

    def _searched(
        self, op: SearchOp, number: int, found: Found, embedded: Embedded
    ) -> tuple[list[SearchItem], list[Kept]]:
        codec, kept = self._core.codec, found.below[number]
        if op.filter:
            kept = [each for each in kept if matches(each.value(codec), op.filter)]
        kept = sorted(kept, key=lambda each: (-each.row.updated_at, each.namespace, each.key))
        scores: dict[int, float] = {}
        if number in embedded.queries:
            scores = _scores(embedded.queries[number], kept, found.vectors[number])
        order = sorted(range(len(kept)), key=lambda i: -scores.get(i, float("-inf")))
        page = order[op.offset : op.offset + op.limit]
        items = [kept[i].found(kept[i].value(codec), scores.get(i)) for i in page]
        return items, [kept[i] for i in page]

    # writing

    def _packed(self, ops: Sequence[Op]) -> dict[int, bytes]:
        """The values that are put, by the number of the operation: as they are when it begins."""
        return {
            number: self._core.codec.pack_parts((op.value, op.ttl), f"store[{str(op.key)!r}]")
            for number, op in enumerate(ops)
            if isinstance(op, PutOp) and op.value is not None
        }

    async def _write(
        self, ops: Sequence[Op], read: list[Kept], packed: dict[int, bytes], embedded: Embedded
    ) -> None:
        await self._keeping.refresh(read)
        last = {
            (tuple(op.namespace), str(op.key)): (number, op)
            for number, op in enumerate(ops)
            if isinstance(op, PutOp)
        }
        changes: dict[Namespace, Change] = {}
        for (namespace, key), (number, op) in last.items():
            change = changes.setdefault(namespace, Change([], []))
            if number not in packed:
                change.drops.extend((value_place(key), vector_place(key)))
            else:
                near = embedded.values.get(number, [])
                _add(change, key, ItemDraft(*value_place(key), packed[number], ttl=_ttl(op)), near)
        if changes:
            await self._keeping.change(changes)

    # embedding: models may take questions and documents in different ways

    def _embedded(self, queries: dict[int, str], texts: dict[int, list[str]]) -> Embedded:
        model = self._embeddings
        if model is None:
            return Embedded({}, {})
        asked = [model.embed_query(query) for query in queries.values()]
        flat = list(chain.from_iterable(texts.values()))
        made = model.embed_documents(flat) if flat else []
        return Embedded(self._checked(queries, asked), self._sorted_out(texts, made))

    async def _aembedded(self, queries: dict[int, str], texts: dict[int, list[str]]) -> Embedded:
        model = self._embeddings
        if model is None:
            return Embedded({}, {})
        asked = [await model.aembed_query(query) for query in queries.values()]
        flat = list(chain.from_iterable(texts.values()))
        made = await model.aembed_documents(flat) if flat else []
        return Embedded(self._checked(queries, asked), self._sorted_out(texts, made))

    def _texts(self, ops: Sequence[Op]) -> dict[int, list[str]]:
        """The texts of the values that are put, by the number of the operation."""
        return {
            number: vectors.texts_of(op.value, self.index, op.index)
            for number, op in enumerate(ops)
            if isinstance(op, PutOp)
            and op.value is not None
            and op.index is not False
            and self.index
        }

    def _checked(
        self, numbers: Collection[int], made: Sequence[vectors.Vector]
    ) -> dict[int, vectors.Vector]:
        vectors.check(made, len(numbers), self.index.get("dims") if self.index else None)
        return dict(zip(numbers, made, strict=True))

    def _sorted_out(
        self, texts: dict[int, list[str]], made: Sequence[vectors.Vector]
    ) -> dict[int, list[vectors.Vector]]:
        count = sum(map(len, texts.values()))
        vectors.check(made, count, self.index.get("dims") if self.index else None)
        rest = iter(made)
        return {number: list(islice(rest, len(each))) for number, each in texts.items()}


def _add(change: Change, key: str, draft: ItemDraft, near: list[vectors.Vector]) -> None:
    change.puts.append(draft)
    if near:
        change.puts.append(ItemDraft(*vector_place(key), vectors.pack(near), ttl=None))
    else:
        change.drops.append(vector_place(key))


def _ttl(op: PutOp) -> float | None:
    """In seconds."""
    return None if op.ttl is None else op.ttl * 60


def _queries(ops: Sequence[Op]) -> dict[int, str]:
    """The questions of the searches, by the number of the operation."""
    searches = ((number, op) for number, op in enumerate(ops) if isinstance(op, SearchOp))
    return {number: op.query for number, op in searches if op.query}


def _scores(
    query: vectors.Vector,
    values: Sequence[Kept],
    stored: dict[tuple[Namespace, bytes], bytes],
) -> dict[int, float]:
    """How near each value is by its nearest vector; those without vectors are left out.

    So are vectors that another embedding made: of other dimensions, they compare with nothing.
    """
    owners: list[int] = []
    near: list[vectors.Vector] = []
    for number, kept in enumerate(values):
        packed = stored.get((kept.namespace, kept.row.key), b"\x90")
        found = [vector for vector in vectors.read(packed) if len(vector) == len(query)]
        owners += [number] * len(found)
        near += found
    scores: dict[int, float] = {}
    for number, score in zip(owners, vectors.nearness(query, near), strict=True):
        scores[number] = max(score, scores.get(number, score))
    return scores


def _namespaces(op: ListNamespacesOp, found: Sequence[Namespace]) -> list[Namespace]:
    fitting = [each for each in found if is_at(each, op.match_conditions or ())]
    if op.max_depth is not None:
        fitting = [each[: op.max_depth] for each in fitting]
    return sorted(set(fitting))[op.offset : op.offset + op.limit]
