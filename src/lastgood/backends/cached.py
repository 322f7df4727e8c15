"""A store of record with a cache in front of it: parts that were read once are read from there.

Only parts come from the cache. Rows, heads and names are looked up in the record each time, so
what was deleted, removed or moved is so for everybody at once, whatever the cache still has: parts
are never changed, and nobody asks for those of a thread that is not there. A number is used again
only when a sweep has taken away what had it. What the cache gives is hashed with the state that it
belongs to, like everything else; if that does not fit, the cache is told to forget the thread, and
the record is read.

The cache may lose anything at any time, or not answer at all: it then slows a call down once, by
what `PartCache` promises, and is left alone for a while.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import ormsgpack

from lastgood.backend import Backend, Extents
from lastgood.backends.wrapping import Wrapper
from lastgood.commits import Intent, Removing, Scope, Writes
from lastgood.errors import CheckpointIntegrityError
from lastgood.manifest import Spot

BLOCK = 16
"""The most parts that are kept as one value: of a sequence that grew, fewer are read again."""
LARGEST = 32 << 20
"""More bytes than this are not put into the cache by one read."""
_CHECK = 16
_NOBODY = "\x1f"
"""No tenant has this name, so counting its threads is quick."""


class PartCache(ABC):
    """Where copies of parts are kept, by thread and name.

    - Never raises. What it has not, or cannot tell in time, it does not give.
    - Takes no longer than a short, documented time for a call, and none at all while it is broken.
    """

    @abstractmethod
    async def get(self, thread: str, names: Sequence[str]) -> list[bytes | None]: ...
    @abstractmethod
    async def put(self, thread: str, values: Mapping[str, bytes]) -> None: ...
    @abstractmethod
    async def drop(self, thread: str, *, for_good: bool) -> None:
        """Remove all of a thread; with `for_good`, nothing of it is taken in again.

        - Where that is not possible now, nothing of the thread is given out until it was done.
        """

    @abstractmethod
    async def close(self) -> None: ...


class Block(NamedTuple):
    """Parts of a stream that are kept together: a power of two of them, at a multiple of it.

    So a range that grew shares all blocks of the shorter one but a few.
    """

    thread: int
    stream: int
    first: int
    length: int

    @property
    def name(self) -> str:
        return f"{self.stream}.{self.first}.{self.length}"


class Run(NamedTuple):
    """Neighbouring blocks that have to be read: one range of the record."""

    extent: Extents
    blocks: list[Block]


def blocks_of(extent: Extents) -> Iterator[Block]:
    """A range as blocks, in order."""
    stream, first = extent.first
    at, end = first - 1, first - 1 + extent.length
    while at < end:
        length = BLOCK
        while at % length or at + length > end:
            length //= 2
        yield Block(extent.thread, stream, at + 1, length)
        at += length


class CachedBackend(Wrapper):
    """A backend whose parts are also kept in a cache."""

    def __init__(self, record: Backend, cache: PartCache) -> None:
        super().__init__(record)
        self._cache = cache
        self._store = ""

    async def commit(self, intent: Intent) -> Writes:
        place = await self._threatened(intent)
        try:
            writes = await self.record.commit(intent)
        except BaseException:
            if place is not None:
                await self._cache.drop(place, for_good=False)
            raise
        if writes.wiped is not None:
            await self._drop(writes.wiped.thread, for_good=True)
        if (writes.removed or writes.swept) and writes.thread is not None:
            await self._drop(writes.thread.thread)
        return writes

    async def _threatened(self, intent: Intent) -> str | None:
        """The thread of which something may be removed: who is interrupted does not learn it."""
        if not isinstance(intent, Removing):
            return None
        try:
            found = await self.record.look(Scope(intent.scope.tenant, intent.scope.thread))
        except CheckpointIntegrityError:
            return None
        return None if found.thread is None else await self._place(found.thread.thread)

    async def forget(self, thread: int) -> bool:
        await self._drop(thread)
        return True

    async def _drop(self, thread: int, *, for_good: bool = False) -> None:
        await self._cache.drop(await self._place(thread), for_good=for_good)

    async def _place(self, thread: int) -> str:
        """A thread as the cache knows it: another store that is made in its place is another."""
        if not self._store:
            self._store = f"{(await self.record.census(_NOBODY)).created_at:x}"
        return f"{self._store}:{thread}"

    async def close(self) -> None:
        await self._cache.close()
        await self.record.close()

    # reading

    async def parts(self, ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        if checked:
            return await self.record.parts(ranges, checked=True)
        wanted = [list(blocks_of(extent)) for extent in ranges]
        known = await self._known({block for blocks in wanted for block in blocks})
        missing = [
            Run(_joined(extent, run), run)
            for extent, blocks in zip(ranges, wanted, strict=True)
            for run in _runs(blocks, known)
        ]
        if missing:
            known |= await self._read(missing)
        return [[part for block in blocks for part in known[block]] for blocks in wanted]

    async def _known(self, blocks: set[Block]) -> dict[Block, list[bytes]]:
        found: dict[Block, list[bytes]] = {}
        for thread in {block.thread for block in blocks}:
            mine = [block for block in blocks if block.thread == thread]
            place = await self._place(thread)
            values = await self._cache.get(place, [block.name for block in mine])
            for block, value in zip(mine, values, strict=True):
                parts = _unpacked(value, block.length)
                if parts is not None:
                    found[block] = parts
        return found

    async def _read(self, runs: Sequence[Run]) -> dict[Block, list[bytes]]:
        """Blocks from the record; those that are whole go into the cache."""
        ranges = [run.extent for run in runs]
        try:
            read = await self.record.parts(ranges, checked=True)
        except CheckpointIntegrityError:
            return _cut(runs, await self.record.parts(ranges))
        found = _cut(runs, read)
        whole = [
            block
            for run, parts in zip(runs, read, strict=True)
            if len(parts) == run.extent.length
            for block in run.blocks
        ]
        for thread in {block.thread for block in whole}:
            values = {b.name: _packed(found[b]) for b in whole if b.thread == thread}
            if sum(map(len, values.values())) <= LARGEST:
                await self._cache.put(await self._place(thread), values)
        return found


def _runs(blocks: Sequence[Block], known: Mapping[Block, object]) -> Iterator[list[Block]]:
    """Neighbours that are not known: each is one range of the record."""
    run: list[Block] = []
    for block in blocks:
        if block not in known:
            run.append(block)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _joined(extent: Extents, run: Sequence[Block]) -> Extents:
    """The part of a range that a run of its blocks takes."""
    first, last = run[0], run[-1]
    length = last.first + last.length - first.first
    return extent._replace(first=Spot(first.stream, first.first), length=length)


def _cut(runs: Sequence[Run], read: Sequence[list[bytes]]) -> dict[Block, list[bytes]]:
    """What was read, block by block. Where parts are missing, a block has too few."""
    found = {}
    for run, parts in zip(runs, read, strict=True):
        for block in run.blocks:
            at = block.first - run.blocks[0].first
            found[block] = parts[at : at + block.length]
    return found


def _packed(parts: Sequence[bytes]) -> bytes:
    """A value of the cache, with a check of its own: a cache may give back anything."""
    data = ormsgpack.packb(list(parts))
    return hashlib.sha256(data).digest()[:_CHECK] + data


def _unpacked(value: bytes | None, length: int) -> list[bytes] | None:
    if value is None or hashlib.sha256(value[_CHECK:]).digest()[:_CHECK] != value[:_CHECK]:
        return None
    parts: list[bytes] = ormsgpack.unpackb(value[_CHECK:])
    return parts if len(parts) == length else None
