"""Finding the step: where a value came from (blame), where a predicate began to hold (bisect).

Operations over a `Core`, with the driver at hand: states are decoded and predicates called on the
caller's side of it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import NamedTuple

from lastgood import paths
from lastgood.backend import Located
from lastgood.building import build_state
from lastgood.checkpoints import Checkpoint
from lastgood.core import Core
from lastgood.diffing import compare
from lastgood.driver import Driver
from lastgood.manifest import Stored
from lastgood.model import Bisection, Blame, Header
from lastgood.paths import Steps
from lastgood.resolving import STRIDE, check_agent, lineage, locate, only_agent, onward
from lastgood.tracing import counterpart, from_front, page_of, unchanged, value_at

Predicate = Callable[[Checkpoint], bool | Awaitable[bool]]


async def line(core: Core, driver: Driver, start: Located) -> AsyncIterator[Located]:
    """A checkpoint and all that it follows, live ones only, newest first."""
    found = await driver.run(lineage(core, start, STRIDE))
    while found:
        for located in found:
            if not located.expired:
                yield located
        more = len(found) == STRIDE
        found = await driver.run(onward(core, found, STRIDE)) if more else []


# blame


class _Sight(NamedTuple):
    """A checkpoint on the way back, and where the value stands in it."""

    located: Located
    sketch: Stored
    steps: Steps
    page: int | None


async def blame(core: Core, driver: Driver, ref: str, path: str) -> Blame:
    """The checkpoint that brought in the value at a path."""
    asked = paths.parse(path)
    start = await driver.run(locate(core, ref))
    state = await _value(core, driver, start)
    value, steps = value_at(core.codec, state, asked), from_front(core.codec, state, asked)
    sight = await _seen(core, driver, start, steps)
    packed = core.codec.pack(value)
    before: Located | None = None
    async for older in line(core, driver, start):
        if older.row.id == start.row.id:
            continue
        earlier = await _earlier(core, driver, sight, older, packed)
        if earlier is None:
            before = older
            break
        sight = earlier
    header = core.header(sight.located)
    parent = core.header(before) if before else None
    return Blame(paths.render(steps), value, header, parent, paths.render(sight.steps))


async def _seen(core: Core, driver: Driver, located: Located, steps: Steps) -> _Sight:
    stored = await driver.run(core.stored(located.row))
    page = page_of(core.codec, stored.tree, steps)
    return _Sight(located, stored, steps, page)


async def _value(core: Core, driver: Driver, located: Located) -> object:
    return build_state(core.codec, (await driver.run(core.stored(located.row))).tree)


async def _earlier(
    core: Core, driver: Driver, sight: _Sight, older: Located, packed: bytes
) -> _Sight | None:
    """The same value in the checkpoint before; None if it is not there yet."""
    if older.row.root == sight.located.row.root:
        return sight._replace(located=older)
    sketch = await driver.run(core.sketch(older.row))
    if unchanged(sight.sketch, sketch, sight.steps, sight.page):
        return sight._replace(located=older, sketch=sketch)
    new, old = await _value(core, driver, sight.located), await _value(core, driver, older)
    steps = counterpart(core.codec, new, old, sight.steps)
    if steps is None or not _is(packed, core.codec.pack(value_at(core.codec, old, steps))):
        return None
    return await _seen(core, driver, older, steps)


def _is(packed: bytes, other: bytes) -> bool:
    """Whether two values are the same, as a diff tells: the order of keys makes no difference."""
    return packed == other or compare(other, packed) is None


# bisect


class _Search:
    """One bisection: a line of checkpoints, oldest first, and what was found out about them."""

    def __init__(
        self, core: Core, driver: Driver, line: list[Located], predicate: Predicate
    ) -> None:
        self._core, self._driver = core, driver
        self._line, self._predicate = line, predicate
        self.answers: dict[int, bool] = {}

    async def holds(self, index: int) -> bool:
        if index not in self.answers:
            loaded = await self._driver.run(self._core.load(self._line[index]))
            answer = self._predicate(self._core.built(loaded))
            self.answers[index] = bool(await answer if inspect.isawaitable(answer) else answer)
        return self.answers[index]

    async def first(self, low: int, high: int) -> int:
        """Where it begins to hold, given that it holds at `high` and not below `low`."""
        while low < high:
            middle = (low + high) // 2
            if await self.holds(middle):
                high = middle
            else:
                low = middle + 1
        return high

    async def probe(self, low: int, high: int) -> None:
        """Try some more from one place to another, to see whether it flipped more than once."""
        parts = max(1, min(high - low, len(self._line).bit_length()))
        for part in range(parts + 1):
            await self.holds(low + (high - low) * part // parts)

    def flips(self) -> list[int]:
        """Where the answers so far change, in the order of the line."""
        known = sorted(self.answers)
        return [b for a, b in pairwise(known) if self._differ(a, b)]

    def _differ(self, left: int, right: int) -> bool:
        return self.answers[left] != self.answers[right]

    def header(self, index: int) -> Header:
        return self._core.header(self._line[index])


async def bisect(
    core: Core, driver: Driver, thread: str, agent: str | None, predicate: Predicate
) -> Bisection:
    """The first checkpoint of the current line at which a predicate holds."""
    if agent is None:
        agent = await driver.run(only_agent(core, thread))
    tip = await driver.run(core.tip(thread, agent))
    if tip is None:  # a name that was mistyped is no line without a bad step
        await driver.run(check_agent(core, thread, agent))
    found = [] if tip is None else [each async for each in line(core, driver, tip)]
    search = _Search(core, driver, found[::-1], predicate)
    last = len(found) - 1
    if not found:
        return Bisection(None, None, 0)
    if not await search.holds(last):
        await search.probe(0, last)
        last = next((index for index, held in search.answers.items() if held), -1)
        if last < 0:
            return Bisection(None, search.header(len(found) - 1), len(search.answers))
    index = await search.first(0, last)
    if index:
        await search.probe(0, index - 1)
    await search.probe(index, len(found) - 1)
    flips = tuple(map(search.header, search.flips()))
    before = search.header(index - 1) if index else None
    return Bisection(search.header(index), before, len(search.answers), flips)
