"""A change as a list of steps for the script that commits: checks first, then commands.

The script knows nothing of rows; what is written where is decided here. Commands have at most some
thousand arguments. The first command that writes is one that a full server refuses, so that a save
which does not fit leaves nothing behind; where something is removed, it is one that is never
refused, so that space can be freed. What else a server may refuse, the script finds out before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lastgood.backends.redis.hints import Claim
from lastgood.backends.redis.keys import SUFFIXES, branch_field, item_name, part_field
from lastgood.backends.redis.rows import packed, packed_part, pointer
from lastgood.backends.redis.wire import Command, Word
from lastgood.backends.remote.changes import Change
from lastgood.backends.remote.clock import OFF
from lastgood.backends.remote.rows import to_bytes
from lastgood.rows import (
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    Row,
    RunRow,
    TagRow,
)

GROUP = 1000
GRACE_MS = 24 * 3600 * 1000
"""How long a thread of which every checkpoint is over its time stays, before it goes as a whole; it
counts from its last use, if that was later: a run that began in it may still save."""
STAGED = 1 << 20
"""A change with more bytes of parts than this is sent in pieces first."""


class Staged:
    """Parts that were sent before, under a key of their own."""

    def __init__(self, key: str, count: int) -> None:
        self.key = key
        self.count = count


def flat(steps: Sequence[Command]) -> list[Word]:
    """Steps as the script takes them: a word, how many arguments follow, and these."""
    found: list[Word] = []
    for word, *args in steps:
        found += (word, len(args), *args)
    return found


def part_pairs(change: Change) -> list[Word]:
    """Fields and values of the parts."""
    return [
        each
        for part in change.parts
        for each in (
            part_field(part.stream, part.number),
            packed_part(part.born, part.digest, part.data),
        )
    ]


def steps(
    change: Change,
    thread: str,
    claims: Sequence[Claim],
    hints: Sequence[Command],
    staged: Staged | None,
    shift: int,
) -> list[Command]:
    """Everything that a commit does."""
    found = list(_checks(change, claims, staged))
    if change.wiped:
        found.append(("UNLINK", *(thread + suffix for suffix in SUFFIXES)))
    found += _removals(change, thread)
    found += _grouped("SADD", f"{thread}:z", change.streams, 1)  # the first that writes: see there
    found.append(_head(change, thread))
    found += [("HSET", claim.key, claim.field, claim.tag) for claim in claims]
    found += hints
    found += _rows(change, thread)
    found += _parts(change, thread, staged)
    for row in change.checkpoints:
        found += _checkpoint(thread, row)
    used = change.thread.updated_at if change.thread else 0
    found.append(("lasting", _lasting(change), GRACE_MS - shift // 1000, used))
    if change.checkpoints:
        found.append(("tell",))
    return found


def _checks(change: Change, claims: Sequence[Claim], staged: Staged | None) -> Iterator[Command]:
    if change.version is None:
        yield ("absent",)
    else:
        yield ("seen", change.version, change.seal)
    if change.moment is not None:
        yield ("timely", change.moment, OFF)
    if change.free:
        yield ("vacant", *(item_name(*place) for place in change.free))
    if change.checkpoints:
        yield ("unused", *(row.id for row in change.checkpoints))
    known = set(change.streams)
    # Each of them: a sweep leaves holes, and what is behind one would be overwritten.
    free = [part_field(p.stream, p.number) for p in change.parts if p.stream not in known]
    for at in range(0, len(free), GROUP):
        yield ("free", *free[at : at + GROUP])
    for at in range(0, len(change.streams), GROUP):
        yield ("novel", *change.streams[at : at + GROUP])
    if staged is not None:
        yield ("staged", staged.key, staged.count)
    for claim in claims:
        yield ("ours", *claim)


def _head(change: Change, thread: str) -> Command:
    """The version, and the thread's row with it."""
    version = 1 if change.version is None else change.version + 1
    row: tuple[Word, ...] = ()
    if change.thread is not None:
        row = ("t", packed(change.thread), "k", change.key)
    return ("HSET", thread, "v", version, *row)


def _lasting(change: Change) -> str:
    """Whether the thread stays: "yes", "no", or the same as before."""
    row = change.thread
    if row is None:
        return "same"
    expires = 0 < row.checkpoints == row.expiring and not row.tags and not row.items
    return "no" if expires and row.live else "yes"


def _grouped(word: str, key: str, args: Sequence[Word], size: int) -> Iterator[Command]:
    for at in range(0, len(args), size * GROUP):
        yield (word, key, *args[at : at + size * GROUP])


