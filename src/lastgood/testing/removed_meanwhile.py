"""A checkpoint is removed and its pages swept while somebody reads it, or goes on from it."""

from __future__ import annotations

from collections.abc import Sequence

from lastgood import BlockingClient
from lastgood.backend import Extents, Located
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


@case(each={"the last one that was seen": 1, "that and the two before it": 3})
async def while_a_line_is_walked(store: Store, count: int) -> None:
    """What follows those that are gone is found all the same: the line does not end with them."""
    client = store.client()
    ids = [await save(client, "s", {"n": number}) for number in range(20)]
    other, reader = store.client(), store.client()
    twin: BlockingClient = getattr(other, "twin", None) or other.blocking
    backend = core_of(reader).backend
    lines = backend.lineage
    asked: list[bytes] = []

    async def removed_first(tenant: str, id: bytes, limit: int) -> list[Located]:
        asked.append(id)
        if len(asked) == 2:
            seq = (await backend.find(tenant, [id]))[id].row.seq
            for each in ids[seq - 1 : seq - 1 + count]:
                twin.expire(each)
        return await lines(tenant, id, limit)

    backend.lineage = removed_first  # type: ignore[method-assign]
    assert (await reader.resolve("s@~18")).checkpoint_id == ids[1]


_HOW = {"expired": True, "deleted": False}
_AGAIN = "0190a000-0000-7000-8000-0000000000aa"


@case(each=_HOW)
async def and_its_id_used_again(store: Store, expired: bool) -> None:
    """Who saved it before goes on: what it remembers of it is not taken for the new one's pages."""
    client, other = store.client(), store.client()
    long = {"m": [f"message {number} " * 9 for number in range(300)]}
    for state, id in (({"n": 0}, None), (long, _AGAIN)):
        await save(client, "s", state, checkpoint_id=id)
    if expired:
        await other.expire(_AGAIN)
        await other.sweep("s", grace_seconds=0)
    else:
        await other.delete("s")
        await save(other, "s", {"n": 0})
    await save(other, "s", long, checkpoint_id=_AGAIN)
    longer = {"m": [*long["m"], "one more"]}
    saved = await save(client, "s", longer)
    async with client.run("s", agent_id="a") as run:
        grown = await run.append("m", "another")
    reader = store.client()
    assert (await reader.restore(saved)).state == longer
    assert (await reader.restore(grown)).state == {"m": [*longer["m"], "another"]}
    assert (await reader.verify(data=True)).clean


@case()
async def the_next_save_of_a_new_thread_is_small(store: Store) -> None:
    """What a commit remembers of the first checkpoint is its own, though its thread is new."""
    client = store.client()
    long = {"m": [f"message {number} " * 9 for number in range(300)]}
    await save(client, "s", long)
    first = (await client.stats()).physical
    await save(client, "s", {"m": [*long["m"], "one more"]})
    if not core_of(client).backend.copies:
        assert (await client.stats()).physical < first + 2000
