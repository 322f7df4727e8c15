"""Queries as PostgreSQL's SQL, and their answers.

Every statement brings the server's clock in its first column, in one row at least. Values are
bound, never spliced. A thread's key is looked up in a sub-query of its own, which PostgreSQL
evaluates once: then every table is read by the index that leads with that key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lastgood.backend import Extents, ItemListing, Listing
from lastgood.backends.postgres.rows import cut
from lastgood.backends.postgres.statement import (
    CLOCK,
    TOP,
    Statement,
    each_place,
    every,
    paired,
)
from lastgood.backends.postgres.threads import threads
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
    AskThreads,
    AskVersion,
    IdRows,
    LineRows,
    Query,
    ThreadName,
)
from lastgood.backends.remote.rows import columns, to_bytes
from lastgood.backends.tables import COUNTED
from lastgood.backends.views import span
from lastgood.rows import (
    TABLES,
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    RunRow,
    TagRow,
    ThreadRow,
)


class Questions:
    """The statements for one schema."""

    def __init__(self, schema: str) -> None:
        self._at = schema
        self._key = f"(SELECT thread FROM {schema}.thread WHERE tenant = %s AND name = %s)"
        self._line_text = _line(schema)

    def statement(self, query: Query, shift: int) -> Statement:
        """The statement for a query; `shift` is added to the server's clock."""
        made = self._made(query, shift)
        if isinstance(query, AskLanes | AskHeads) and query.few:
            made = _few(made)
        text, values, parse = made
        timed = f"SELECT {CLOCK}, x.* FROM (VALUES (1)) o LEFT JOIN LATERAL ({text}) x ON true"
        return Statement(timed, values, parse)

    def versions(self, queries: Sequence[Query]) -> tuple[str, list[object]]:
        """At which versions the threads are that some queries are about."""
        places = {place for query in queries if (place := getattr(query, "place", None))}
        text = (
            f"SELECT t.thread, t.version, t.seal FROM {self._at}.thread t, unnest(%s::bytea[],"
            " %s::bytea[]) u(tenant, name) WHERE t.tenant = u.tenant AND t.name = u.name"
            " ORDER BY t.thread"
        )
        tenants, names = [p.tenant for p in places], [p.name for p in places]
        return text, [[to_bytes(each) for each in column] for column in (tenants, names)]

    def _made(self, query: Query, shift: int) -> Statement:  # noqa: PLR0911
        match query:
            case AskLine():
                return self._line(query)
            case AskHeads(place):
                return self._heads(place)
            case AskScan(place, listing):
                return self._scan(place, listing, shift)
            case AskId(tenant, id):
                return self._by_id(tenant, id)
            case AskAncestors(place, id, limit):
                return self._ancestors(place, id, limit)
            case AskThreads():
                return threads(self._at, query, shift)
            case AskLarge(place, digests):
                text = (
                    f"SELECT digest, stream, number FROM {self._at}.large"
                    f" WHERE thread = {self._key} AND digest = ANY(%s)"
                )
                return Statement(text, [*_place(place), list(digests)], list)
            case AskSeqs(place):
                # Every page of a history asks for it.
                text = (
                    f"SELECT seq FROM {self._at}.checkpoint"
                    f" WHERE thread = {self._counted('checkpoints')}"
                    f" ORDER BY seq LIMIT {COUNTED + 1}"
                )
                return Statement(text, _place(place), lambda rows: [seq for (seq,) in rows])
            case AskItems(place, listing):
                return self._items(place, listing, shift)
            case AskPlaces(place, places):
                text = (
                    f"SELECT {every('r', ItemRow)} FROM"
                    f" {each_place(f'{self._at}.item', self._key, every('x', ItemRow))} r"
                )
                return Statement(
                    text,
                    [*paired(places), *_place(place)],
                    lambda rows: [columns(ItemRow, row) for row in rows],
                )
            case AskItemCount(place):
                # Every look at items asks for it.
                few = (
                    f"SELECT FROM {self._at}.item WHERE thread = {self._counted('items')}"
                    f" ORDER BY shelf, key LIMIT {COUNTED + 1}"
                )
                text = f"SELECT count(*) FROM ({few}) AS few"
                return Statement(text, _place(place), lambda rows: rows[0][0])
            case _:
                return self._plain(query)

    def _counted(self, rows: str) -> str:
        """The key of a thread that has few of some rows; NULL for one of which none are counted.

        Counting must cost neither what the thread holds nor what the store holds. A limit is not
        enough for that: by its statistics PostgreSQL may expect short threads, and collect a long
        one whole before the limit applies; or long ones, and read the table from its beginning
        for a short one, unless an order is asked for that only the index has.
        """
        return f"{self._key.removesuffix(')')} AND {rows} <= {COUNTED})"

    def _plain(self, query: Query) -> Statement:
        """Rows of one table by keys within the thread."""
        if isinstance(query, AskCheckpoints):
            return self._by_ids(query.place, query.ids)
        if isinstance(query, AskVersion):
            text = f"SELECT version, seal FROM {self._at}.thread WHERE tenant = %s AND name = %s"
            return Statement(text, _place(query.place), lambda rows: rows[0] if rows else None)
        cls, where, values, one = _keyed(query)
        table = f"{self._at}.{TABLES[cls]}"
        text = f"SELECT {every('r', cls)} FROM {table} r WHERE r.thread = {self._key}{where}"
        place: ThreadName = query.place  # type: ignore[union-attr]

        def parse(rows: list[Any]) -> Any:
            found = [columns(cls, row) for row in rows]
            return found if not one else found[0] if found else None

        return Statement(text, [*_place(place), *values], parse)

    def _line(self, query: AskLine) -> Statement:
        names = (_optional(query.agent), _optional(query.branch))
        return Statement(self._line_text, [*names, *_place(query.place)], _read_line)

    def _heads(self, place: ThreadName) -> Statement:
        text = (
            f"SELECT {every('b', BranchRow)}, {every('c', CheckpointRow)} FROM {self._at}.branch b"
            f" LEFT JOIN {_identified(self._at, '%s', 'b.head', 'b.thread')} c ON true"
            f" WHERE b.thread = {self._key}"
        )
        values = [to_bytes(place.tenant), *_place(place)]
        return Statement(
            text, values, lambda rows: [tuple(cut(r, BranchRow, CheckpointRow)) for r in rows]
        )

    def _scan(self, place: ThreadName, listing: Listing, shift: int) -> Statement:
        lane = f"(SELECT number FROM {self._at}.lane WHERE thread = {self._key} AND agent = %s)"
        agent = [] if listing.agent is None else [*_place(place), to_bytes(listing.agent)]
        before = TOP if listing.before is None else min(TOP, listing.before)
        above = -1 if listing.above is None else min(TOP, listing.above)
        optional: list[tuple[str, object, list[object]]] = [
            # Of an agent that is not there, nothing is looked through.
            (
                f"{lane} IS NOT NULL AND (c.lane = {lane} OR c.source_lane = {lane})",
                listing.agent,
                agent * 3,
            ),
            ("c.branch = %s", listing.branch, [_optional(listing.branch)]),
            ("c.step_name = %s", listing.step_name, [_optional(listing.step_name)]),
            ("c.created_at >= %s", listing.since, [listing.since]),
            ("c.created_at < %s", listing.until, [listing.until]),
        ]
        given = [(text, values) for text, value, values in optional if value is not None]
        updated = self._key.replace("thread", "updated_at", 1)
        now = f"greatest({CLOCK} + %s, {updated})"
        text = (
            f"SELECT {every('c', CheckpointRow)} FROM {self._at}.checkpoint c"
            f" WHERE c.thread = {self._key} AND c.seq < %s AND c.seq > %s"
            + "".join(f" AND {text}" for text, _ in given)
            + f" AND (c.expires_at IS NULL OR c.expires_at > {now}) ORDER BY c.seq DESC LIMIT %s"
        )
        bound = [value for _, group in given for value in group]
        values = [*_place(place), before, above, *bound, shift, *_place(place), listing.limit]
        return Statement(text, values, lambda rows: [columns(CheckpointRow, row) for row in rows])

    def _items(self, place: ThreadName, listing: ItemListing, shift: int) -> Statement:
        low, high = span(listing)
        contains = _optional(listing.contains)
        live, moment = self._live(place, listing, shift)
        text = (
            f"SELECT {every('r', ItemRow)} FROM {self._at}.item r"
            f" WHERE r.thread = {self._key} AND r.shelf = %s AND r.key >= %s"
            + (" AND r.key < %s" if high is not None else "")
            + (" AND position(%s IN r.text) > 0" if contains is not None else "")
            + f"{live} ORDER BY r.key {'DESC' if listing.reverse else 'ASC'} LIMIT %s OFFSET %s"
        )
        optional = [value for value in (high, contains) if value is not None]
        ends = [*moment, listing.limit, listing.offset]
        values = [*_place(place), to_bytes(listing.shelf), low, *optional, *ends]
        return Statement(text, values, lambda rows: [columns(ItemRow, row) for row in rows])

    def _live(
        self, place: ThreadName, listing: ItemListing, shift: int
    ) -> tuple[str, list[object]]:
        """Which items a listing means by their time: the condition and its values."""
        if listing.every:
            return "", []
        updated = self._key.replace("thread", "updated_at", 1)
        now = f"greatest({CLOCK} + %s, {updated})"
        live = "r.expires_at <=" if listing.over else "r.expires_at IS NULL OR r.expires_at >"
        return f" AND ({live} {now})", [shift, *_place(place)]

    def _by_id(self, tenant: str, id: bytes) -> Statement:
        text = (
            f"SELECT {every('t', ThreadRow)}, {every('l', LaneRow)}, {every('c', CheckpointRow)}"
            f" FROM {self._at}.checkpoint c"
            f" JOIN LATERAL (SELECT * FROM {self._at}.thread t WHERE t.thread = c.thread LIMIT 1) t"
            " ON t.tenant = c.tenant"
            f" LEFT JOIN LATERAL (SELECT * FROM {self._at}.lane l"
            " WHERE l.thread = c.thread AND l.number = c.lane LIMIT 1) l ON true"
            " WHERE c.tenant = %s AND c.id = %s"
        )

        def parse(rows: list[Any]) -> IdRows | None:
            if not rows:
                return None
            thread, lane, checkpoint = cut(rows[0], ThreadRow, LaneRow, CheckpointRow)
            assert thread is not None and checkpoint is not None, "joined"  # noqa: PT018
            return IdRows(thread, lane, checkpoint)

        return Statement(text, [to_bytes(tenant), id], parse)

    def _by_ids(self, place: ThreadName, ids: Sequence[bytes]) -> Statement:
        text = (
            f"SELECT {every('r', CheckpointRow)} FROM unnest(%s::bytea[]) u(id),"
            f" {_identified(self._at, '%s', 'u.id', self._key)} r"
        )
        values = [list(ids), to_bytes(place.tenant), *_place(place)]
        return Statement(text, values, lambda rows: [columns(CheckpointRow, row) for row in rows])

    def _ancestors(self, place: ThreadName, id: bytes, limit: int) -> Statement:
        before = "CASE WHEN up.parent_gone = 1 THEN up.fallback ELSE up.parent END"
        text = (
            "WITH RECURSIVE up AS ("
            "SELECT c.*, 0 AS depth FROM (VALUES (1)) o,"
            f" {_identified(self._at, '%s', '%s', self._key)} c"
            " UNION ALL SELECT c.*, up.depth + 1 FROM up,"
            f" {_identified(self._at, 'up.tenant', before, 'up.thread')} c"
            " WHERE up.depth < %s)"
            f" SELECT {every('up', CheckpointRow)} FROM up WHERE depth > 0 ORDER BY depth"
        )
        values = [to_bytes(place.tenant), id, *_place(place), limit]
        return Statement(text, values, lambda rows: [columns(CheckpointRow, row) for row in rows])


