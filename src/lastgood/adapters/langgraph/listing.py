"""Listing checkpoints, page by page: what `list` was asked for, and the walk over threads."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig

from lastgood.adapters.graph_names import Spot
from lastgood.adapters.langgraph.reading import TOGETHER, Raw, Reading, Wanted
from lastgood.adapters.langgraph.shapes import id_of, spot_of
from lastgood.backend import Listing
from lastgood.driver import Direct, Driver


class Asked(NamedTuple):
    """What a list was asked for."""

    thread: str | None
    namespace: str | None
    """None: all of them."""
    id: str | None
    metadata: dict[str, Any]
    before: str | None
    before_in: str | None
    limit: int | None

    @classmethod
    def of(
        cls,
        config: RunnableConfig | None,
        metadata: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Asked:
        """From the arguments of `list`. Without a config it is all threads; one names a thread."""
        namespace = config["configurable"].get("checkpoint_ns") if config else None
        return cls(
            thread=spot_of(config).thread if config else None,
            namespace=None if namespace is None else str(namespace),
            id=id_of(config) if config else None,
            metadata=dict(metadata or {}),
            before=id_of(before) if before else None,
            before_in=(before["configurable"].get("checkpoint_ns") if before else None),
            limit=limit,
        )


async def pages(
    reading: Reading, asked: Asked, driver: Driver | None = None
) -> AsyncGenerator[Raw, None]:
    """Checkpoints, newest first in each thread; read in pages, with nothing held in between."""
    driver, left = driver or Direct(), asked.limit
    if asked.thread is not None and asked.id is not None:
        found = await driver.run(_named(reading, asked.thread, asked.id, asked))
        for raw in found[:left]:
            yield raw
        return
    threads = [asked.thread] if asked.thread is not None else await driver.run(_names(reading))
    for thread in threads:
        listing, wanted = await driver.run(_beginning(reading, asked, thread))
        following: Listing | None = listing
        while following is not None and (left is None or left > 0):
            found, following = await driver.run(reading.page(following, wanted, left))
            for raw in found:
                yield raw
            left = None if left is None else left - len(found)


async def _named(reading: Reading, thread: str, id: str, asked: Asked) -> list[Raw]:
    """The checkpoint of an id: in the namespace given, or in whichever has one."""
    given = asked.namespace
    spots = await reading.spots(thread) if given is None else [Spot(thread, given)]
    aliases = await reading.aliases(thread, [spot.alias(id) for spot in spots])
    listing, wanted = await _beginning(reading, asked, thread)
    found: list[Raw] = []
    for spot in spots:
        alias = aliases.get(spot.alias(id))
        if alias is not None and (listing.before is None or alias.seq < listing.before):
            raw = await reading.by_id(spot, id)
            if raw and raw.located and reading.is_wanted(id, raw.located.row, wanted):
                found.append(raw)
    return found


async def _names(reading: Reading) -> list[str]:
    return [name async for name in reading.threads()]


async def _beginning(reading: Reading, asked: Asked, thread: str) -> tuple[Listing, Wanted]:
    """Where the list of one thread begins; before an id that is not there, ids are compared."""
    lane = None if asked.namespace is None else Spot(thread, asked.namespace).lane
    size = TOGETHER  # who looks for metadata may have to pass many that do not have it
    if asked.limit is not None and not asked.metadata:
        size = max(1, min(TOGETHER, asked.limit))
    listing = Listing(thread, agent=lane, limit=size)
    if asked.before is None:
        return listing, Wanted(asked.metadata)
    namespace = asked.before_in if asked.before_in is not None else asked.namespace
    seq = await reading.place_of(Spot(thread, namespace or ""), asked.before)
    if seq is None:
        return listing, Wanted(asked.metadata, asked.before)
    return listing._replace(before=seq), Wanted(asked.metadata)
