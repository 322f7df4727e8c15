"""Rows in SQLite: what a commit looks at and what it changes, over one connection.

Owns every SQL statement that touches our rows. Each function runs inside a transaction that its
caller opened. Uses nothing newer than SQLite 3.31, and only `execute`, `executemany` and the
cursor's `fetch*`, so that another driver's connection can take the place of sqlite3's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lastgood.backend import Census, Extents, Listing, Located, ThreadEntry
from lastgood.commits import Found, Scope, Writes
from lastgood.errors import CheckpointIntegrityError, LastgoodError
from lastgood.manifest import Part, Slot, Spot
from lastgood.pages import SLICE
from lastgood.rows import (
    LIVE,
    BranchRow,
    CheckpointRow,
    LaneRow,
    Row,
    RunRow,
    ThreadRow,
    pack_slots,
)

R = TypeVar("R", bound=Row)
LOW = (1 << 32) - 1
_CHECKPOINT = ", ".join(f"c.{name}" for name in CheckpointRow.names()[2:])
_SELECT_CHECKPOINT = f"SELECT c.key >> 32, c.key & {LOW}, {_CHECKPOINT} FROM lastgood_checkpoint c"


class StreamTakenError(LastgoodError):
    """Another branch grew the stream first; plan again with fresh streams."""

    code = "stream_taken"


def _select(cls: type[Row], where: str) -> str:
    return f"SELECT {', '.join(cls.names())} FROM lastgood_{cls.table} WHERE {where}"


def _insert(cls: type[Row]) -> str:
    marks = ", ".join("?" * len(cls.names()))
    return f"INSERT OR REPLACE INTO lastgood_{cls.table} ({', '.join(cls.names())}) VALUES ({marks})"


_THREAD = _select(ThreadRow, "tenant = ? AND name = ?")
_THREAD_AGAIN = _THREAD.replace("WHERE", "INDEXED BY lastgood_thread_again WHERE")
_LANE = _select(LaneRow, "thread = ? AND agent = ?")
_LANES = _select(LaneRow, "thread = ?")
_BRANCH = _select(BranchRow, "thread = ? AND lane = ? AND name = ?")
_BRANCHES = _select(BranchRow, "thread = ?")
_RUN = _select(RunRow, "thread = ? AND lane = ? ORDER BY number DESC LIMIT 1")
_NEWEST_RUN = _select(RunRow, "thread = ? ORDER BY started_at DESC, number DESC LIMIT 1")
_BY_ID = f"{_SELECT_CHECKPOINT} WHERE c.id = ?"
_UPDATE_THREAD = (
    f"UPDATE lastgood_thread SET {', '.join(f'{n} = ?' for n in ThreadRow.names()[4:])}"
    " WHERE thread = ?"
)
_INSERT_CHECKPOINT = (
    f"INSERT INTO lastgood_checkpoint (key, {', '.join(CheckpointRow.names()[2:])}) "
    f"VALUES ({', '.join('?' * (len(CheckpointRow.names()) - 1))})"
)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows behind one connection, at one moment of the host's clock."""

    connection: Any
    clock: int

    def one(self, cls: type[R], statement: str, *values: object) -> R | None:
        found = self.connection.execute(statement, values).fetchone()
        return None if found is None else cls.read(found)

    def all(self, cls: type[R], statement: str, *values: object) -> list[R]:
        return [cls.read(row) for row in self.connection.execute(statement, values).fetchall()]

    # looking

    def look(self, scope: Scope) -> Found:
        thread = self.thread(scope.tenant, scope.thread)
        if thread is None:
            return Found(now=self.clock)
        now = max(self.clock, thread.updated_at)
        if not thread.live:
            return Found(now=now, thread=thread)
        lane = self.lane(thread, scope.agent) if scope.agent is not None else None
        branch = self.branch(thread, lane, scope.branch) if lane else None
        followed = branch or (self.branch(thread, lane, None) if lane else None)
        head = self.head(followed) if followed else None
        rows = {id: row for id in scope.ids if (row := self.checkpoint(id, scope.tenant))}
        lanes = {row.lane for row in rows.values() if row.thread == thread.thread}
        return Found(
            now=now,
            thread=thread,
            lane=lane,
            branch=branch,
            head=head,
            tip=self.nearest_live(head, now),
            run=self.one(RunRow, _RUN, thread.thread, lane.number) if lane else None,
            rows=rows,
            agents=self.agents(thread, lane, lanes),
            large=self.large(thread, scope.large),
            fallbacks=self.fallbacks(thread, scope.heads_at, now) if scope.heads_at else (),
        )

    def thread(self, tenant: str, name: str) -> ThreadRow | None:
        """A thread by name; its absence has to be confirmed by a second index."""
        row = self.one(ThreadRow, _THREAD, tenant, name)
        if row is None and self.one(ThreadRow, _THREAD_AGAIN, name, tenant) is not None:
            raise CheckpointIntegrityError(f"the index of threads is damaged near {name!r}.")
        return row

    def lane(self, thread: ThreadRow, agent: str) -> LaneRow | None:
        lane = self.one(LaneRow, _LANE, thread.thread, agent)
        if lane is None and thread.lanes:
            self._audit(thread, len(self.all(LaneRow, _LANES, thread.thread)), thread.lanes, "lane")
        return lane

    def branch(self, thread: ThreadRow, lane: LaneRow, name: str | None) -> BranchRow | None:
        branch = self.one(BranchRow, _BRANCH, thread.thread, lane.number, name or lane.current)
        if branch is None and thread.branches:
            self._audit(thread, len(self.branches(thread)), thread.branches, "branch")
        return branch

    def branches(self, thread: ThreadRow) -> list[BranchRow]:
        return self.all(BranchRow, _BRANCHES, thread.thread)

    def _audit(self, thread: ThreadRow, found: int, expected: int, what: str) -> None:
        """A row that is not there is believed only if the thread's count agrees."""
        if found != expected:
            raise CheckpointIntegrityError(
                f"thread {thread.name!r} has {found} {what} rows of {expected}: a row is missing."
            )

    def head(self, branch: BranchRow) -> CheckpointRow | None:
        if not branch.head:
            return None
        row = self.one(CheckpointRow, _BY_ID, branch.head)
        if row is None:
            raise CheckpointIntegrityError(
                f"the head of branch {branch.name!r}, checkpoint {branch.head.hex()}, is missing."
            )
        return row

    def checkpoint(self, id: bytes, tenant: str) -> CheckpointRow | None:
        row = self.one(CheckpointRow, _BY_ID, id)
        if row is None:
            return None
        owner = self.connection.execute(
            "SELECT tenant FROM lastgood_thread WHERE thread = ?", (row.thread,)
        ).fetchone()
        return row if owner == (tenant,) else None

    def nearest_live(self, row: CheckpointRow | None, now: int) -> CheckpointRow | None:
        """The row, or the nearest ancestor in its lane that is not over its time."""
        while row is not None and row.expired(now):
            parent = self.one(CheckpointRow, _BY_ID, row.parent) if row.parent else None
            if parent is None and row.parent_gone:
                return self._older(row, now)
            row = parent if parent and parent.lane == row.lane else None
        return row

    def _older(self, row: CheckpointRow, now: int) -> CheckpointRow | None:
        """Where the chain of parents has a gap: the newest live row before it on the branch."""
        statement = (
            f"{_SELECT_CHECKPOINT} WHERE c.key >= ? AND c.key < ? AND c.lane = ? AND c.branch = ?"
            " AND (c.expires_at IS NULL OR c.expires_at > ?) ORDER BY c.key DESC LIMIT 1"
        )
        low, key = row.thread << 32, row.thread << 32 | row.seq
        return self.one(CheckpointRow, statement, low, key, row.lane, row.branch, now)

    def fallbacks(
        self, thread: ThreadRow, id: bytes, now: int
    ) -> tuple[tuple[BranchRow, CheckpointRow | None], ...]:
        row = self.one(CheckpointRow, _BY_ID, id)
        if row is None:
            return ()
        parent = self.one(CheckpointRow, _BY_ID, row.parent) if row.parent else None
        if parent is None and row.parent_gone:
            parent = self._older(row, now)
        if parent is not None and parent.lane != row.lane:
            parent = None
        return tuple(
            (branch, parent) for branch in self.branches(thread) if branch.head == id
        )

    def agents(self, thread: ThreadRow, lane: LaneRow | None, others: set[int]) -> dict[int, str]:
        known = {lane.number: lane.agent} if lane else {}
        if others <= set(known):
            return known
        return {row.number: row.agent for row in self.all(LaneRow, _LANES, thread.thread)}

    def large(self, thread: ThreadRow, digests: Sequence[bytes]) -> dict[bytes, Spot]:
        found: dict[bytes, Spot] = {}
        for digest in digests:
            row = self.connection.execute(
                "SELECT key FROM lastgood_large WHERE thread = ? AND digest = ?",
                (thread.thread, digest),
            ).fetchone()
            if row is not None:
                found[digest] = Spot(row[0] >> 32, row[0] & LOW)
        return found

    # listing

    def locate(self, row: CheckpointRow, names: dict[int, tuple[ThreadRow, dict[int, str]]]) -> Located:
        """A row with its names; `names` remembers threads already looked up."""
        if row.thread not in names:
            thread = self.one(ThreadRow, _select(ThreadRow, "thread = ?"), row.thread)
            if thread is None:
                raise CheckpointIntegrityError(f"the thread of checkpoint {row.label} is missing.")
            lanes = self.all(LaneRow, _LANES, row.thread)
            names[row.thread] = thread, {lane.number: lane.agent for lane in lanes}
        thread, agents = names[row.thread]
        if row.lane not in agents:
            raise CheckpointIntegrityError(f"the lane of checkpoint {row.label} is missing.")
        now = max(self.clock, thread.updated_at)
        return Located(row, thread.name, agents[row.lane], row.expired(now))

    def find(self, tenant: str, ids: Iterable[bytes]) -> dict[bytes, Located]:
        names: dict[int, tuple[ThreadRow, dict[int, str]]] = {}
        rows = (row for id in ids if (row := self.checkpoint(id, tenant)))
        return {row.id: self.locate(row, names) for row in rows}

    def list(self, tenant: str, listing: Listing) -> list[Located]:
        thread = self.thread(tenant, listing.thread)
        if thread is None or not thread.live:
            return []
        lane = self.lane(thread, listing.agent) if listing.agent is not None else None
        if listing.agent is not None and lane is None:
            return []
        rows = self._scan(thread, lane, listing)
        self._check_complete(thread, rows, first=listing.before is None)
        names: dict[int, tuple[ThreadRow, dict[int, str]]] = {}
        return [self.locate(row, names) for row in rows]

    def _scan(
        self, thread: ThreadRow, lane: LaneRow | None, listing: Listing
    ) -> list[CheckpointRow]:
        low = thread.thread << 32
        top = low | (LOW if listing.before is None else max(0, listing.before - 1))
        now = max(self.clock, thread.updated_at)
        number = lane.number if lane else None
        filters: list[tuple[str, tuple[object, ...]]] = [
            ("c.key BETWEEN ? AND ?", (low, top)),
            ("(c.expires_at IS NULL OR c.expires_at > ?)", (now,)),
        ]
        optional: list[tuple[object, str, tuple[object, ...]]] = [
            (number, "(c.lane = ? OR c.source_lane = ?)", (number, number)),
            (listing.branch, "c.branch = ?", (listing.branch,)),
            (listing.step_name, "c.step_name = ?", (listing.step_name,)),
            (listing.since, "c.created_at >= ?", (listing.since,)),
            (listing.until, "c.created_at < ?", (listing.until,)),
        ]
        filters += [(text, values) for given, text, values in optional if given is not None]
        where = " AND ".join(text for text, _ in filters)
        values = [value for _, given in filters for value in given]
        statement = f"{_SELECT_CHECKPOINT} WHERE {where} ORDER BY c.key DESC LIMIT ?"
        return self.all(CheckpointRow, statement, *values, listing.limit)

    def _check_complete(
        self, thread: ThreadRow, rows: Sequence[CheckpointRow], *, first: bool
    ) -> None:
        """Every checkpoint is a head or somebody's parent: check that none of these is missing."""
        listed = {row.id for row in rows}
        needed = {row.parent for row in rows if row.parent and not row.parent_gone}
        if first:
            branches = self.branches(thread)
            self._audit(thread, len(branches), thread.branches, "branch")
            needed |= {branch.head for branch in branches if branch.head} | {thread.newest} - {b""}
        for id in needed - listed:
            found = self.connection.execute(
                "SELECT 1 FROM lastgood_checkpoint WHERE id = ?", (id,)
            ).fetchone()
            if found is None:
                raise CheckpointIntegrityError(
                    f"checkpoint {id.hex()} of thread {thread.name!r} is missing."
                )

    def threads(self, tenant: str, after: int | None, limit: int) -> list[ThreadEntry]:
        bound = (1 << 62) if after is None else after
        rows = self.all(
            ThreadRow,
            _select(ThreadRow, "tenant = ? AND state = ? AND thread < ? ORDER BY thread DESC LIMIT ?"),
            tenant, LIVE, bound, limit,
        )
        return [self._entry(row) for row in rows]

    def _entry(self, row: ThreadRow) -> ThreadEntry:
        lanes = sorted(self.all(LaneRow, _LANES, row.thread), key=lambda lane: lane.number)
        run = self.one(RunRow, _NEWEST_RUN, row.thread)
        return ThreadEntry(row, tuple(lane.agent for lane in lanes), run)

    def census(self, tenant: str) -> Census:
        threads = self.connection.execute(
            "SELECT count(*) FROM lastgood_thread WHERE tenant = ? AND state = ?", (tenant, LIVE)
        ).fetchone()[0]
        created = self.connection.execute(
            "SELECT value FROM lastgood_meta WHERE name = 'created_at'"
        ).fetchone()
        return Census(threads, int(created[0]) if created else 0)

    def parts(self, ranges: Sequence[Extents]) -> list[list[bytes]]:
        statement = "SELECT data FROM lastgood_part WHERE key BETWEEN ? AND ? ORDER BY key"
        found = []
        for (stream, number), count in ((r.first, r.count) for r in ranges):
            low = stream << 32 | number
            rows = self.connection.execute(statement, (low, low + count - 1)).fetchall()
            found.append([data for (data,) in rows])
        return found

    # writing

    def write(self, writes: Writes) -> Writes:
        """Carry out what was decided; gives back the writes with their keys."""
        if writes.wiped is not None:
            self._wipe(writes.wiped)
            return writes
        if writes.thread is not None and writes.thread.thread == 0:
            writes = self._open(writes)
        elif writes.thread is not None:
            self._update(writes.thread)
        for row in (writes.lane, writes.run, *writes.branches):
            if row is not None:
                self._put(row)
        if writes.checkpoint is not None:
            writes = self._add(writes, writes.checkpoint)
        for removed in writes.removed:
            self._remove(removed)
        return writes

    def _put(self, row: Row) -> None:
        self.connection.execute(_insert(type(row)), row.columns())

    def _update(self, thread: ThreadRow) -> None:
        """Only columns that no index covers: a save must not touch the indexes of threads."""
        self.connection.execute(_UPDATE_THREAD, (*thread.columns()[4:], thread.thread))

    def _open(self, writes: Writes) -> Writes:
        thread = writes.thread
        assert thread is not None
        key = self._next_key("thread")
        self.connection.execute(
            "DELETE FROM lastgood_thread WHERE tenant = ? AND name = ?", (thread.tenant, thread.name)
        )
        self._put(thread.bound(key))
        return replace(writes.bound(key), thread=thread.bound(key))

    def _next_key(self, table: str) -> int:
        statement = (
            f"SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'lastgood_{table}'), 0),"
            f" coalesce((SELECT max({table}) FROM lastgood_{table}), 0)) + 1"
        )
        return int(self.connection.execute(statement).fetchone()[0])

    def _add(self, writes: Writes, row: CheckpointRow) -> Writes:
        slots = tuple(self._stream(row.thread, slot) for slot in writes.slots)
        row = replace(row, slots=pack_slots(slots))
        self._insert_parts(row, slots, writes.parts)
        columns = row.columns()
        self.connection.execute(
            _INSERT_CHECKPOINT, (row.thread << 32 | row.seq, *columns[2:])
        )
        return replace(writes, checkpoint=row, slots=slots)

    def _stream(self, thread: int, slot: Slot) -> Slot:
        if slot.stream:
            return slot
        key = self._next_key("stream")
        self.connection.execute("INSERT INTO lastgood_stream VALUES (?, ?)", (key, thread))
        return slot._replace(stream=key)

    def _insert_parts(
        self, row: CheckpointRow, slots: Sequence[Slot], parts: Sequence[Part]
    ) -> None:
        keyed = [(slots[part.slot].stream << 32 | part.number, part) for part in parts]
        try:
            self.connection.executemany(
                "INSERT INTO lastgood_part VALUES (?, ?, ?, ?)",
                [(key, row.seq, part.digest, part.data) for key, part in keyed],
            )
        except Exception as error:
            if type(error).__name__ in ("IntegrityError", "ConstraintError"):
                raise StreamTakenError("the next number of a stream is taken") from error
            raise
        large = [(row.thread, p.digest, key) for key, p in keyed if len(p.data) >= SLICE]
        if large:
            self.connection.executemany(
                "INSERT OR REPLACE INTO lastgood_large VALUES (?, ?, ?)", large
            )

    def _remove(self, row: CheckpointRow) -> None:
        low = row.thread << 32
        children = self.all(
            CheckpointRow,
            f"{_SELECT_CHECKPOINT} WHERE c.key BETWEEN ? AND ? AND c.parent = ?",
            low, low | LOW, row.id,
        )
        for child in children:
            marked = replace(child, parent_gone=1)
            self.connection.execute(
                "UPDATE lastgood_checkpoint SET parent_gone = 1, seal = ? WHERE key = ?",
                (marked.columns()[-1], low | child.seq),
            )
        self.connection.execute("DELETE FROM lastgood_checkpoint WHERE key = ?", (low | row.seq,))

    def _wipe(self, tombstone: ThreadRow) -> None:
        key = tombstone.thread
        streams = self.connection.execute(
            "SELECT stream FROM lastgood_stream WHERE thread = ?", (key,)
        ).fetchall()
        for (stream,) in streams:
            self.connection.execute(
                "DELETE FROM lastgood_part WHERE key BETWEEN ? AND ?",
                (stream << 32, stream << 32 | LOW),
            )
        self.connection.execute(
            "DELETE FROM lastgood_checkpoint WHERE key BETWEEN ? AND ?", (key << 32, key << 32 | LOW)
        )
        for table in ("stream", "large", "lane", "branch", "run"):
            self.connection.execute(f"DELETE FROM lastgood_{table} WHERE thread = ?", (key,))
        self._put(tombstone)