def _line(schema: str) -> str:
    """A thread, a lane, a branch and its head.

    Each is looked up by itself: a join would be planned for whatever lane, and reads all lanes of a
    store that has some hundreds.
    """
    return (
        f"SELECT t.version, {every('t', ThreadRow)}, {every('l', LaneRow)},"
        f" {every('b', BranchRow)}, {every('c', CheckpointRow)} FROM {schema}.thread t"
        f" LEFT JOIN LATERAL (SELECT * FROM {schema}.lane l"
        " WHERE l.thread = t.thread AND l.agent = %s LIMIT 1) l ON true"
        f" LEFT JOIN LATERAL (SELECT * FROM {schema}.branch b WHERE b.thread = l.thread"
        ' AND b.lane = l.number AND b.name = coalesce(%s, l."current") LIMIT 1) b ON true'
        f" LEFT JOIN {_identified(schema, 't.tenant', 'b.head', 'b.thread')} c ON true"
        " WHERE t.tenant = %s AND t.name = %s"
    )


def _identified(schema: str, tenant: str, id: str, thread: str) -> str:
    """A checkpoint of a thread by the index of ids.

    Where most threads have one checkpoint, to look through the thread seems as good: the sum hides
    that it could be. In partitioned tables two threads may have a checkpoint of one id.
    """
    return (
        f"LATERAL (SELECT * FROM {schema}.checkpoint x"
        f" WHERE x.tenant = {tenant} AND x.id = {id} AND x.thread + 0 = {thread} LIMIT 1)"
    )


