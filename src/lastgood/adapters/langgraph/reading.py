"""Reading checkpoints by alias, the newest of a namespace, lists, lines: operations over a `Core`.

Order is that of seq, parents are followed by their aliases. What comes back is read and verified
but not yet turned into values: that is for the caller's thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from lastgood.adapters.graph_names import REVISED, WRITES, Spot, namespace_of
from lastgood.adapters.langgraph.memory import Entry, Memory
from lastgood.adapters.langgraph.parking import may_be_parked, take_over
from lastgood.adapters.langgraph.shapes import Context, Shape, is_ours, read_writes
from lastgood.alias_rules import SHELF, Alias, found_alias, read_alias
from lastgood.backend import ItemListing, Listing, Located, ThreadListing
from lastgood.building import build_state
from lastgood.checkpoints import read_mapping
from lastgood.codec import Codec
from lastgood.commits import Place, Scope
from lastgood.core import Core
from lastgood.errors import CheckpointIntegrityError
from lastgood.manifest import Stored
from lastgood.rows import CheckpointRow, ItemRow
from lastgood.shelving import PAGE, every_item, list_items, tip_and_items

TOGETHER = 50
"""So many checkpoints are looked at in one read."""


class Raw(NamedTuple):
    """A checkpoint as it was read: nothing is decoded but its context."""

    spot: Spot
    context: Context
    located: Located | None
    stored: Stored | None
    writes: list[ItemRow]
    parent: str | None
    stub: bytes = b""

    def shape(self, codec: Codec) -> Shape:
        """The values; on the caller's thread."""
        writes = read_writes(codec, self.writes)
        if self.located is None or self.stored is None:
            values, metadata = read_stub(codec, self.stub)[1:]
        else:
            values = build_state(codec, self.stored.tree)
            metadata = read_mapping(codec, self.located.row.metadata)
        return Shape(self.spot, self.context, values, metadata, writes, self.parent)


def read_stub(codec: Codec, stub: bytes) -> tuple[Context, Any, Any]:
    """Context, channel values and metadata of what is left of a checkpoint."""
    fields, values, metadata = cast("list[Any]", codec.unpack(stub))
    return Context.given(fields), values, metadata


class Row(NamedTuple):
    """A checkpoint that a list has come to."""

    located: Located
    spot: Spot
    context: Context


class Wanted(NamedTuple):
    """Which checkpoints a list shows."""

    metadata: Mapping[str, Any]
    older_than: str | None = None


Writes = list[list[ItemRow]]
"""The writes of some checkpoints, one list each."""


