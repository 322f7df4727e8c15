"""The file of a thread: every row of it but the checkpoints, and which of their files count.

Pure. It is the commit point: a save puts the checkpoint's file into its place first and this one
last, so a file that this one does not account for was never committed, or was removed.

    thread              the thread's row; null until the first commit
    lanes ... runs      its rows
    streams             its streams, and the highest number that was given to a page in each
    large               where large pages are, by digest, and in which checkpoint
    items               which file of a shelf counts, by its number
    changes             how often items were changed
    orphans             checkpoints that lost what they followed: fallback and seal of their rows
    removed             checkpoints whose files may still be there
    seal                over all of these but rows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from lastgood.backends.files.rows import Columns, read_columns, spelled
from lastgood.codec import text
from lastgood.errors import CheckpointIntegrityError, LastgoodError
from lastgood.integrity import seal
from lastgood.manifest import Spot
from lastgood.rows import BranchRow, LaneRow, MoveRow, RunRow, TagRow, ThreadRow

FORMAT = 1
ROWS: dict[str, type] = {
    "lanes": LaneRow,
    "branches": BranchRow,
    "moves": MoveRow,
    "tags": TagRow,
    "runs": RunRow,
}


class Large(NamedTuple):
    """Where a large page is, and the checkpoint that brought it."""

    spot: Spot
    seq: int


class Orphan(NamedTuple):
    """What changed in the row of a checkpoint when what it follows was removed."""

    fallback: bytes
    seal: bytes


@dataclass(frozen=True, slots=True)
class ThreadFile:
    """What the file of a thread says."""

    thread: Columns | None = None
    tables: Mapping[str, tuple[Columns, ...]] = field(default_factory=dict)
    streams: Mapping[int, int] = field(default_factory=dict)
    large: Mapping[bytes, Large] = field(default_factory=dict)
    items: Mapping[str, int] = field(default_factory=dict)
    changes: int = 0
    orphans: Mapping[int, Orphan] = field(default_factory=dict)
    removed: tuple[int, ...] = ()


def file_of(thread: ThreadFile) -> bytes:
    """The file."""
    accounts = _accounts(thread)
    document = {
        "lastgood": FORMAT,
        "thread": spelled(ThreadRow, thread.thread) if thread.thread else None,
        **{
            name: [spelled(cls, row) for row in thread.tables.get(name, ())]
            for name, cls in ROWS.items()
        },
        **accounts,
        "seal": _seal(accounts),
    }
    return f"{text.lines(document)}\n".encode()


def _accounts(thread: ThreadFile) -> dict[str, Any]:
    return {
        "streams": [list(each) for each in thread.streams.items()],
        "large": [[digest.hex(), *at.spot, at.seq] for digest, at in thread.large.items()],
        "items": [list(each) for each in thread.items.items()],
        "changes": thread.changes,
        "orphans": [
            [seq, orphan.fallback.hex(), orphan.seal.hex()]
            for seq, orphan in thread.orphans.items()
        ],
        "removed": list(thread.removed),
    }


def _seal(accounts: Mapping[str, object]) -> str:
    return seal("files", list(accounts.values())).hex()


def read(raw: bytes, where: str) -> ThreadFile:
    """What a file says; CheckpointIntegrityError if it is damaged beyond single rows."""
    try:
        document = text.parse(raw.decode())
        if document["lastgood"] != FORMAT:
            raise ValueError(f"its format is {document['lastgood']!r}")
        found = _read(document)
        _check_types(found)
        if _seal(_accounts(found)) != document["seal"]:
            raise ValueError("it was changed by something else than Lastgood.")
    except (LastgoodError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointIntegrityError(
            f"{where} is damaged: {error}", hint="Put back a copy of the file."
        ) from error
    return found


def _check_types(found: ThreadFile) -> None:
    """Names of files are made of these, so a right seal does not excuse another type."""
    if found.thread is not None and type(found.thread[0]) is not int:
        raise ValueError("the key of the thread is no number.")
    if any(type(shelf) is not str for shelf in found.items):
        raise ValueError("the name of a shelf is no text.")
    if any(type(number) is not int for number in _numbers(found)):
        raise ValueError("what stands for a number is none.")


def _numbers(found: ThreadFile) -> Iterator[object]:
    yield found.changes
    yield from chain.from_iterable(found.streams.items())
    yield from chain.from_iterable((*at.spot, at.seq) for at in found.large.values())
    yield from chain(found.items.values(), found.orphans, found.removed)


def _read(document: Any) -> ThreadFile:
    row = document["thread"]
    return ThreadFile(
        thread=None if row is None else read_columns(ThreadRow, row),
        tables={
            name: tuple([read_columns(cls, row) for row in document[name]])
            for name, cls in ROWS.items()
        },
        streams=dict(document["streams"]),
        large={
            bytes.fromhex(digest): Large(Spot(stream, number), seq)
            for digest, stream, number, seq in document["large"]
        },
        items=dict(document["items"]),
        changes=document["changes"],
        orphans={
            seq: Orphan(bytes.fromhex(fallback), bytes.fromhex(sealed))
            for seq, fallback, sealed in document["orphans"]
        },
        removed=tuple(document["removed"]),
    )
