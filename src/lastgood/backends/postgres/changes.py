"""A change as one SQL statement: the thread's row first, all else only if that was changed.

The `WHERE` on the version stands on the thread's row itself, which PostgreSQL looks at again after
it had to wait for another writer. One statement is one transaction: no round trip more, nothing
that a pooler in between could tear apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lastgood.backends.postgres.news import CHANNEL, token
from lastgood.backends.postgres.rows import MARKS
from lastgood.backends.postgres.schema import COLUMNS
from lastgood.backends.postgres.statement import CLOCK, each_place, paired
from lastgood.backends.remote.changes import Change, PlacedPart
from lastgood.backends.remote.clock import OFF
from lastgood.backends.remote.rows import stored, to_bytes
from lastgood.rows import (
    TABLES,
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    Row,
    RunRow,
    TagRow,
    ThreadRow,
)

_KEYS: dict[type, tuple[str, ...]] = {
    LaneRow: ("thread", "agent"),
    BranchRow: ("thread", "lane", "name"),
    MoveRow: ("thread", "lane", "number"),
    TagRow: ("thread", "name"),
    RunRow: ("thread", "number"),
    ItemRow: ("thread", "shelf", "key"),
}
_OF_THREAD = (
    "lane",
    "branch",
    "move",
    "tag",
    "run",
    "item",
    "checkpoint",
    "stream",
    "part",
    "large",
)

_TIMELY = f"(%s::bigint IS NULL OR abs({CLOCK} - %s::bigint) < {OFF})"
"""Whether it is the moment that a change was decided for."""


def _replacing(cls: type) -> str:
    keys = _KEYS[cls]
    others = [name for name in COLUMNS[cls] if name.strip('"') not in keys]
    changed = ", ".join(f"{name} = excluded.{name}" for name in others)
    return f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changed}"


_REPLACING = {cls: _replacing(cls) for cls in _KEYS}


class _Steps:
    """A statement under construction."""

    def __init__(self, schema: str) -> None:
        self.at = schema
        self.steps: list[str] = []
        self.values: list[object] = []

    def add(self, text: str, values: Iterable[object]) -> None:
        name = f"s{len(self.steps)}" if self.steps else "guard"
        self.steps.append(f"{name} AS ({text})")
        self.values += values

    def insert(self, cls: type, rows: Sequence[Row]) -> None:
        """Rows of one kind, each in the place of one with the same key."""
        names = ", ".join(COLUMNS[cls])
        made, values = f"(VALUES ({MARKS[cls]}))", stored(rows[0])
        if len(rows) > 1:
            made, values = _by_columns(cls, rows)
        text = f"INSERT INTO {self.at}.{TABLES[cls]} ({names}) SELECT v.* FROM guard, {made} v"
        self.add(text + _REPLACING[cls], values)


def _by_columns(cls: type, rows: Sequence[Row]) -> tuple[str, list[object]]:
    """Many rows: one text whatever their number, or each would be another statement to prepare; and
    few values, of which one takes 65,535 at most.
    """
    arrays = MARKS[cls].replace(",", "[],") + "[]"
    return f"unnest({arrays})", [*map(list, zip(*map(stored, rows), strict=True))]


def statement(schema: str, change: Change) -> tuple[str, list[object]]:
    """The statement, which brings one row: how many threads were changed, 1 or 0."""
    steps = _Steps(schema)
    _guard(steps, change)
    if change.wiped:
        for table in _OF_THREAD:
            steps.add(
                f"DELETE FROM {schema}.{table} x USING guard WHERE x.thread = %s", [change.key]
            )
    for cls in dict.fromkeys(type(row) for row in change.rows):
        steps.insert(cls, [row for row in change.rows if type(row) is cls])
    if change.untagged is not None:
        steps.add(
            f"DELETE FROM {schema}.tag x USING guard WHERE x.thread = %s AND x.name = %s",
            [change.key, to_bytes(change.untagged)],
        )
    for shelf in dict.fromkeys(item.shelf for item in change.dropped):
        steps.add(
            f"DELETE FROM {schema}.item x USING guard"
            " WHERE x.thread = %s AND x.shelf = %s AND x.key = ANY(%s::bytea[])",
            [
                change.key,
                to_bytes(shelf),
                [item.key for item in change.dropped if item.shelf == shelf],
            ],
        )
    if change.checkpoint is not None:
        _checkpoint(steps, change, change.checkpoint)
    if change.brought:
        _brought(steps, change)
    _parts(steps, change)
    _removals(steps, change)
    told = f"(SELECT count(pg_notify('{CHANNEL}', %s)) FROM guard WHERE watched > {CLOCK})"
    text = f"WITH {', '.join(steps.steps)} SELECT (SELECT count(*) FROM guard), {told}"
    return text, [*steps.values, token(schema, *change.place)]


def _guard(steps: _Steps, change: Change) -> None:
    place = [to_bytes(change.place.tenant), to_bytes(change.place.name)]
    where = f"tenant = %s AND name = %s AND version = %s AND seal = %s AND {_TIMELY}"
    moment = [change.moment, change.moment]
    seen: list[object] = [*place, change.version, change.seal, *moment]
    if change.free:
        where += f" AND NOT EXISTS (SELECT FROM {each_place(f'{steps.at}.item', '%s', '')} r)"
        seen += [*paired(change.free), change.key]
    where += " RETURNING watched"
    if change.thread is None:
        text = f"UPDATE {steps.at}.thread SET version = version + 1 WHERE {where}"
        steps.add(text, seen)
        return
    values = stored(change.thread)
    names = COLUMNS[ThreadRow]
    if change.version is None:
        text = (
            f"INSERT INTO {steps.at}.thread ({', '.join(names)}, version)"
            f" SELECT {MARKS[ThreadRow]}, 1 WHERE {_TIMELY}"
            " ON CONFLICT (tenant, name) DO NOTHING RETURNING watched"
        )
        steps.add(text, [*values, *moment])
        return
    changed = ", ".join(f"{name} = %s" for name in names)
    text = f"UPDATE {steps.at}.thread SET {changed}, version = version + 1 WHERE {where}"
    steps.add(text, [*values, *seen])


def _checkpoint(steps: _Steps, change: Change, row: CheckpointRow) -> None:
    names = ", ".join(COLUMNS[CheckpointRow])
    made = f"SELECT {MARKS[CheckpointRow]}, %s::bytea FROM guard"
    steps.add(
        f"INSERT INTO {steps.at}.checkpoint ({names}, tenant) {made}",
        [*stored(row), to_bytes(change.place.tenant)],
    )


def _brought(steps: _Steps, change: Change) -> None:
    names = ", ".join(COLUMNS[CheckpointRow])
    made, values = _by_columns(CheckpointRow, change.brought)
    steps.add(
        f"INSERT INTO {steps.at}.checkpoint ({names}, tenant)"
        f" SELECT u.*, %s::bytea FROM guard, {made} u",
        [to_bytes(change.place.tenant), *values],
    )


def _parts(steps: _Steps, change: Change) -> None:
    if change.streams:
        steps.add(
            f"INSERT INTO {steps.at}.stream"
            " SELECT %s::bigint, u FROM guard, unnest(%s::bigint[]) u",
            [change.key, list(change.streams)],
        )
    if len(change.parts) == 1:  # arrays take longer to send, and most saves have one part
        steps.add(
            f"INSERT INTO {steps.at}.part SELECT %s::bigint,"
            " %s::bigint, %s::bigint, %s::bigint, %s::bytea, %s::bytea FROM guard",
            [change.key, *change.parts[0]],
        )
    elif change.parts:
        steps.add(
            f"INSERT INTO {steps.at}.part"
            " SELECT %s::bigint, u.* FROM guard,"
            " unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[]) u",
            [change.key, *map(list, zip(*change.parts, strict=True))],
        )
    large = list({part.digest: part for part in change.large}.values())
    if large:
        steps.add(
            f"INSERT INTO {steps.at}.large SELECT %s::bigint, u.* FROM guard,"
            " unnest(%s::bytea[], %s::bigint[], %s::bigint[]) u(digest, stream, number)"
            " ON CONFLICT (thread, digest) DO UPDATE"
            " SET stream = excluded.stream, number = excluded.number",
            [change.key, *_columns(large, "digest stream number")],
        )


def _columns(parts: Sequence[PlacedPart], names: str) -> list[list[object]]:
    return [[getattr(part, name) for part in parts] for name in names.split()]


def _removals(steps: _Steps, change: Change) -> None:
    if change.orphans:
        changed = [(r.seq, r.parent_gone, r.fallback, stored(r)[-1]) for r in change.orphans]
        steps.add(
            f"UPDATE {steps.at}.checkpoint x SET parent_gone = u.gone, fallback = u.fallback,"
            " seal = u.seal FROM guard,"
            " unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[])"
            " u(seq, gone, fallback, seal) WHERE x.thread = %s AND x.seq = u.seq",
            [*map(list, zip(*changed, strict=True)), change.key],
        )
    if change.removed:
        steps.add(
            f"DELETE FROM {steps.at}.checkpoint x USING guard"
            " WHERE x.thread = %s AND x.seq = ANY(%s)",
            [change.key, [row.seq for row in change.removed]],
        )
    if change.swept:
        spots = [list(each) for each in zip(*(part.spot for part in change.swept), strict=True)]
        steps.add(
            f"DELETE FROM {steps.at}.part x USING guard, unnest(%s::bigint[], %s::bigint[])"
            " u(stream, number)"
            " WHERE x.thread = %s AND x.stream = u.stream AND x.number = u.number",
            [*spots, change.key],
        )
        steps.add(
            f"DELETE FROM {steps.at}.large x USING guard"
            " WHERE x.thread = %s AND x.digest = ANY(%s::bytea[])",
            [change.key, [part.digest for part in change.swept if part.digest]],
        )
