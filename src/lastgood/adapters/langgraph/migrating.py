"""Bringing threads of LangGraph's own savers over: same ids, parents, namespaces, writes, metadata.

What is there already is left out, so an import that was interrupted is simply begun again.
"""

from __future__ import annotations

from typing import Any, cast

from lastgood.adapters.graph_names import Spot
from lastgood.adapters.importing import Count, Progress, quietly
from lastgood.adapters.langgraph.memory import Memory
from lastgood.adapters.langgraph.opening import core_of
from lastgood.adapters.langgraph.putting import Putting
from lastgood.adapters.langgraph.reading import Reading
from lastgood.adapters.langgraph.sources import Foreign, Source
from lastgood.client import BlockingClient
from lastgood.driver import run_blocking
from lastgood.ids import check_name

BATCH = 500


def bring_over(client: BlockingClient, source: Source, progress: Progress = quietly) -> Count:
    """Copy every thread."""
    moving = _Moving(client)
    threads = source.threads()
    count = Count(of=sum(number for _, number in threads))
    for thread, _ in threads:
        check_name(thread, "thread_id")
        there = run_blocking(moving.there(thread, source.ids(thread)))
        for foreign in source.every(thread, there):
            if foreign is None:
                count = count._replace(skipped=count.skipped + 1)
            else:
                moving.put(foreign)
                count = count._replace(checkpoints=count.checkpoints + 1)
            progress(count)
        count = count._replace(threads=count.threads + 1)
    return count


class _Moving:
    """Puts checkpoints of others into a store."""

    def __init__(self, client: BlockingClient) -> None:
        self._core = core_of(client)
        memory = Memory()
        self._putting = Putting(self._core, memory)
        self._reading = Reading(self._core, memory)

    async def there(self, thread: str, ids: list[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which checkpoints of a thread are there; the writes of the last one may not be."""
        found: set[tuple[str, str]] = set()
        for first in range(0, len(ids), BATCH):
            places = {Spot(thread, ns).alias(id): (ns, id) for ns, id in ids[first : first + BATCH]}
            found |= {places[place] for place in await self._reading.aliases(thread, list(places))}
        return found

    def put(self, foreign: Foreign) -> None:
        """Writes first: a checkpoint that is there is complete."""
        spot = foreign.spot
        drafts = self._putting.write_drafts(spot, foreign.id, foreign.writes)
        checkpoint = cast(Any, {**foreign.checkpoint, "id": foreign.id})
        put = self._putting.capture(spot, checkpoint, foreign.metadata, {}, foreign.parent)
        run_blocking(self._putting.put_writes(spot, drafts))
        run_blocking(self._putting.put(put))
