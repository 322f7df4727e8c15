"""A checkpoint is removed and its pages swept while somebody reads it."""

from __future__ import annotations

from collections.abc import Sequence

from lastgood import BlockingClient
from lastgood.backend import Extents
from lastgood.backends.memory import MemoryBackend
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.copies_cases import copied
from lastgood.testing.operations import save
from lastgood.testing.store import Store, core_of, headers

WIDE = {f"k{number}": [f"text {number} " * 20, "y" * 4000] for number in range(60)}
"""So many keys that its manifest is stored as pages too."""


async def _with_a_doomed_one(store: Store) -> Client:
    """A client that reads the rows of a checkpoint, and finds its pages swept."""
    client = store.client()
    await save(client, "s", {"n": 0})
    doomed = await save(client, "s", WIDE)
    await save(client, "s", {"n": 2})
    await save(client, "z", {"n": 3})
    other, reader = store.client(), store.client()
    twin: BlockingClient = getattr(other, "twin", None) or other.blocking
    backend = core_of(reader).backend
    whole = backend.parts

    async def swept_first(ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        backend.parts = whole  # type: ignore[method-assign]
        twin.expire(doomed)
        twin.sweep("s", grace_seconds=0)
        return await whole(ranges, checked=checked)

    backend.parts = swept_first  # type: ignore[method-assign]
    return reader


@case()
async def while_it_is_copied(store: Store) -> None:
    """The thread is copied as it is then, and so are all others."""
    reader, target = await _with_a_doomed_one(store), store.client_on(MemoryBackend())
    report = await copied(reader, target)
    assert (report.threads, report.problems) == (2, ())
    assert len(await headers(target, "s")) == 2


@case()
async def while_it_is_measured(store: Store) -> None:
    """What is left is added up."""
    reader = await _with_a_doomed_one(store)
    assert {size.name for size in (await reader.stats("s")).by_path} == {"n"}


@case()
async def while_a_timeline_is_read(store: Store) -> None:
    """The next live one takes its place."""
    reader = await _with_a_doomed_one(store)
    assert [each.state for each in await reader.timeline("a", "s", limit=2)] == [{"n": 2}, {"n": 0}]
