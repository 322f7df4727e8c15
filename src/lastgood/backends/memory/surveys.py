"""Surveys of a store in memory: the shelves as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from lastgood.backend import LAST, Columns, Footprint, Section, Sheet
from lastgood.backends.memory.shelves import Shelves
from lastgood.backends.surveys import gathered, of_tenant, orphans, told
from lastgood.manifest import Spot
from lastgood.reports import Problem
from lastgood.rows import DELETED, LIVE, CheckpointRow, ItemRow, ThreadRow

_STATE = ThreadRow._fields.index("state")
_TENANT = ThreadRow._fields.index("tenant")
_NAME = ThreadRow._fields.index("name")
_SIZE = CheckpointRow._fields.index("size")
_MANIFEST = CheckpointRow._fields.index("manifest")
_VALUE = ItemRow._fields.index("value")


def sheet(shelves: Shelves, tenant: str, section: Section) -> Sheet:
    """One section of a survey."""
    if section.table == "thread":
        return _threads(shelves, tenant, section)
    if section.table in ("checkpoint", "part"):
        return _numbered(shelves, section)
    rest = islice(_counted(shelves, section), section.low, None)
    found, more = gathered(rest, section.limit)
    return Sheet(found, section.low + len(found) if more else None)


def _threads(shelves: Shelves, tenant: str, section: Section) -> Sheet:
    if section.name is not None:
        own = (row for row in shelves.threads.values() if row[_NAME] == section.name)
        return Sheet([row for row in own if row[_TENANT] == tenant], None)
    keys = sorted(key for key in shelves.threads if section.low <= key <= section.high)
    some = keys[: section.limit]
    rows = of_tenant(tenant, section, [shelves.threads[key] for key in some])
    return Sheet(list(rows), some[-1] + 1 if len(keys) > len(some) else None)


def _numbered(shelves: Shelves, section: Section) -> Sheet:
    row: Callable[[int], Columns]
    if section.table == "checkpoint":
        of_thread = shelves.checkpoints.get(section.owner, {})
        numbers, row = _numbers(of_thread, section), of_thread.__getitem__
    else:
        numbers, row = _part_numbers(shelves, section), partial(_part, shelves, section)
    found, more = gathered(map(row, numbers), section.limit)
    return Sheet(found, numbers[len(found) - 1] + 1 if more else None)


def _numbers(found: Iterable[int], section: Section) -> list[int]:
    return sorted(number for number in found if section.low <= number <= section.high)


def _part_numbers(shelves: Shelves, section: Section) -> list[int]:
    if section.high == LAST:
        of_stream = (spot.number for spot in shelves.parts if spot.stream == section.stream)
        return _numbers(of_stream, section)
    wanted = range(section.low, section.high + 1)
    return [number for number in wanted if Spot(section.stream, number) in shelves.parts]


def _part(shelves: Shelves, section: Section, number: int) -> Columns:
    part = shelves.parts[Spot(section.stream, number)]
    return number, part.born, len(part.data), part.digest, part.data if section.data else None


def _counted(shelves: Shelves, section: Section) -> Iterator[Columns]:
    key = section.owner
    if section.table == "stream":
        return ((stream,) for stream, thread in shelves.streams.items() if thread == key)
    if section.table == "large":
        places = shelves.large.items()
        return ((digest, *spot) for (thread, digest), spot in places if thread == key)
    plural = "branches" if section.table == "branch" else f"{section.table}s"
    rows: dict[int, dict[object, Columns]] = getattr(shelves, plural)
    return iter(rows.get(key, {}).values())


def live_threads(shelves: Shelves, tenant: str) -> int:
    """How many threads a tenant has, damaged or not."""
    rows = shelves.threads.values()
    return sum(row[_TENANT] == tenant and row[_STATE] == LIVE for row in rows)


def tenants(shelves: Shelves) -> list[str]:
    """Who has a thread that was not deleted."""
    return told(row[_TENANT] for row in shelves.threads.values() if row[_STATE] != DELETED)


def footprint(shelves: Shelves, thread: int) -> Footprint:
    """What one thread takes."""
    rows: list[Any] = list(shelves.checkpoints.get(thread, {}).values())
    parts = (part for spot, part in shelves.parts.items() if shelves.streams[spot.stream] == thread)
    items: list[Any] = list(shelves.items.get(thread, {}).values())
    return Footprint(
        checkpoints=len(rows),
        logical=sum(row[_SIZE] for row in rows),
        inline=sum(len(row[_MANIFEST]) for row in rows),
        parts=sum(len(part.data) for part in parts),
        items=sum(len(row[_VALUE]) for row in items),
    )


def checkup(shelves: Shelves) -> Iterator[Problem]:
    """Rows of threads that are not there; nothing else can go wrong by itself here."""
    tables: dict[str, dict[int, Any]] = {
        "checkpoint": shelves.checkpoints,
        "lane": shelves.lanes,
        "branch": shelves.branches,
        "move": shelves.moves,
        "tag": shelves.tags,
        "run": shelves.runs,
        "item": shelves.items,
    }
    for table, rows in tables.items():
        for key in (key for key, of_thread in rows.items() if of_thread):
            thread = shelves.threads.get(key)
            if thread is None or thread[_STATE] == DELETED:
                seqs = sorted(rows[key]) if table == "checkpoint" else []
                yield orphans(table, key, seqs, deleted=thread is not None)
