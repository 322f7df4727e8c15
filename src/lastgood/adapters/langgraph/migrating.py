"""Bringing threads of LangGraph's own savers over: same ids, parents, namespaces, writes, metadata.

A checkpoint that is there already is left out, so an import that was interrupted is simply begun
again; writes that it got in the source since then are added. Nothing that is there is replaced, and
nothing that was removed comes back: the graph may have gone on here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from lastgood.adapters.graph_names import WRITES, Spot
from lastgood.adapters.importing import STRANGE, Count, Progress, quietly
from lastgood.adapters.langgraph.memory import Memory
from lastgood.adapters.langgraph.opening import core_of
from lastgood.adapters.langgraph.putting import Putting
from lastgood.adapters.langgraph.reading import Reading
from lastgood.adapters.langgraph.sources import Foreign, Source, Written
from lastgood.backend import ItemListing
from lastgood.client import BlockingClient
from lastgood.driver import run_blocking
from lastgood.errors import LastgoodError
from lastgood.ids import check_name
from lastgood.shelving import every_item

BATCH = 500
Name = tuple[str, str]
"""Namespace and id of a checkpoint."""


def bring_over(client: BlockingClient, source: Source, progress: Progress = quietly) -> Count:
    """Copy every thread; one that cannot be copied is told of, and does not stop the others."""
    moving = _Moving(client, source)
    threads = source.threads()
    count = Count(of=sum(number for _, number in threads))
    for thread, _ in threads:
        try:
            for step in moving.thread(check_name(thread, "thread_id")):
                count = count.plus(step)
                progress(count)
            count = count._replace(threads=count.threads + 1)
        except (LastgoodError, *STRANGE) as error:
            count = count.without(thread, error)
    return count


class _Moving:
    """Puts checkpoints of others into a store."""

    def __init__(self, client: BlockingClient, source: Source) -> None:
        self._core = core_of(client)
        self._source = source
        memory = Memory()
        self._putting = Putting(self._core, memory)
        self._reading = Reading(self._core, memory)

    def thread(self, thread: str) -> Iterator[Count]:
        """Bring a thread over, oldest first; tells what became of each checkpoint."""
        names = self._source.ids(thread)
        there = run_blocking(self._there(thread, names))
        writes = run_blocking(self._writes(thread)) if there else {}
        stale = set(_lacking(self._source.written(thread), thread, writes)) if there else set()
        removed = run_blocking(self._removed(thread, names, there))
        for name in names:
            if name not in there and name not in removed:
                self._put(self._source.checkpoint(Spot(thread, name[0]), name[1]))
                yield Count(checkpoints=1)
            elif there.get(name) and name in stale:
                yield self._complete(thread, name, writes)
            else:
                yield Count(skipped=1)

    async def _there(self, thread: str, names: list[Name]) -> dict[Name, bool]:
        """Which checkpoints of a thread are there; False for those of which a stub was left."""
        found: dict[Name, bool] = {}
        for first in range(0, len(names), BATCH):
            some = names[first : first + BATCH]
            places = {Spot(thread, namespace).alias(id): (namespace, id) for namespace, id in some}
            aliases = await self._reading.aliases(thread, list(places))
            found |= {places[place]: not alias.stub for place, alias in aliases.items()}
        return found

    async def _removed(
        self, thread: str, names: list[Name], there: Mapping[Name, bool]
    ) -> set[Name]:
        """Those that were brought and have been removed here; put again, they would be the newest.

        What is older than one that is there was brought before it.
        """
        outline = await self._core.backend.outline(self._core.tenant, thread, only="lanes")
        if outline is None or outline.row.checkpoints == outline.row.seq:
            return set()
        last = max((place for place, name in enumerate(names) if name in there), default=0)
        return {name for name in names[:last] if name not in there}

    async def _writes(self, thread: str) -> dict[bytes, bytes]:
        """The writes of a thread that are there."""
        listing = ItemListing(thread, WRITES)
        return {row.key: row.value async for row in every_item(self._core, listing)}

    def _complete(self, thread: str, name: Name, there: Mapping[bytes, bytes]) -> Count:
        """Add the writes that a checkpoint lacks."""
        spot = Spot(thread, name[0])
        drafts = self._putting.write_drafts(spot, name[1], self._source.writes(spot, name[1]))
        new = tuple(draft for draft in drafts if draft.key not in there)
        run_blocking(self._putting.put_writes(spot, new))
        last_wins = [draft for draft in drafts if draft.key in there and not draft.first_wins]
        differing = sum(there[draft.key] != draft.value for draft in last_wins)
        return Count(skipped=1, writes=len(new), differing=differing)

    def _put(self, foreign: Foreign) -> None:
        """Writes first: a checkpoint that is there has those that it had."""
        spot = foreign.spot
        drafts = self._putting.write_drafts(spot, foreign.id, foreign.writes)
        checkpoint = cast(Any, {**foreign.checkpoint, "id": foreign.id})
        # All of them: a value may differ under one version, if a node changed it in place.
        versions = foreign.checkpoint["channel_versions"]
        put = self._putting.capture(spot, checkpoint, foreign.metadata, versions, foreign.parent)
        run_blocking(self._putting.put_writes(spot, drafts))
        run_blocking(self._putting.put(put))


def _lacking(written: list[Written], thread: str, there: Mapping[bytes, bytes]) -> Iterator[Name]:
    """The checkpoints that lack a write, or have one that is replaced by a later one."""
    for namespace, id, task, number in written:
        if number < 0 or Spot(thread, namespace).write(id, task, number) not in there:
            yield namespace, id