def _read_line(rows: list[Any]) -> LineRows:
    if not rows:
        return LineRows()
    version, *found = rows[0]
    return LineRows(version, *cut(found, ThreadRow, LaneRow, BranchRow, CheckpointRow))


def parts(schema: str, ranges: Sequence[Extents]) -> tuple[str, list[object]]:
    """The parts of all ranges in one statement: (which range, stream, number, digest, data)."""
    if len(ranges) == 1:
        ((thread, (stream, first), length, _),) = ranges
        text = (
            f"SELECT 1, stream, number, digest, data FROM {schema}.part WHERE thread = %s"
            " AND stream = %s AND number BETWEEN %s AND %s ORDER BY number"
        )
        return text, [thread, stream, first, first + length - 1]
    text = (
        "SELECT u.i, u.stream, p.number, p.digest, p.data FROM"
        " unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])"
        " WITH ORDINALITY u(thread, stream, low, high, i),"
        f" LATERAL (SELECT number, digest, data FROM {schema}.part WHERE thread = u.thread"
        " AND stream = u.stream AND number BETWEEN u.low AND u.high ORDER BY number) p"
        " ORDER BY u.i, p.number"
    )
    bounds = [
        (each.thread, each.first.stream, each.first.number, each.first.number + each.length - 1)
        for each in ranges
    ]
    return text, [list(column) for column in zip(*bounds, strict=True)] or [[], [], [], []]


