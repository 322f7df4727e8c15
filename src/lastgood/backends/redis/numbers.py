"""Numbers of threads and streams: counters give them out, many at a time.

A server that loses data has its counters go back, and would give out numbers that are in use. So
nobody relies on them: a commit that brings a new number is refused where somebody has it, and then
the counter is put behind what is in use. The one invariant: a counter never goes back through us.
"""

from __future__ import annotations

from collections.abc import Sequence

from lastgood.backends.redis.keys import RANGE, Keys
from lastgood.backends.redis.scripts import HINT
from lastgood.backends.redis.wire import Wire
from lastgood.backends.remote.changes import Kind

_STEPS: dict[Kind, int] = {"thread": 16, "stream": 64}
_REACH = 48
"""Tables of keys are looked for up to two to the power of this ahead."""


class Numbers:
    """The counters of one store."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire = wire
        self._keys = keys
        self._given: dict[Kind, int] = {"thread": 0, "stream": 0}
        """The highest that this process was given."""

    async def reserve(self, kind: Kind, count: int) -> Sequence[int] | None:
        """At least so many that nobody else is given; None if the counter went back before."""
        size = -(-count // _STEPS[kind]) * _STEPS[kind]
        before = self._given[kind]
        last = int(await self._wire.one("INCRBY", self._keys.counter(kind), size))
        if last - size < before:  # what we had from it may be in use
            await self.pass_by(kind, before)
            return None
        self._given[kind] = max(self._given[kind], last)
        return range(last - size + 1, last + 1)

    async def pass_by(self, kind: Kind, number: int) -> None:
        """Have the counter go on behind a number that is in use."""
        await self._wire.one(*HINT.call(self._keys.counter(kind), "raise", number))

    async def pass_keys(self, key: int) -> None:
        """Have the counter go on behind the keys that threads have, of which this is one.

        Tables of keys follow each other, so the last one is found by halving. Where some are
        missing it may be an earlier one: then a key turns out to be taken once more.
        """
        table = key // RANGE
        while True:
            ahead = [table + (1 << n) for n in range(_REACH)]
            asked = [("EXISTS", self._keys.key_hint(each * RANGE).key) for each in ahead]
            found = await self._wire.send(asked)
            there = [each for each, yes in zip(ahead, found, strict=True) if yes]
            if not there:
                break
            table = there[-1]
        fields = await self._wire.one("HKEYS", self._keys.key_hint(table * RANGE).key)
        await self.pass_by("thread", max(key, *map(int, fields)))