def _rows(change: Change, thread: str) -> Iterator[Command]:
    fields = [_field(row) for row in change.rows]
    main = [word for key, words in fields if key == "" for word in words]
    if main:
        yield ("HSET", thread, *main)
    for key, (field, row, *newest) in (each for each in fields if each[0] == ":r"):
        yield ("HSET", thread + key, field, row)
        yield ("advance", thread + key, *newest)
    items = [row for row in change.rows if isinstance(row, ItemRow)]
    names: list[Word] = [item_name(*row.place) for row in items]
    values = [word for row in items for word in (item_name(*row.place), packed(row))]
    yield from _grouped("HSET", f"{thread}:e", values, 2)
    yield from _grouped("ZADD", f"{thread}:o", [w for name in names for w in (0, name)], 2)


def _field(row: Row) -> tuple[str, tuple[Word, ...]]:
    """The table of a row, and fields and values there: its own, and what leads to it."""
    match row:
        case LaneRow():
            agent = to_bytes(row.agent)
            return "", (b"l" + agent, packed(row), f"n{row.number}", agent)
        case BranchRow():
            return "", (branch_field(row.lane, row.name), packed(row))
        case TagRow():
            return "", (b"g" + to_bytes(row.name), packed(row))
        case RunRow():
            newest = (pointer(row.thread, lane, row.number) for lane in (None, row.lane))
            of_all, of_lane = newest
            return ":r", (f"r{row.number}", packed(row), "R", of_all, f"R{row.lane}", of_lane)
        case MoveRow():
            place = f"m{row.lane}:{row.number}"
            return ":r", (place, packed(row), f"M{row.lane}", row.number)
        case _:
            return "items", ()


def _checkpoint(thread: str, row: CheckpointRow) -> Iterator[Command]:
    yield ("HSET", f"{thread}:c", row.seq, packed(row))
    yield ("HSET", f"{thread}:i", row.id, row.seq)
    yield ("ZADD", f"{thread}:s", row.seq, row.seq)
    links = [word for id in {row.parent, row.fallback} if id for word in (0, link(id, row.seq))]
    if links:
        yield ("ZADD", f"{thread}:k", *links)
    if row.expires_at is not None:
        yield ("ZADD", f"{thread}:x", row.expires_at, row.seq)


def _parts(change: Change, thread: str, staged: Staged | None) -> Iterator[Command]:
    if staged is not None:
        yield ("unstage", staged.key)
    else:
        yield from _grouped("HSET", f"{thread}:p", part_pairs(change), 2)
    if change.parts:
        yield ("HINCRBY", thread, "B", sum(len(part.data) for part in change.parts))
    large = [w for p in change.large for w in (p.digest, part_field(p.stream, p.number))]
    yield from _grouped("HSET", f"{thread}:d", large, 2)


def link(parent: bytes, seq: int) -> bytes:
    """That a checkpoint follows another."""
    return parent + b"%d" % seq


def _removals(change: Change, thread: str) -> Iterator[Command]:
    if change.untagged is not None:
        yield ("HDEL", thread, b"g" + to_bytes(change.untagged))
    dropped = [item_name(*item.place) for item in change.dropped]
    yield from _grouped("HDEL", f"{thread}:e", dropped, 1)
    yield from _grouped("ZREM", f"{thread}:o", dropped, 1)
    for row in change.removed:
        yield ("HDEL", f"{thread}:c", row.seq)
        yield ("HDEL", f"{thread}:i", row.id)
        yield ("ZREM", f"{thread}:s", row.seq)
        yield ("ZREM", f"{thread}:x", row.seq)
        links = [link(id, row.seq) for id in {row.parent, row.fallback} if id]
        if links:
            yield ("ZREM", f"{thread}:k", *links)
    spots = [part_field(*part.spot) for part in change.swept]
    yield from _grouped("HDEL", f"{thread}:p", spots, 1)
    large = [part.digest for part in change.swept if part.digest]
    yield from _grouped("HDEL", f"{thread}:d", large, 1)
    if change.swept:
        yield ("HINCRBY", thread, "B", -sum(part.size for part in change.swept))
    gone = {row.id for row in change.removed}
    for row in change.orphans:
        yield ("ZREM", f"{thread}:k", *(link(id, row.seq) for id in gone))
        if row.fallback:
            yield ("ZADD", f"{thread}:k", 0, link(row.fallback, row.seq))
        yield ("HSET", f"{thread}:c", row.seq, packed(row))
