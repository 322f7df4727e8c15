"""What can be asked of a store on a server, as values.

The shared logic of `tables` and `views` is written as plain code over lookups. A store that is a
round trip away cannot answer one lookup after the other, so here a lookup is a query: a value that
is asked for together with others, in one round trip and of one moment. `RemoteTables` runs the
shared logic over the answers, and raises `Need` for the first one that is missing.

An answer is made of rows as they are stored, columns with their seal; None where there is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from lastgood.backend import Columns, ItemListing, Listing, ThreadListing
from lastgood.backends.views import first_page
from lastgood.commits import Place, Scope

K = TypeVar("K")
T = TypeVar("T")

FEW = 3
"""So many checkpoints of a scope are mostly found with its line: they are asked for if not."""


class ThreadName(NamedTuple):
    """A thread by its name."""

    tenant: str
    name: str


@dataclass(frozen=True, slots=True)
class AskLine:
    """A thread, and of an agent the lane, the branch (None: the current one) and its head."""

    place: ThreadName
    agent: str | None = None
    branch: str | None = None


class LineRows(NamedTuple):
    """The answer. `version` counts the commits to the thread: what a commit is checked against."""

    version: int | None = None
    """None: there is no thread of that name, and never was."""
    thread: Columns | None = None
    lane: Columns | None = None
    branch: Columns | None = None
    head: Columns | None = None


@dataclass(frozen=True, slots=True)
class AskVersion:
    """The version of a thread and the seal of its row, of which one changes with every commit.

    None where there is no such thread.
    """

    place: ThreadName


@dataclass(frozen=True, slots=True)
class AskLanes:
    """Every lane of a thread; with `few`, None where it has more than `tables.COUNTED`."""

    place: ThreadName
    few: bool = False


@dataclass(frozen=True, slots=True)
class AskNumbered:
    """Lanes of a thread by their numbers; those that are not there are left out."""

    place: ThreadName
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AskHeads:
    """Every branch of a thread, each with its head: pairs of rows.

    With `few`, None where it has more than `tables.COUNTED`.
    """

    place: ThreadName
    few: bool = False


@dataclass(frozen=True, slots=True)
class AskMove:
    """The newest entry in a lane's log."""

    place: ThreadName
    lane: int


@dataclass(frozen=True, slots=True)
class AskTag:
    """One tag."""

    place: ThreadName
    name: str


@dataclass(frozen=True, slots=True)
class AskTags:
    """Every tag of a thread, by name."""

    place: ThreadName


@dataclass(frozen=True, slots=True)
class AskRun:
    """The newest run of a lane, or of the whole thread."""

    place: ThreadName
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class AskLarge:
    """Where large parts are: triples of digest, stream and number."""

    place: ThreadName
    digests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AskCheckpoints:
    """Checkpoints of a thread by their ids; those that are not there are left out."""

    place: ThreadName
    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AskAt:
    """Checkpoints of a thread by their numbers; those that are not there are left out."""

    place: ThreadName
    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AskAncestors:
    """What a checkpoint follows, nearest first, without itself: past what was removed."""

    place: ThreadName
    id: bytes
    limit: int


@dataclass(frozen=True, slots=True)
class AskChildren:
    """The checkpoints that follow one, or would if what lies between were there."""

    place: ThreadName
    id: bytes


@dataclass(frozen=True, slots=True)
class AskSeqs:
    """Every number of a thread's checkpoints, in order; anything if over `tables.COUNTED`."""

    place: ThreadName


@dataclass(frozen=True, slots=True)
class AskScan:
    """Live checkpoints of a thread, newest first, as the listing wants them."""

    place: ThreadName
    listing: Listing


@dataclass(frozen=True, slots=True)
class AskPlaces:
    """Items of a thread by shelf and key; those that are not there are left out."""

    place: ThreadName
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class AskItemCount:
    """How many items a thread has; anything if it has more than `tables.COUNTED`."""

    place: ThreadName


