"""Surveys of a store in Redis: rows as they are stored, and what is left of lost threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastgood.backend import Columns, Footprint, Section, Sheet
from lastgood.backends.redis.queries import Question
from lastgood.backends.redis.rows import HEAD, every, unpacked, unpacked_part
from lastgood.backends.surveys import orphans
from lastgood.reports import Problem
from lastgood.rows import (
    DELETED,
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    RunRow,
    TagRow,
    ThreadRow,
    intact,
)

STRETCH = 512
"""So many rows are weighed at a time."""
_INDEXES: tuple[tuple[str, type], ...] = (
    ("that of ids", CheckpointRow),
    ("when checkpoints expire", CheckpointRow),
    ("what follows what", CheckpointRow),
    ("that of lanes", LaneRow),
)
_KINDS: dict[str, tuple[str, type]] = {
    "lane": ("l", LaneRow),
    "branch": ("b", BranchRow),
    "tag": ("g", TagRow),
    "run": ("r", RunRow),
    "move": ("m", MoveRow),
}


def question(section: Section) -> Question:
    """The question for a section of one thread."""
    key, low, high, limit = section.owner, section.low, section.high, section.limit
    match section.table:
        case "checkpoint":
            return Question("survey_checkpoints", (key, low, high, limit), _checkpoints)
        case "part":
            where = (section.stream, low, high, limit, int(section.data))
            return Question("survey_parts", (key, *where), lambda f: _parts(f, data=section.data))
        case "item":
            return Question("survey_items", (key, low, limit), _rows(ItemRow))
        case "stream":
            return Question("survey_streams", (key,), _streams)
        case "large":
            return Question("survey_large", (key,), _large)
        case table:
            kind, cls = _KINDS[table]
            return Question("survey_rows", (key, kind, low, limit), _rows(cls))


def _rows(cls: type) -> Any:
    return lambda found: Sheet(every(cls, found[0]), _next(found[1]))


def _checkpoints(found: list[Any]) -> Sheet:
    rows = [_placed(int(seq), unpacked(CheckpointRow, data)) for seq, data in found[0]]
    return Sheet(rows, _next(found[1]))


def _placed(seq: int, columns: Columns) -> Columns:
    """A row under the number that it is kept under; without a seal if it says another one."""
    return columns if columns[1] == seq else (columns[0], seq, *columns[2:-1], b"")


def _next(found: bytes | None) -> int | None:
    return None if found is None else int(found)


def _parts(found: list[Any], *, data: bool) -> Sheet:
    rows: list[Columns] = []
    for number, size, part in found[0]:
        born, digest, bytes_ = unpacked_part(part)
        rows.append((int(number), born, size - HEAD, digest, bytes_ if data else None))
    return Sheet(rows, _next(found[1]))


def _streams(found: list[Any]) -> Sheet:
    return Sheet([(int(stream),) for stream in found[0]], None)


def _large(found: list[Any]) -> Sheet:
    rows: list[Columns] = []
    for digest, place in found[0]:
        stream, _, number = place.partition(b":")
        known = stream.isdigit() and number.isdigit()
        rows.append((digest, int(stream), int(number)) if known else (digest, 0, 0))
    return Sheet(rows, None)


def weighed(pieces: list[list[Any]]) -> Footprint:
    """What a thread takes, from what its stretches do."""
    sums = [sum(int(piece[at]) for piece in pieces) for at in range(4)]
    return Footprint(sums[0], sums[1], sums[2], int(pieces[0][5]), sums[3])


def living(key: int, found: list[Any]) -> ThreadRow | None:
    """The row of a thread that is to be found by others."""
    row = None if found[0] is None else intact(ThreadRow, unpacked(ThreadRow, found[0]))
    return row if row is not None and row.live and row.thread == key else None


def problems(key: int, found: list[Any]) -> Iterator[Problem]:
    """What is wrong with a thread as a whole: rows without it, indexes that leave out rows."""
    row, seqs, tables, agree, unindexed = found
    names = [table.decode() for table in tables]
    if row is None:
        if seqs:
            yield orphans("checkpoint", key, sorted(map(int, seqs)), deleted=False)
        yield from (orphans(name, key, (), deleted=False) for name in names)
        return
    columns = unpacked(ThreadRow, row)
    thread = intact(ThreadRow, columns)
    if thread is None and columns[0] not in (key, 0):  # a survey takes it for another one
        message = "its row was changed by something else than Lastgood."
        yield Problem("seal", f"thread #{key}", message)
    if thread is None or thread.thread != key:
        return
    if thread.state == DELETED:
        yield from (orphans(name, key, (), deleted=True) for name in names)
    elif wrong := _wrong(agree, unindexed):
        message = f"an index leaves out rows that are there, or leads to others: {wrong}."
        yield Problem("index", f"thread #{key}", message, repairable=True)


def _wrong(agree: int, unindexed: list[list[bytes]]) -> str:
    """Which indexes leave something out; those of names and numbers are known by their counts."""
    of_rows = zip(_INDEXES, unindexed, strict=True)
    found = [name for (name, cls), rows in of_rows if _any(cls, rows)]
    return ", ".join(found or ([] if agree else ["that of seqs, of ids or of items"]))


def unreachable(key: int, found: list[Any], *, taken: bool) -> Iterator[Problem]:
    """What is wrong with a thread that its key does not lead to, if its row is there."""
    if living(key, found) is None:
        return
    if taken:
        message = "another thread has its key: it is on no list, and cannot be saved to."
        yield Problem("row", f"thread #{key}", message)
    else:
        yield Problem("index", f"thread #{key}", "no key leads to it.", repairable=True)


def _any(cls: Any, found: list[bytes]) -> bool:
    """Whether one of the rows is sound: then it is not the row that is damaged."""
    return any(intact(cls, row) is not None for row in every(cls, found))
