"""One thread on its way from a store into another.

It arrives in pieces and out of sight; what has arrived is read back and compared with what was
read, by fingerprint, and only then it is made visible. What an earlier copy left in the middle is
compared with the source, and gone on from. A thread that is there with other content is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lastgood.backend import Section, Sheet
from lastgood.commits import Brought, Intent, Scope, Writes
from lastgood.copy_rules import Bring, Discard
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.errors import CheckpointIntegrityError
from lastgood.item_rules import KINDS, hidden
from lastgood.manifest import Part, Slot
from lastgood.rows import ARRIVING, LIVE, LaneRow, Row, ThreadRow, pack_slots, read_slots
from lastgood.thread_reading import Step, ThreadReading

ROWS = 512
"""So many rows that are no checkpoints are written at a time."""


class Choice(NamedTuple):
    """Which threads are copied, and how."""

    threads: tuple[str, ...] | None = None
    since: int | None = None
    revive: bool = False
    """Whether a thread comes back that was deleted in the target."""
    dry_run: bool = False
    salvage: bool = False
    """Whether what is left of a damaged thread is copied."""


class Refused(Exception):
    """A thread is not copied; says what kind of reason that has."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Moved(Exception):
    """The source or the target changed meanwhile: everything is looked at again."""


class Side(NamedTuple):
    """A store, and how its operations are run."""

    core: Core
    driver: Driver

    def tenants(self) -> Iterator[str]:
        """The tenant, and those that are hidden beside it."""
        yield self.core.tenant
        yield from (hidden(self.core.tenant, kind) for kind in KINDS)

    async def thread(self, tenant: str, name: str) -> ThreadRow | None:
        """A thread's row, deleted or not."""
        found = await self.driver.run(self.core.backend.look(Scope(tenant, name)))
        return found.thread

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        """Rows as they are stored."""
        return await self.driver.run(self.core.backend.survey(tenant, sections))

    async def commit(self, intent: Intent) -> Writes:
        """Carry out an intent."""
        return await self.driver.run(self.core.backend.commit(intent))

    async def decide(self, intent: Intent, *, dry_run: bool) -> object:
        """What an intent answers; it is carried out, unless that is only a try."""
        if not dry_run:
            return (await self.commit(intent)).answer
        found = await self.driver.run(self.core.backend.look(intent.scope))
        return intent.decide(found).answer

    def reading(self, row: ThreadRow, *, data: bool) -> ThreadReading:
        """A pass over a thread."""
        return ThreadReading(self.core, row, data=data)

    async def moved(self, reading: ThreadReading) -> bool:
        """Whether a thread is not any more as it was when a pass over it began."""
        return await self.driver.run(reading.moved())

    async def read_all(self, reading: ThreadReading) -> None:
        """The whole of a pass."""
        await self.driver.run(reading.rows())
        await self.read(reading, reading.row.seq)

    async def read(self, reading: ThreadReading, high: int) -> None:
        """Go on with a pass up to a seq."""
        while await self.driver.run(reading.steps(high)):
            pass


