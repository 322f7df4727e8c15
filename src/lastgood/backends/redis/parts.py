"""Parts on their way to and from Redis: ranges in pieces of a thousand, large changes staged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from lastgood.backend import Extents
from lastgood.backends.redis.changes import GROUP, STAGED, Staged, part_pairs
from lastgood.backends.redis.hints import Hints
from lastgood.backends.redis.keys import Keys, part_field
from lastgood.backends.redis.rows import StoredPart, unpacked_part
from lastgood.backends.redis.scripts import STAGE
from lastgood.backends.redis.wire import Command, Wire, Word
from lastgood.backends.remote.changes import Change
from lastgood.errors import LastgoodError, StorageFullError

STAGING_SECONDS = 60
"""How long parts that were sent before their commit are kept."""
FETCHED = 1000
"""So many parts of a range are asked for at a time."""


async def fetched(
    wire: Wire, keys: Keys, hints: Hints, ranges: Sequence[Extents]
) -> list[list[StoredPart]]:
    """The parts of each range; one of which a part is missing comes back short."""
    tags = await hints.tags({extent.thread for extent in ranges})
    found: list[list[StoredPart]] = [[] for _ in ranges]
    left = [n for n, extent in enumerate(ranges) if extent.thread in tags]
    while left:
        pieces = {n: _piece(keys, ranges[n], tags, len(found[n])) for n in left}
        replies = await wire.send(list(pieces.values()))
        left = []
        for (number, piece), reply in zip(pieces.items(), replies, strict=True):
            there = [unpacked_part(part) for part in reply if part is not None]
            found[number] += there
            if len(there) == len(piece) - 2 and len(found[number]) < ranges[number].length:
                left.append(number)
    return found


def _piece(keys: Keys, extent: Extents, tags: dict[int, str], done: int) -> Command:
    stream, first = extent.first
    count = min(FETCHED, extent.length - done)
    fields = (part_field(stream, first + done + n) for n in range(count))
    return ("HMGET", f"{keys.thread(tags[extent.thread])}:p", *fields)


async def staged(wire: Wire, thread: str, change: Change) -> Staged | None:
    """Send the parts of a large change before its commit, in pieces that no server minds."""
    if sum(len(part.data) for part in change.parts) <= STAGED:
        return None
    made = Staged(f"{thread}:w:{os.urandom(8).hex()}", len(change.parts))
    for piece in _pieces(part_pairs(change)):
        await _or_away(wire, made, STAGE.call(made.key, STAGING_SECONDS, *piece))
    return made


async def committed(wire: Wire, made: Staged | None, commit: Command) -> bytes:
    """What became of a commit; what was sent before one that is refused is freed at once."""
    outcome: bytes = await _or_away(wire, made, commit)
    if outcome != b"done":
        await _away(wire, made)
    return outcome


async def _or_away(wire: Wire, made: Staged | None, command: Command) -> Any:
    """The reply; a server that is full gets back what it has taken."""
    try:
        return await wire.one(*command)
    except StorageFullError:
        await _away(wire, made)
        raise


async def _away(wire: Wire, made: Staged | None) -> None:
    if made is not None:
        with suppress(LastgoodError):
            await wire.one("UNLINK", made.key)


def _pieces(pairs: Sequence[Word]) -> Iterator[list[Word]]:
    piece: list[Word] = []
    weight = 0
    for field, value in zip(pairs[::2], pairs[1::2], strict=True):
        piece += (field, value)
        weight += len(value) if isinstance(value, bytes) else 0
        if weight > STAGED or len(piece) >= 2 * GROUP:
            yield piece
            piece, weight = [], 0
    if piece:
        yield piece
