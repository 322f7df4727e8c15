"""Watching a thread: its new checkpoints as they come.

A store that can tell wakes the watcher; with others it looks again and again. The core does not
sleep: the driver's `pause` does, in the way of its colour. Nothing is locked and nothing is held
between two looks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

from lastgood.backend import Listing, Located
from lastgood.commits import Scope
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.model import Header

EVERY = 0.1
"""Seconds between two looks at a thread in which nothing happens, where nobody tells."""
AT_LEAST = 5.0
"""The same where the store tells."""
PAGE = 256


async def watch(
    core: Core,
    driver: Driver,
    thread: str,
    agent: str | None,
    after: int | None,
    ended: Callable[[], None] = lambda: None,
) -> AsyncGenerator[Header, None]:
    """Headers in the order of seq, from `after` on or from now on.

    `ended` is called when a life of the thread is over; the next one is waited for.
    """
    news = core.backend.news(core.tenant, thread)
    try:
        life, newest = await driver.run(_newest(core, thread))
        seen = newest if after is None else after
        if seen and not life.key:
            ended()  # between the look of who knows that place and ours
        if seen > newest:
            seen = 0  # the place is one in an earlier life of the thread
        while True:
            now, newest = await driver.run(_newest(core, thread))
            if now != life:
                if life.key:
                    ended()
                life, seen = now, 0  # it began, ended, or was deleted and began anew
            seen = min(seen, newest)  # a server that lost data has gone back
            if newest > seen:
                upto = None if newest - seen <= PAGE else seen + PAGE
                found = await driver.run(_since(core, thread, agent, seen, upto))
                for located in found:
                    if located.row.thread == life.key:  # else it began anew between the two looks
                        yield core.header(located)
                seen = max(upto or newest, found[-1].row.seq if found else 0)
            elif news is None or not await driver.run(news.wait(AT_LEAST)):
                await driver.pause(EVERY)
    finally:
        if news is not None:
            news.close()


class Life(NamedTuple):
    """An incarnation of a thread; zeros if there is none. A server that lost everything may give
    the same key again.
    """

    key: int
    created_at: int


async def _newest(core: Core, thread: str) -> tuple[Life, int]:
    """Which incarnation of a thread is there, and how far it is."""
    row = (await core.backend.look(Scope(core.tenant, thread))).live
    return (Life(row.thread, row.created_at), row.seq) if row else (Life(0, 0), 0)


async def _since(
    core: Core, thread: str, agent: str | None, seen: int, upto: int | None
) -> list[Located]:
    """What came since, oldest first; of much that did, only a part."""
    found: list[Located] = []
    before = None if upto is None else upto + 1
    listing = Listing(thread, agent, before=before, above=seen, limit=PAGE)
    while True:
        page = await core.backend.history(core.tenant, listing)
        found += page
        if len(page) < PAGE or upto is not None:
            return found[::-1]
        listing = listing._replace(before=page[-1].row.seq)