class Transfer:
    """One attempt to copy one thread, as a pass over it reads it in the source."""

    def __init__(
        self, source: Side, target: Side, tenant: str, reading: ThreadReading, choice: Choice
    ) -> None:
        self.row = row = reading.row
        self.reading = reading
        self.copies = False
        """Whether it was not there before."""
        self._source = source
        self._target = target
        self._choice = choice
        self._here = row._replace(thread=0, tenant=tenant)
        """The row as the target will have it."""
        self._at = 0
        """The seq of the last checkpoint that has arrived."""
        self._resumes = False
        self._streams: dict[int, int] = {}
        """Streams of the source, and which they are in the target."""

    async def run(self, tell: Callable[[int], None]) -> None:
        """All of it; tells how many checkpoints were dealt with."""
        there = await self._target.thread(self._here.tenant, self._here.name)
        if there is not None and there.live:
            await self._compare(there)
            return
        if there is not None and there.state != ARRIVING:
            self._check_deleted(there)
        self.copies = True
        if self._choice.dry_run:
            await self._try()
            return
        rows = await self._source.driver.run(self.reading.rows())
        if there is not None and there.state == ARRIVING:
            await self._resume(there)
            tell(self.reading.checkpoints)
        await self._bring_all(rows, tell)
        self.reading.check()
        await self._finish()

    async def _try(self) -> None:
        """Read what would be copied, where it may be that only a part of it can be."""
        if self._choice.salvage:
            await self._source.read_all(self.reading)
            self.reading.check()

    async def give_up(self) -> None:
        """Remove what has arrived of a thread that cannot be copied: its name is free again."""
        if self._here.thread:
            await self._target.commit(Discard(self._here))

    # what is there already

    async def _compare(self, there: ThreadRow) -> None:
        """Whether a thread that is there is the same; raises Refused if not."""
        ours, theirs = self.reading, self._target.reading(there, data=False)
        ours.data = self._choice.salvage  # where it must be known that nothing is damaged
        await self._source.read_all(ours)
        ours.check()
        await self._target.read_all(theirs)
        if ours.fingerprint.whole(self.row) != theirs.fingerprint.whole(there):
            raise Refused("differs", _difference(self.row, there))

    def _check_deleted(self, tombstone: ThreadRow) -> None:
        """An incarnation that ended there does not come back unasked."""
        if tombstone.incarnation < self.row.incarnation:
            return
        if not self._choice.revive:
            raise Refused("deleted", "it was deleted in the target. To bring it back, revive it.")
        self._here = self._here._replace(incarnation=tombstone.incarnation + 1)

    async def _resume(self, there: ThreadRow) -> None:
        """Go on behind what has arrived, if it is what the source has; else begin anew."""
        behind = self._target.reading(there, data=False)
        try:
            await self._target.driver.run(behind.rows())
            await self._target.read(behind, there.seq)
        except CheckpointIntegrityError:
            await self._discard(there)
        self.reading.data = False
        await self._source.read(self.reading, there.seq)
        self.reading.data = True
        ours, theirs = self.reading.fingerprint, behind.fingerprint
        if ours.history() != theirs.history():
            await self._discard(there)
        self._streams = dict(zip(ours.streams, theirs.streams, strict=True))
        self._here = self._here._replace(thread=there.thread, incarnation=there.incarnation)
        self._at = there.seq
        self._resumes = True

    async def _discard(self, there: ThreadRow) -> None:
        await self._target.commit(Discard(there))
        raise Moved

    # pieces

    async def _bring_all(self, rows: list[Row], tell: Callable[[int], None]) -> None:
        # Lanes first: whoever writes a checkpoint may want to name its agent.
        ordered = sorted(rows, key=lambda row: not isinstance(row, LaneRow))
        for first in range(0, max(1, len(ordered)), ROWS):
            await self._bring(self._at, rows=tuple(ordered[first : first + ROWS]))
        while steps := await self._source.driver.run(self.reading.steps(self.row.seq)):
            brought = tuple([self._brought(step) for step in steps])
            placed = await self._bring(steps[-1].row.seq, brought=brought)
            self._learn(brought, placed)
            tell(len(steps))

    def _brought(self, step: Step) -> Brought:
        """A checkpoint for the target: other keys, else as it is."""
        known = read_slots(step.row.slots)
        places = {slot.stream: index for index, slot in enumerate(known)}
        slots = tuple([Slot(self._streams.get(s.stream, -s.stream), s.next) for s in known])
        row = step.row._replace(thread=self._here.thread, slots=pack_slots(slots))
        parts = [
            Part(places[spot.stream], spot.number, data, digest, born)
            for spot, born, _, digest, data in step.parts
        ]
        return Brought(row, slots, tuple(parts))

    def _learn(self, given: Sequence[Brought], placed: Sequence[Brought]) -> None:
        """Remember the numbers that new streams got."""
        for old, new in zip(given, placed, strict=True):
            for before, after in zip(old.slots, new.slots, strict=True):
                if before.stream < 0:
                    self._streams[-before.stream] = after.stream

    async def _bring(
        self, seq: int, rows: tuple[Row, ...] = (), brought: tuple[Brought, ...] = ()
    ) -> tuple[Brought, ...]:
        """Write a piece; raises Moved if somebody else has written there."""
        here = self._here._replace(state=ARRIVING, seq=seq)
        keyed = tuple([row._replace(thread=here.thread) for row in rows])
        writes = await self._target.commit(Bring(here, self._at, keyed, brought))
        if writes.thread is None:
            raise Moved
        self._here, self._at = self._here._replace(thread=writes.thread.thread), seq
        return writes.brought

    async def _finish(self) -> None:
        """Compare what has arrived with what was read, and make it visible."""
        arrived = self._here._replace(state=ARRIVING)
        check = self._target.reading(arrived, data=True)
        await self._target.read_all(check)
        same = check.fingerprint.whole(self.row) == self.reading.fingerprint.whole(self.row)
        if await self._source.moved(self.reading):
            raise Moved
        if not same:
            await self._mistaken(arrived)
        writes = await self._target.commit(Bring(self._here._replace(state=LIVE), self._at))
        if writes.thread is None:
            raise Moved

    async def _mistaken(self, arrived: ThreadRow) -> None:
        """Not the same: after going on from an earlier copy that is no wonder, else it is."""
        if self._resumes:
            await self._discard(arrived)
        await self._target.commit(Discard(arrived))
        raise Refused("damaged", "what arrived was not what was read; it was removed again.")


def _difference(row: ThreadRow, there: ThreadRow) -> str:
    if (row.seq, row.newest) != (there.seq, there.newest):
        what = f"it is at @{row.seq} in the source and at @{there.seq} in the target"
    else:
        what = "its rows or states differ"
    return (
        f"it is there already with other content: {what}. To replace it, delete it there and "
        "copy it with revive."
    )