class Reading:
    """Reads checkpoints from one store."""

    def __init__(self, core: Core, memory: Memory) -> None:
        self._core = core
        self._memory = memory

    # single checkpoints

    async def head(self, spot: Spot) -> Row | None:
        """The head of the namespace's current branch; no values."""
        return await self._own(spot, await self._core.tip(spot.thread, spot.lane))

    async def _own(self, spot: Spot, tip: Located | None) -> Row | None:
        """The tip of a lane; if somebody else saved it, the newest that a graph put, on its branch
        or else on another one.
        """
        if tip is None or is_ours(tip):
            return None if tip is None else self.row(tip)
        for branch in (tip.row.branch, None):
            listing = Listing(spot.thread, agent=spot.lane, branch=branch)
            while page := await self._core.backend.history(self._core.tenant, listing):
                for one in page:
                    if one.agent == spot.lane and is_ours(one) and not one.expired:
                        return self.row(one)
                listing = listing._replace(before=page[-1].row.seq)
        return None

    async def latest(self, spot: Spot) -> Raw | None:
        """The same with its values."""
        head, writes = await self._head_with_writes(spot)
        if head is None and not spot.namespace:
            self._memory.leave(spot.thread)
        return (await self._loaded([head], writes))[0] if head else None

    async def _head_with_writes(self, spot: Spot) -> tuple[Row | None, Writes | None]:
        """The head, and its writes if it is the checkpoint that was put or read last."""
        last = self._memory.last(spot)
        if last is None:
            return await self.head(spot), None
        listing = _of_writes(spot.thread, spot.prefix(last))
        try:
            tip, writes = await tip_and_items(self._core, spot.lane, listing)
        except CheckpointIntegrityError:  # of what is not the head any more, it may be
            return await self.head(spot), None
        head = await self._own(spot, tip)
        is_last = head is not None and head.context.id == last and len(writes) < PAGE
        return head, [writes] if is_last else None

    async def by_id(self, spot: Spot, id: str) -> Raw | None:
        """The checkpoint, or the stub, under an alias."""
        found = await self.named(spot, id)
        return (await self._loaded([found]))[0] if isinstance(found, Row) else found

    async def _stub(self, spot: Spot, alias: Alias) -> Raw:
        context = read_stub(self._core.codec, alias.stub)[0]
        writes = await self._writes(spot.thread, [spot.prefix(context.id)])
        return Raw(spot, context, None, None, writes[0], context.parent, alias.stub)

    async def aliases(self, thread: str, places: Sequence[Place]) -> dict[Place, Alias]:
        """What aliases of a thread name."""
        found = await self._core.backend.look(
            Scope(self._core.tenant, thread, items=tuple(dict.fromkeys(places)))
        )
        named = {place: found_alias(found, place) for place in places}
        return {place: alias for place, alias in named.items() if alias is not None}

    def row(self, located: Located) -> Row:
        """A row of ours with its names."""
        context = Context.read(self._core.codec, located.row)
        return Row(located, Spot(located.session, namespace_of(located.agent) or ""), context)

    async def _loaded(self, rows: Sequence[Row], writes: Writes | None = None) -> list[Raw]:
        """States and writes of rows of one thread, newest first; the writes may be known."""
        if not rows:
            return []
        if writes is None:
            if any(map(self._may_lack, rows)):
                await take_over(self._core, rows[0].spot.thread)
            prefixes = [row.spot.prefix(row.context.id) for row in rows]
            writes = await self._writes(rows[0].spot.thread, prefixes)
        raws: list[Raw] = []
        near: Stored | None = None
        for row, pending in zip(rows, writes, strict=True):
            loaded = await self._core.load(row.located, near=near)
            near = loaded.stored
            parent = await self.parent_of(row)
            raws.append(Raw(row.spot, row.context, row.located, near, pending, parent))
            self._memory.put(row.spot, row.context.id, Entry.of(row.located.row, row.context))
        return raws

    def _may_lack(self, row: Row) -> bool:
        """Whether a checkpoint may have parked writes; not if it was put or read here before."""
        first = may_be_parked(row.spot, row.context.parent, row.located.row.seq)
        return first and self._memory.get(row.spot, row.context.id) is None

    async def _writes(self, thread: str, prefixes: Sequence[bytes]) -> Writes:
        """The writes of checkpoints."""
        listings = [_of_writes(thread, prefix) for prefix in prefixes]
        found = await list_items(self._core, listings)
        for number, rows in enumerate(found):
            if len(rows) == PAGE:
                after = listings[number]._replace(after=rows[-1].key)
                rows.extend([row async for row in every_item(self._core, after)])
        return found

    async def parent_of(self, row: Row) -> str | None:
        """The alias of what a checkpoint follows, or of the nearest that is left of its line."""
        parent, found = row.context.parent, row.located.row
        if parent is None or not found.parent_gone:
            return parent
        place = row.spot.alias(parent)
        if place in await self.aliases(row.spot.thread, [place]):
            return parent
        before = (await self._core.backend.find(self._core.tenant, [found.before])).get(
            found.before
        )
        return self.row(before).context.id if before and is_ours(before) else None

    # lists

    async def threads(self) -> AsyncIterator[str]:
        """The names of all threads, last touched first."""
        listing = ThreadListing(limit=200)
        while True:
            page = await self._core.backend.threads(self._core.tenant, listing)
            for entry in page:
                yield entry.row.name
            if len(page) < listing.limit:
                return
            last = page[-1].row
            listing = listing._replace(after=(last.active, last.thread))

    async def spots(self, thread: str) -> list[Spot]:
        """The namespaces of a thread."""
        outline = await self._core.backend.outline(self._core.tenant, thread, only="lanes")
        names = [namespace_of(lane.agent) for lane in outline.lanes] if outline else []
        return [Spot(thread, name) for name in names if name is not None]

    async def place_of(self, spot: Spot, id: str) -> int | None:
        """The seq at which lists have a checkpoint."""
        found = await self.aliases(spot.thread, [spot.alias(id)])
        return found[spot.alias(id)].seq if found else None

    async def page(
        self, listing: Listing, wanted: Wanted, limit: int | None
    ) -> tuple[list[Raw], Listing | None]:
        """The next checkpoints of a thread, newest first, and where to go on."""
        located = await self._core.backend.history(self._core.tenant, listing)
        rows = await self._listed(listing.thread, [one for one in located if is_ours(one)])
        fit = (r for r in rows if self.is_wanted(r.context.id, r.located.row, wanted))
        kept = list(islice(fit, limit))
        more = len(located) == listing.limit
        following = listing._replace(before=located[-1].row.seq) if more else None
        return await self._loaded(kept), following

    def is_wanted(self, id: str, row: CheckpointRow, wanted: Wanted) -> bool:
        """Whether a checkpoint is old enough and has all of the metadata; True is not 1."""
        if wanted.older_than is not None and id >= wanted.older_than:
            return False
        if not wanted.metadata:
            return True
        stored = read_mapping(self._core.codec, row.metadata)
        return all(
            key in stored and _same(stored[key], value) for key, value in wanted.metadata.items()
        )

    async def _listed(self, thread: str, located: Sequence[Located]) -> list[Row]:
        """Each checkpoint once: its newest revision, in the place of the first."""
        rows = [self.row(one) for one in located]
        places = [row.spot.alias(row.context.id) for row in rows]
        aliases = await self.aliases(thread, places) if places else {}
        newest = {
            alias.id
            for row, place in zip(rows, places, strict=True)
            if (alias := aliases.get(place)) and alias.seq == row.located.row.seq
        }
        by_id = {row.located.row.id: row for row in rows}
        elsewhere = [id for id in newest if id not in by_id]
        if elsewhere:
            found = await self._core.backend.find(self._core.tenant, elsewhere)
            by_id |= {id: self.row(one) for id, one in found.items()}
        return [
            by_id[alias.id]
            for row, place in zip(rows, places, strict=True)
            if (alias := aliases.get(place))
            and alias.seq == row.located.row.seq
            and alias.id in by_id
        ]

    # lines

    async def line(self, start: Row | Raw) -> AsyncIterator[Row | Raw]:
        """A checkpoint or a stub, and what it follows by its parents' aliases, nearest first."""
        visited: set[str] = set()
        revised = await self.revised(start.spot.thread)
        found = await self._from(start, revised)
        while found:
            last, wanted = found[0], found[0].context.id
            for each in found:
                if each.context.id == wanted and wanted not in visited:
                    visited.add(wanted)
                    yield each
                    last, parent = each, await self.parent_alias(each)
                    if parent is None:
                        return
                    wanted = parent
            if wanted in visited:
                return
            found = await self._further(found, last, wanted, revised)

    async def ancestors(self, start: Row | Raw) -> AsyncIterator[Row | Raw]:
        """The same without the checkpoint itself."""
        async for each in self.line(start):
            if each.context.id != start.context.id:
                yield each

    async def _from(self, start: Row | Raw | None, revised: set[bytes]) -> Sequence[Row | Raw]:
        """A checkpoint and those before it, or a stub."""
        if isinstance(start, Row):
            return await self._line(start.spot, start.located.row.id, revised)
        return [] if start is None else [start]

    async def _further(
        self, found: Sequence[Row | Raw], last: Row | Raw, wanted: str, revised: set[bytes]
    ) -> Sequence[Row | Raw]:
        """What follows behind the last one: mostly what our own line goes on with."""
        if isinstance(last, Row) and last is found[-1] and last.located.row.before and not revised:
            rows = await self._line(last.spot, last.located.row.before, revised)
            if rows and rows[0].context.id == wanted:
                return rows
        return await self._from(await self.named(last.spot, wanted), revised)

    async def _line(self, spot: Spot, id: bytes, revised: set[bytes]) -> list[Row]:
        """A checkpoint and the next ones on our own line, which mostly is LangGraph's too.

        Without those that a revision has replaced: it may follow others, and has other values.
        """
        line = await self._core.backend.lineage(self._core.tenant, id, TOGETHER)
        lane, codec = spot.lane, self._core.codec
        rows = [
            Row(one, spot, Context.read(codec, one.row))
            for one in line
            if one.agent == lane and is_ours(one)
        ]
        if not revised:
            return rows
        places = {row.located.row.id: row.spot.alias(row.context.id) for row in rows}
        doubtful = [place for place in places.values() if place[1] in revised]
        aliases = await self.aliases(spot.thread, doubtful) if doubtful else {}
        return [
            row
            for row in rows
            if (alias := aliases.get(places[row.located.row.id])) is None
            or row.located.row.id in (alias.id, id)
        ]

    async def revised(self, thread: str) -> set[bytes]:
        """The keys of the aliases under which something was put more than once: mostly none."""
        listing = ItemListing(thread, REVISED)
        return {row.key async for row in every_item(self._core, listing)}

    async def parent_alias(self, found: Row | Raw) -> str | None:
        """The alias of what a checkpoint or a stub follows."""
        return found.parent if isinstance(found, Raw) else await self.parent_of(found)

    async def named(self, spot: Spot, id: str) -> Row | Raw | None:
        """The checkpoint, or the stub, under an alias; of a checkpoint no values."""
        place = spot.alias(id)
        alias = (await self.aliases(spot.thread, [place])).get(place)
        if alias is None:
            return None
        if alias.stub:
            return await self._stub(spot, alias)
        found = (await self._core.backend.find(self._core.tenant, [alias.id])).get(alias.id)
        return self.row(found) if found else None

    async def writes_of(self, spot: Spot, ids: Sequence[str]) -> list[list[ItemRow]]:
        """The writes of checkpoints of one line, one list each.

        LangGraph's ids grow with time, so on a line there is little else between the first and the
        last: all of that is read at once, as long as it is mostly what is wanted.
        """
        prefixes = [spot.prefix(id) for id in ids]
        found: dict[bytes, list[ItemRow]] = {prefix: [] for prefix in prefixes}
        length, low, high = len(min(found)), min(found), max(found) + b"\xff"
        if any(len(prefix) != length for prefix in found):
            return await self._writes(spot.thread, prefixes)
        while True:
            listing = ItemListing(spot.thread, WRITES, after=low, before=high, limit=PAGE)
            [page] = await list_items(self._core, [listing])
            wanted = [row for row in page if row.key[:length] in found]
            for row in wanted:
                found[row.key[:length]].append(row)
            if len(page) < PAGE:
                return [found[prefix] for prefix in prefixes]
            if len(wanted) < PAGE // 4:
                return await self._writes(spot.thread, prefixes)
            low = page[-1].key

    async def write_places(self, thread: str, aliases: Sequence[Place]) -> list[Place]:
        """Where the writes are of the checkpoints behind some aliases."""
        places: list[Place] = []
        for first in range(0, len(aliases), TOGETHER):
            prefixes = [key for _, key in aliases[first : first + TOGETHER]]
            found = await self._writes(thread, prefixes)
            places += [write.place for writes in found for write in writes]
        return places

    async def every_alias(self, thread: str) -> dict[Place, Alias]:
        """What all aliases of a thread name."""
        listing = ItemListing(thread, SHELF)
        return {row.place: read_alias(row) async for row in every_item(self._core, listing)}


def _same(stored: object, value: object) -> bool:
    return stored == value and isinstance(stored, bool) == isinstance(value, bool)


def _of_writes(thread: str, prefix: bytes) -> ItemListing:
    return ItemListing(thread, WRITES, prefix=prefix, limit=PAGE)
