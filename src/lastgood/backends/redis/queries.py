"""Queries as questions for the script that answers them, and what becomes of its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lastgood.backend import Columns, ItemListing, Listing
from lastgood.backends.redis.keys import item_name
from lastgood.backends.redis.rows import every, optional, pointer, unpacked
from lastgood.backends.redis.wire import Word
from lastgood.backends.remote.queries import (
    AskAncestors,
    AskAt,
    AskCheckpoints,
    AskChildren,
    AskHeads,
    AskId,
    AskItemCount,
    AskItems,
    AskLanes,
    AskLarge,
    AskLine,
    AskMove,
    AskNumbered,
    AskPlaces,
    AskRun,
    AskScan,
    AskSeqs,
    AskTag,
    AskTags,
    IdRows,
    LineRows,
    PageRows,
    Query,
)
from lastgood.backends.remote.rows import to_bytes
from lastgood.backends.tables import COUNTED
from lastgood.backends.views import span
from lastgood.errors import CheckpointIntegrityError
from lastgood.rows import (
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    RunRow,
    TagRow,
    ThreadRow,
)

TOP = (1 << 63) - 1
SEQS = 1023
"""A thread with more checkpoints is not counted one by one: so many tell that it has more."""

_ID, _THREAD, _LANE, _NUMBER = (
    CheckpointRow._fields.index("id"),
    CheckpointRow._fields.index("thread"),
    RunRow._fields.index("lane"),
    RunRow._fields.index("number"),
)


class Question(NamedTuple):
    """A question to the script, and how its answer is read."""

    word: str
    args: tuple[Word, ...]
    parse: Callable[[Any], Any]

    @property
    def words(self) -> tuple[Word, ...]:
        """As the script takes it."""
        return (self.word, len(self.args), *self.args)


def question(query: Query) -> Question:  # noqa: C901, PLR0911, PLR0912
    """The question for a query about one thread."""
    match query:
        case AskLine(_, agent, branch):
            return Question("line", (_optional(agent), _optional(branch)), _line)
        case AskLanes(_, few):
            return Question("lanes", (COUNTED,) if few else (), _lanes)
        case AskNumbered(_, numbers):
            return Question("numbered", numbers, lambda found: every(LaneRow, found))
        case AskTags():
            return Question("rows", ("g",), _tags)
        case AskHeads(_, few):
            return Question("heads", (COUNTED,) if few else (), _heads)
        case AskTag(_, name):
            return Question("row", (b"g" + to_bytes(name),), lambda row: optional(TagRow, row))
        case AskMove(_, lane):
            return Question("move", (lane,), lambda row: optional(MoveRow, row))
        case AskRun(_, lane):
            return Question("run", ("" if lane is None else lane,), lambda f: newest_run(f, lane))
        case AskLarge(_, digests):
            return Question("large", digests, lambda found: [_large(*pair) for pair in found])
        case AskCheckpoints(_, ids):
            return Question("checkpoints", ids, _by_ids)
        case AskAt(_, seqs):
            return Question("at", tuple(min(seq, TOP) for seq in seqs), _checkpoints)
        case AskAncestors(_, id, limit):
            return Question("ancestors", (id, limit), _checkpoints)
        case AskChildren(_, id):
            return Question("children", (id,), _checkpoints)
        case AskSeqs():
            return Question("seqs", (SEQS,), lambda found: [int(seq) for seq in found])
        case AskScan(_, listing):
            return Question("scan", _scan(listing), _checkpoints)
        case AskPlaces(_, places):
            names = tuple(item_name(*place) for place in places)
            return Question("items_at", names, lambda found: every(ItemRow, found))
        case AskItemCount():
            return Question("item_count", (), min)
        case AskItems(_, listing):
            return Question("items", _items(listing), lambda found: every(ItemRow, found))
        case AskId(_, id):
            return Question("by_id", (id,), lambda found: _by_id(found, id))
        case _:
            raise TypeError(f"not about one thread: {query!r}")


def _optional(value: str | int | None) -> bytes:
    return b"-" if value is None else b"=" + to_bytes(str(value))


def _checkpoints(found: list[bytes]) -> list[Columns]:
    return every(CheckpointRow, found)


def _line(found: list[Any]) -> LineRows:
    version, thread, *rest = found
    if version is None:
        if thread is not None:
            raise torn("a thread")
        return LineRows()
    lane, branch, head = rest
    if not version.isdigit():
        raise CheckpointIntegrityError("the version of a thread is damaged.")
    return LineRows(
        int(version),
        unpacked(ThreadRow, thread),
        optional(LaneRow, lane),
        optional(BranchRow, branch),
        optional(CheckpointRow, head),
    )


def torn(which: str) -> CheckpointIntegrityError:
    """What is said of a thread that is there without its row."""
    return CheckpointIntegrityError(
        f"the row of {which} is missing, while other rows of it are there.",
        hint="`lastgood verify` tells what is left. Restore from a copy of the store, or delete "
        "the thread and begin it anew.",
    )


def _lanes(found: list[bytes] | None) -> list[Columns] | None:
    if found is None:
        return None
    return sorted(every(LaneRow, found), key=lambda row: (type(row[1]) is not int, str(row[1])))


def _tags(found: list[bytes]) -> list[Columns]:
    return sorted(every(TagRow, found), key=lambda row: str(row[1]))


def _heads(found: list[list[Any]] | None) -> list[tuple[Columns, Columns | None]] | None:
    if found is None:
        return None
    return [(unpacked(BranchRow, b), optional(CheckpointRow, head)) for b, head in found]


def newest_run(found: list[Any], lane: int | None) -> Columns | None:
    """A run that a pointer leads to; the pointer has a seal of its own."""
    lead, row = found
    if lead is None:
        return None
    columns = optional(RunRow, row)
    if columns is None or lead != _lead(columns, lane):
        raise CheckpointIntegrityError("the index of runs is damaged, or a run is lost.")
    return columns


def _lead(columns: Columns, lane: int | None) -> bytes | None:
    key, of, number = columns[0], columns[_LANE], columns[_NUMBER]
    if not isinstance(key, int) or not isinstance(number, int) or lane not in (None, of):
        return None
    return pointer(key, lane, number)


def _large(digest: bytes, place: bytes) -> tuple[bytes, int, int]:
    stream, _, number = place.partition(b":")
    return digest, int(stream), int(number)


def _by_ids(found: list[list[bytes]]) -> list[Columns]:
    rows = [(id, unpacked(CheckpointRow, row)) for id, row in found]
    return [_of_id(id, row) for id, row in rows]


def _of_id(id: bytes, row: Columns) -> Columns:
    """A row that was found by an id; the same with that id if it is damaged, so that it is met."""
    return row if row[_ID] == id else (*row[:_ID], id, *row[_ID + 1 : -1], b"")


_LOST = {
    b"lost": "is lost: only its index knows it.",
    b"unsure": "may be lost: rows of the thread that had it are missing.",
}


def _by_id(found: list[Any] | None, id: bytes) -> IdRows | None:
    if found is None:
        return None
    if len(found) == 1:
        raise CheckpointIntegrityError(f"checkpoint {id.hex()} {_LOST[found[0]]}")
    thread, lane, checkpoint = found
    if thread is None:
        raise CheckpointIntegrityError(
            f"the row of the thread that has checkpoint {id.hex()} is missing."
        )
    row = _of_id(id, unpacked(CheckpointRow, checkpoint))
    return IdRows(unpacked(ThreadRow, thread), optional(LaneRow, lane), row)


def _scan(listing: Listing) -> tuple[Word, ...]:
    high = "+inf" if listing.before is None else f"({min(listing.before, TOP)}"
    low = "-inf" if listing.above is None else f"({min(listing.above, TOP)}"
    names = map(_optional, (listing.agent, listing.branch, listing.step_name))
    return (*names, _optional(listing.since), _optional(listing.until), high, low, listing.limit)


def _items(listing: ItemListing) -> tuple[Word, ...]:
    low, high = span(listing)
    first = b"[" + item_name(listing.shelf, low)
    if high is None:
        last = b"(" + _past_shelf(listing.shelf)
    else:
        last = b"(" + item_name(listing.shelf, high)
    contains = b"-" if listing.contains is None else b"=" + to_bytes(listing.contains)
    which = "every" if listing.every else "over" if listing.over else "live"
    return (first, last, contains, which, int(listing.reverse), listing.offset, listing.limit)


def _past_shelf(shelf: str) -> bytes:
    """The first name behind all of a shelf's."""
    name = bytearray(item_name(shelf, b""))
    at = len(name) - 1
    while name[at] == 0xFF:
        at -= 1
    name[at] += 1
    return bytes(name[: at + 1])


def page(found: list[Any]) -> PageRows:
    """A thread on a page of a list."""
    thread, run, newest, lanes, lives = found
    return PageRows(
        thread=unpacked(ThreadRow, thread),
        run=optional(RunRow, run),
        newest=optional(CheckpointRow, newest),
        lanes=every(LaneRow, lanes),
        lives=(lives[0], lives[1], lives[2]) if lives[1] else None,
    )