def _keyed(query: Query) -> tuple[type, str, list[object], bool]:  # noqa: PLR0911
    """Which rows of a thread, by which keys, and whether there is one at most."""
    match query:
        case AskLanes(_, few):
            return LaneRow, "" if few else " ORDER BY r.number", [], False
        case AskNumbered(_, numbers):
            return LaneRow, " AND r.number = ANY(%s::bigint[])", [list(numbers)], False
        case AskTags():
            return TagRow, " ORDER BY r.name", [], False
        case AskTag(_, name):
            return TagRow, " AND r.name = %s", [to_bytes(name)], True
        case AskMove(_, lane):
            return MoveRow, " AND r.lane = %s ORDER BY r.number DESC LIMIT 1", [lane], True
        case AskRun(_, None):
            return RunRow, " ORDER BY r.number DESC LIMIT 1", [], True
        case AskRun(_, lane):
            return RunRow, " AND r.lane = %s ORDER BY r.number DESC LIMIT 1", [lane], True
        case AskAt(_, seqs):
            known = [seq for seq in seqs if seq <= TOP]
            return CheckpointRow, " AND r.seq = ANY(%s::bigint[])", [known], False
        case AskChildren(_, id):
            return CheckpointRow, " AND (r.parent = %s OR r.fallback = %s)", [id, id], False
        case _:
            raise TypeError(f"no query: {query!r}")


def _few(statement: Statement) -> Statement:
    """The same for at most so many rows as are accounted for; None where there are more."""
    text, values, parse = statement
    return Statement(
        f"{text} LIMIT {COUNTED + 1}",
        values,
        lambda rows: None if len(rows) > COUNTED else parse(rows),
    )


def _place(place: ThreadName) -> list[object]:
    return [to_bytes(place.tenant), to_bytes(place.name)]


def _optional(text: str | None) -> bytes | None:
    return None if text is None else to_bytes(text)
