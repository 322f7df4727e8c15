"""The values of the cross-thread store as items: operations over a `Core`.

A namespace is a hidden thread: committed, listed and removed like any other. Its name spells the
labels, so that what begins with a label begins with its spelling. What is over its time is gone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import ormsgpack
from langgraph.store.base import Item, SearchItem

from lastgood.backend import ItemListing, ThreadEntry, ThreadListing
from lastgood.codec import Codec
from lastgood.commits import Place
from lastgood.core import Core
from lastgood.errors import BackendConnectionError, CheckpointIntegrityError, StorageFullError
from lastgood.item_rules import ChangeItems, ItemDraft, hidden
from lastgood.model import moment
from lastgood.rows import ItemRow
from lastgood.shelving import PAGE, change_items, every_item, list_items

VALUES, VECTORS = "items", "vectors"
_END = "\x1f"
_ESCAPES = {"\x1e": "\x1e0", _END: "\x1e1"}
TOGETHER = 200
Namespace = tuple[str, ...]


def spelled(namespace: Namespace) -> str:
    """The name of a namespace's thread."""
    return "".join(label.translate(_TABLE) + _END for label in namespace)


_TABLE = str.maketrans(_ESCAPES)


def _check_whole(entry: ThreadEntry) -> None:
    """A namespace of which nothing can be told must not seem empty."""
    if entry.damage:
        raise CheckpointIntegrityError(
            f"namespace {labels_of(entry.row.name)!r} is damaged: {entry.damage}",
            hint="`lastgood verify` tells more. What is in other namespaces can be read there.",
        )


def labels_of(name: str) -> Namespace:
    """The namespace behind the name of a thread."""
    labels = name.split(_END)[:-1]
    return tuple(label.replace("\x1e1", _END).replace("\x1e0", "\x1e") for label in labels)


def value_place(key: str) -> Place:
    """Where the value of a key is."""
    return VALUES, key.encode("utf-8", "surrogatepass")


def vector_place(key: str) -> Place:
    """Where its vectors are."""
    return VECTORS, value_place(key)[1]


class Kept(NamedTuple):
    """A stored value, not yet decoded."""

    namespace: Namespace
    row: ItemRow

    @property
    def key(self) -> str:
        return self.row.key.decode("utf-8", "surrogatepass")

    def value(self, codec: Codec) -> dict[str, Any]:
        """What was put; on the caller's thread."""
        return cast("list[Any]", codec.unpack(self.row.value))[0]  # type: ignore[no-any-return]

    def ttl(self, codec: Codec) -> float:
        """Minutes, of a value that has a time to live; what users' classes need is not decoded."""
        found = ormsgpack.unpackb(self.row.value, ext_hook=lambda _code, _data: None)[1]
        return found if found is not None else cast("list[Any]", codec.unpack(self.row.value))[1]  # type: ignore[no-any-return]

    def item(self, codec: Codec) -> Item:
        """As LangGraph knows it."""
        return Item(value=self.value(codec), key=self.key, namespace=self.namespace, **self._times)

    def found(self, value: dict[str, Any], score: float | None) -> SearchItem:
        """As an answer to a search."""
        return SearchItem(self.namespace, self.key, value, **self._times, score=score)

    @property
    def _times(self) -> dict[str, Any]:
        return {
            "created_at": moment(self.row.created_at),
            "updated_at": moment(self.row.updated_at),
        }


class Change(NamedTuple):
    """What is to be put and dropped in one namespace."""

    puts: list[ItemDraft]
    drops: list[Place]