@dataclass(frozen=True, slots=True)
class AskItems:
    """Items of a thread, as the listing wants them."""

    place: ThreadName
    listing: ItemListing


@dataclass(frozen=True, slots=True)
class AskId:
    """A tenant's checkpoint by its id, with its thread and its lane: None, or an `IdRows`."""

    tenant: str
    id: bytes


class IdRows(NamedTuple):
    """The answer."""

    thread: Columns
    lane: Columns | None
    checkpoint: Columns


@dataclass(frozen=True, slots=True)
class AskThreads:
    """A page of live threads: a list of `PageRows`."""

    tenant: str
    listing: ThreadListing


class PageRows(NamedTuple):
    """A thread on a page; all of it of one moment."""

    thread: Columns
    run: Columns | None
    newest: Columns | None
    """Its last checkpoint, if the listing asks for it."""
    lanes: list[Columns]
    lives: tuple[int, int, int] | None
    """How many checkpoints there are, have a time to live, are over it; for threads with any."""


Query = (
    AskLine
    | AskVersion
    | AskLanes
    | AskNumbered
    | AskHeads
    | AskMove
    | AskTag
    | AskTags
    | AskRun
    | AskLarge
    | AskCheckpoints
    | AskAt
    | AskAncestors
    | AskChildren
    | AskSeqs
    | AskScan
    | AskPlaces
    | AskItemCount
    | AskItems
    | AskId
    | AskThreads
)


class Answers(NamedTuple):
    """What one round trip brought, all of one moment."""

    clock: int
    """The server's, in microseconds."""
    found: Mapping[Query, Any]


def about_history(tenant: str, listing: Listing) -> list[Query]:
    """What a page of a thread's history takes."""
    place = ThreadName(tenant, listing.thread)
    queries: list[Query] = [AskLine(place, listing.agent), AskScan(place, listing)]
    queries += [AskLanes(place, few=True), AskSeqs(place)]
    if listing.before is None:
        queries.append(AskHeads(place, few=True))
    return queries


class Need(Exception):
    """The shared logic came to lookups that were not asked for yet."""

    def __init__(self, *queries: Query) -> None:
        super().__init__(*queries)
        self.queries = queries


def gathered(find: Callable[[K], T], keys: Iterable[K]) -> list[T]:
    """What is found for each of them. What some lack is asked for together, or each would be a
    round.
    """
    found: list[T] = []
    wanted: list[Query] = []
    for key in keys:
        try:
            found.append(find(key))
        except Need as need:
            wanted += need.queries
    if wanted:
        raise Need(*dict.fromkeys(wanted))
    return found


def about_scope(scope: Scope) -> list[Query]:
    """What a look will ask for, as far as it can be known before."""
    place = ThreadName(scope.tenant, scope.thread)
    queries: list[Query] = [AskLine(place, scope.agent, scope.branch)]
    if scope.run:
        queries.append(AskRun(place))
    if scope.tag is not None:
        queries.append(AskTag(place, scope.tag))
    if scope.large:
        queries.append(AskLarge(place, scope.large))
    if scope.items:
        queries += [AskPlaces(place, scope.items), AskItemCount(place)]
    if scope.heads_at:
        queries += [AskHeads(place), AskChildren(place, scope.heads_at)]
    if len(scope.ids) > FEW:
        queries += [AskId(scope.tenant, id) for id in scope.ids]
    return queries


def about_items(
    tenant: str, listings: Sequence[ItemListing], known: Collection[ThreadName] = ()
) -> list[Query]:
    """What lists of items will ask for, beside what else is asked of these threads."""
    places = {ThreadName(tenant, listing.thread) for listing in listings}
    queries: list[Query] = [AskLine(place) for place in places.difference(known)]
    queries += [AskItemCount(place) for place in places]
    queries += [AskItems(ThreadName(tenant, each.thread), first_page(each)) for each in listings]
    return queries