class Keeping:
    """Keeps values in one store."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._tenant = hidden(core.tenant, "store")

    async def get(self, places: Sequence[tuple[Namespace, str]]) -> list[Kept | None]:
        """Values by namespace and key, in the order asked for."""
        listings = [
            ItemListing(spelled(namespace), VALUES, prefix=value_place(key)[1], limit=1)
            for namespace, key in places
        ]
        found = await list_items(self._core, listings, self._tenant) if listings else []
        return [
            Kept(namespace, rows[0]) if rows and rows[0].key == value_place(key)[1] else None
            for (namespace, key), rows in zip(places, found, strict=True)
        ]

    async def below(self, prefix: Namespace) -> list[Kept]:
        """Every value whose namespace begins with some labels."""
        return [kept async for kept in self._shelf(prefix, VALUES)]

    async def vectors(self, prefix: Namespace) -> dict[tuple[Namespace, bytes], bytes]:
        """The vectors of those."""
        found = self._shelf(prefix, VECTORS)
        return {(kept.namespace, kept.row.key): kept.row.value async for kept in found}

    async def _shelf(self, prefix: Namespace, shelf: str) -> AsyncIterator[Kept]:
        names = await self._names(prefix)
        for first in range(0, len(names), TOGETHER):
            some = names[first : first + TOGETHER]
            listings = [ItemListing(name, shelf, limit=PAGE) for name in some]
            pages = await list_items(self._core, listings, self._tenant)
            for name, page, listing in zip(some, pages, listings, strict=True):
                namespace = labels_of(name)
                for row in page:
                    yield Kept(namespace, row)
                if len(page) == PAGE:
                    rest = listing._replace(after=page[-1].key)
                    async for row in every_item(self._core, rest, self._tenant):
                        yield Kept(namespace, row)

    async def _names(self, prefix: Namespace) -> list[str]:
        """The threads of namespaces below a prefix that have something in them, in order."""
        found = [entry async for entry in self._threads(prefix)]
        for entry in found:
            _check_whole(entry)
        return [entry.row.name for entry in found if entry.row.items]

    async def _threads(self, prefix: Namespace) -> AsyncIterator[ThreadEntry]:
        """The threads of namespaces below a prefix, damaged ones too."""
        start = spelled(prefix)
        listing = ThreadListing("name", after=(start[:-1],) if start else (), limit=TOGETHER)
        while True:
            page = await self._core.backend.threads(self._tenant, listing)
            for entry in page:
                if entry.row.name.startswith(start):
                    yield entry
                elif entry.row.name > start:
                    return
            if len(page) < TOGETHER:
                return
            listing = listing._replace(after=(page[-1].row.name,))

    async def namespaces(self) -> list[Namespace]:
        """Every namespace with something in it."""
        names = await self._names(())
        found: list[Namespace] = []
        for first in range(0, len(names), TOGETHER):
            some = names[first : first + TOGETHER]
            listings = [ItemListing(name, VALUES, limit=1) for name in some]
            pages = await list_items(self._core, listings, self._tenant)
            found += [labels_of(name) for name, page in zip(some, pages, strict=True) if page]
        return found

    async def change(self, changes: Mapping[Namespace, Change]) -> None:
        """Put and drop values, all of a namespace or none."""
        for namespace, change in changes.items():
            intent = ChangeItems(
                self._tenant, spelled(namespace), tuple(change.puts), tuple(change.drops)
            )
            await change_items(self._core, intent)

    async def refresh(self, read: Sequence[Kept]) -> None:
        """Begin the time of values anew that were read, unless somebody has changed them since.

        They are read all the same where nothing can be written: a store that is full, or that this
        client may only read.
        """
        timed: dict[Namespace, list[Kept]] = {}
        for kept in read:
            if kept.row.expires_at is not None:
                timed.setdefault(kept.namespace, []).append(kept)
        try:
            for some in timed.values():
                if not await self._begin_anew(some) and len(some) > 1:
                    for kept in some:
                        await self._begin_anew([kept])
        except (BackendConnectionError, StorageFullError):
            return

    async def _begin_anew(self, some: Sequence[Kept]) -> bool:
        """Begin the time of values of one namespace anew, if all of them are as they were read."""
        drafts = tuple(
            ItemDraft(
                *kept.row.place, kept.row.value, ttl=kept.ttl(self._core.codec) * 60, quiet=True
            )
            for kept in some
        )
        expected = {kept.row.place: kept.row.value for kept in some}
        name = spelled(some[0].namespace)
        intent = ChangeItems(self._tenant, name, drafts, expected=expected, opens=False)
        return (await change_items(self._core, intent)).done

    async def sweep(self) -> int:
        """Remove what is over its time; gives the number of values."""
        count = 0
        names = [each.row.name async for each in self._threads(()) if each.row.items]
        for name in names:
            count += await self._sweep(name)
        return count

    async def _sweep(self, name: str) -> int:
        count = 0
        while True:
            listing = ItemListing(name, VALUES, over=True, limit=PAGE)
            (page,) = await list_items(self._core, [listing], self._tenant)
            drops = [place for row in page for place in (row.place, (VECTORS, row.key))]
            if not drops:
                return count
            await change_items(self._core, ChangeItems(self._tenant, name, drops=tuple(drops)))
            count += len(page)
