"""The rows of a store on a server, as far as they were asked for.

Runs the shared logic of `tables` and `views` over answers that are all of one moment. The one
invariant: what was not asked for is not absent; looking it up raises `Need`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from lastgood.backend import (
    Columns,
    ItemListing,
    Listing,
    Located,
    ThreadEntry,
    ThreadListing,
)
from lastgood.backends.remote.queries import (
    Answers,
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
    IdRows,
    LineRows,
    Need,
    PageRows,
    Query,
    ThreadName,
    about_history,
    gathered,
)
from lastgood.backends.tables import Line
from lastgood.backends.views import Lifetimes, Listed, Views
from lastgood.commits import Place, Scope
from lastgood.errors import CheckpointIntegrityError
from lastgood.manifest import Spot
from lastgood.rows import (
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    R,
    RunRow,
    TagRow,
    ThreadRow,
    intact,
    suspect,
    unsealed,
)

ANCESTORS = 64
"""So many are asked for at first, and each time twice as many."""

K = TypeVar("K")
T = TypeVar("T")
_AGENT, _NUMBER = (LaneRow._fields.index(name) for name in ("agent", "number"))
_THREAD, _SEQ, _ID = (CheckpointRow._fields.index(name) for name in ("thread", "seq", "id"))


class RemoteTables(Views):
    """Answers as tables of one tenant."""

    supposed: Sequence[Place] = ()
    """Where items are supposed not to be, without having looked."""

    def __init__(self, tenant: str, answers: Answers) -> None:
        self.clock = answers.clock
        self._tenant = tenant
        self._answers = answers.found
        self._places: dict[int, ThreadName] = {}
        self._rows: dict[tuple[object, object], Columns] = {}
        self._threads: dict[object, Columns] = {}
        self._wanted: list[Query] = []
        self._climbed: dict[bytes, int] = {}
        """From which checkpoints ancestors were asked for, and how many."""
        self._reach = ANCESTORS
        for query, answer in answers.found.items():
            self._note(query, answer)

    def _note(self, query: Query, answer: Any) -> None:
        """Remember rows that an answer brings along, by their keys."""
        if isinstance(query, AskLine) or (isinstance(query, AskId) and answer is not None):
            self._threads.update(_by_key(answer.thread))
        if isinstance(query, AskAncestors):
            self._climbed[query.id] = query.limit
            self._reach = max(self._reach, 2 * query.limit)
        for columns in _checkpoints_in(query, answer):
            self._rows[columns[_THREAD], columns[_ID]] = columns

    def each(self, find: Callable[[K], T], keys: Iterable[K]) -> list[T]:
        return gathered(find, keys)

    def _ask(self, query: Query) -> Any:
        try:
            return self._answers[query]
        except KeyError:
            raise Need(query) from None

    def _place(self, thread: int) -> ThreadName:
        return self._places[thread]

    def version(self, place: ThreadName) -> int | None:
        """The version of a thread that a look was about."""
        return next(rows.version for _, rows in self._lines(place))

    def _lines(self, place: ThreadName) -> Iterator[tuple[AskLine, LineRows]]:
        for query, answer in self._answers.items():
            if isinstance(query, AskLine) and query.place == place:
                yield query, answer

    # lookups by key

    def line(self, scope: Scope) -> Line:
        place = ThreadName(scope.tenant, scope.thread)
        rows: LineRows = self._ask(AskLine(place, scope.agent, scope.branch))
        thread = self.thread(*place)
        if rows.head is None or rows.branch is None or rows.lane is None:
            return super().line(scope)
        if thread is None or not thread.live:
            return Line(thread)
        branch, head = unsealed(BranchRow, rows.branch), unsealed(CheckpointRow, rows.head)
        if head.id != branch.head:
            raise CheckpointIntegrityError("the index of checkpoints is damaged.")
        return Line(thread, unsealed(LaneRow, rows.lane), branch, head)

    def thread(self, tenant: str, name: str) -> ThreadRow | None:
        place = ThreadName(tenant, name)
        rows = next((rows for _, rows in self._lines(place)), None)
        if rows is None:
            rows = self._ask(AskLine(place))
        if rows.thread is None:
            return None
        row = unsealed(ThreadRow, rows.thread)
        if (row.tenant, row.name) != place:
            raise CheckpointIntegrityError("the index of threads is damaged.")
        self._places[row.thread] = place
        return row

    def thread_by_key(self, key: int) -> ThreadRow | None:
        columns = self._threads.get(key)
        if columns is None:
            return None
        row = unsealed(ThreadRow, columns)
        self._places[row.thread] = ThreadName(row.tenant, row.name)
        return row

    def lane(self, thread: int, agent: str) -> LaneRow | None:
        place = self._place(thread)
        for query, rows in self._lines(place):
            if query.agent == agent:
                return None if rows.lane is None else unsealed(LaneRow, rows.lane)
        found = [columns for columns in self.lane_columns(thread) if columns[_AGENT] == agent]
        return unsealed(LaneRow, found[0]) if found else None

    def lane_columns(
        self,
        thread: int,
        numbers: Collection[int] | None = None,
    ) -> Sequence[Columns]:
        place = self._place(thread)
        found: list[Columns] | None = self._answers.get(AskLanes(place, few=True))
        if found is None and numbers is not None:
            found = self._ask(AskNumbered(place, tuple(sorted(numbers))))
        return self._ask(AskLanes(place)) if found is None else found

    def branch(self, thread: int, lane: int, name: str) -> BranchRow | None:
        if thread not in self._places:
            return None  # it is about to be opened
        row = self.thread(*self._place(thread))
        if row is not None and lane > row.lanes:
            return None  # so is its lane
        agent = self._agent(thread, lane)
        if agent is not None:  # by its name: there may be many others
            return _row(BranchRow, self._ask(AskLine(self._place(thread), agent, name)).branch)
        found = [b for b in self.branches(thread) if (b.lane, b.name) == (lane, name)]
        return found[0] if found else None

    def _agent(self, thread: int, lane: int) -> str | None:
        """Whose lane it is, as far as the lines tell that were asked for."""
        for query, rows in self._lines(self._place(thread)):
            if rows.lane is not None and rows.lane[_NUMBER] == lane:
                return query.agent
        return None

    def branches(self, thread: int) -> list[BranchRow]:
        place = self._place(thread)
        heads = self._answers.get(AskHeads(place, few=True))
        if heads is None:
            heads = self._ask(AskHeads(place))
        return [unsealed(BranchRow, branch) for branch, _ in heads]

    def checkpoint(self, thread: int, id: bytes) -> CheckpointRow | None:
        return self.checkpoints_of(thread, [id])[0]

    def checkpoints_of(self, thread: int, ids: Sequence[bytes]) -> list[CheckpointRow | None]:
        wanted = tuple(id for id in ids if (thread, id) not in self._rows)
        if wanted:
            found = self._ask(AskCheckpoints(self._place(thread), wanted))
            self._rows.update({(thread, columns[_ID]): columns for columns in found})
        return [_row(CheckpointRow, self._rows.get((thread, id))) for id in ids]

    def checkpoints(self, id: bytes) -> list[CheckpointRow]:
        found: IdRows | None = self._ask(AskId(self._tenant, id))
        return [] if found is None else [unsealed(CheckpointRow, found.checkpoint)]

    def by_id(self, tenant: str, id: bytes) -> Located | None:
        found: IdRows | None = self._ask(AskId(tenant, id))
        if found is None:
            return None
        row, thread = unsealed(CheckpointRow, found.checkpoint), unsealed(ThreadRow, found.thread)
        if not thread.live:
            return None
        lane = None if found.lane is None else intact(LaneRow, found.lane)
        if lane is None or lane.number != row.lane:
            raise CheckpointIntegrityError(
                f"the lane of checkpoint {row.label} is missing or damaged."
            )
        return Located(row, thread.name, lane.agent, row.expired(self.now_in(thread)))

    def followed(self, row: CheckpointRow) -> CheckpointRow | None:
        """Many ancestors are asked for at once, or a long line would take as many round trips."""
        if row.before and (row.thread, row.before) not in self._rows:
            limit = self._climbed.get(row.id, self._reach)
            self._ask(AskAncestors(self._place(row.thread), row.id, limit))
        return super().followed(row)

    def children(self, rows: Sequence[CheckpointRow]) -> list[list[CheckpointRow]]:
        """Those that have to be told when checkpoints go, asked for all at once."""
        wanted = [AskChildren(self._place(row.thread), row.id) for row in rows]
        missing = [query for query in wanted if query not in self._answers]
        if missing:
            raise Need(*missing)
        return [
            [unsealed(CheckpointRow, columns) for columns in self._answers[query]]
            for query in wanted
        ]

    def newest_move(self, thread: int, lane: int) -> MoveRow | None:
        return _row(MoveRow, self._ask(AskMove(self._place(thread), lane)))

    def tag(self, thread: int, name: str) -> TagRow | None:
        return _row(TagRow, self._ask(AskTag(self._place(thread), name)))

    def tags(self, thread: int) -> list[TagRow]:
        return [unsealed(TagRow, row) for row in self._ask(AskTags(self._place(thread)))]

    def run(self, thread: int, lane: int) -> RunRow | None:
        return _row(RunRow, self._ask(AskRun(self._place(thread), lane)))

    def newest_run(self, thread: int) -> RunRow | None:
        return _row(RunRow, self._ask(AskRun(self._place(thread))))

    def item(self, thread: int, shelf: str, key: bytes) -> ItemRow | None:
        return self.items_at(thread, [(shelf, key)])[0]

    def items_at(self, thread: int, places: Sequence[Place]) -> list[ItemRow | None]:
        found = self._ask(AskPlaces(self._place(thread), tuple(places)))
        rows = {row.place: row for row in (unsealed(ItemRow, columns) for columns in found)}
        return [rows.get(place) for place in places]

    def item_columns(self, thread: int, places: Sequence[Place]) -> dict[Place, Sequence[object]]:
        found = self._ask(AskPlaces(self._place(thread), tuple(places)))
        stored = {place: row for place in places for row in found if tuple(row[1:3]) == place}
        if len(stored) < len(found):
            self.items_at(thread, places)  # one cannot even tell its place: an error
        return stored

    def item_count(self, thread: int) -> int:
        return int(self._ask(AskItemCount(self._place(thread))))

    def scan_items(self, thread: int, listing: ItemListing, now: int) -> list[ItemRow]:  # noqa: ARG002
        found = self._ask(AskItems(self._place(thread), listing))
        return [unsealed(ItemRow, columns) for columns in found]

    def large(self, thread: int, digests: Sequence[bytes]) -> dict[bytes, Spot]:
        found = self._ask(AskLarge(self._place(thread), tuple(digests)))
        return {digest: Spot(stream, number) for digest, stream, number in found}

    def scan(
        self,
        thread: int,
        lane: int | None,  # noqa: ARG002
        listing: Listing,
        now: int,  # noqa: ARG002
    ) -> list[CheckpointRow]:
        found = self._ask(AskScan(self._place(thread), listing))
        return [unsealed(CheckpointRow, columns) for columns in found]

    def checkpoint_at(self, thread: int, seq: int) -> CheckpointRow | None:
        return self.checkpoints_at(thread, [seq])[0]

    def checkpoints_at(self, thread: int, seqs: Sequence[int]) -> list[CheckpointRow | None]:
        if not seqs:
            return []
        found = self._ask(AskAt(self._place(thread), tuple(seqs)))
        rows = {columns[_SEQ]: columns for columns in found}
        return [_row(CheckpointRow, rows.get(seq)) for seq in seqs]

    def seqs(self, thread: int) -> list[int]:
        found: list[int] = self._ask(AskSeqs(self._place(thread)))
        return list(found)

    # lists of threads: a page is one answer

    def thread_page(self, tenant: str, listing: ThreadListing) -> list[Listed]:
        self._page: list[PageRows] = self._ask(AskThreads(tenant, listing))
        listed = [_listed(rows) for rows in self._page]
        for found in listed:
            if found.damage:
                continue  # its key may be another's
            self._places[found.thread.thread] = ThreadName(tenant, found.thread.name)
        if any(found.thread.tenant != tenant or not found.thread.live for found in listed):
            raise CheckpointIntegrityError("the index of threads is damaged: it names others.")
        return listed

    def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        """What is wanted for some of a page is asked for together, or each would be a round."""
        entries = super().threads(tenant, listing)
        if self._wanted:
            raise Need(*self._wanted)
        return entries

    def told(self, found: Listed, lanes: list[LaneRow], lives: Lifetimes | None) -> ThreadEntry:
        try:
            return super().told(found, lanes, lives)
        except Need as need:
            self._wanted += need.queries
            return ThreadEntry(found.thread, (), None, self.clock)

    def newest_live(self, thread: ThreadRow) -> CheckpointRow | None:
        queries = about_history(thread.tenant, Listing(thread.name, limit=1))
        missing = [query for query in queries if query not in self._answers]
        if missing:
            raise Need(*missing)
        return super().newest_live(thread)

    def lanes_of(self, threads: Sequence[int]) -> list[LaneRow]:  # noqa: ARG002
        stored = (columns for rows in self._page for columns in rows.lanes)
        return [lane for columns in stored if (lane := intact(LaneRow, columns))]

    def lifetimes(self, threads: Sequence[ThreadRow]) -> dict[int, Lifetimes]:  # noqa: ARG002
        return {
            rows.thread[0]: Lifetimes(*rows.lives)  # type: ignore[misc]
            for rows in self._page
            if rows.lives is not None
        }


def _row(cls: type[R], columns: Columns | None) -> R | None:
    return None if columns is None else unsealed(cls, columns)


def _by_key(thread: Columns | None) -> dict[object, Columns]:
    return {} if thread is None else {thread[0]: thread}


def _checkpoints_in(query: Query, answer: Any) -> Iterable[Columns]:
    """The checkpoint rows of an answer."""
    match query:
        case AskLine() if answer.head is not None:
            return [answer.head]
        case AskHeads() if answer is not None:
            return [head for _, head in answer if head is not None]
        case AskId() if answer is not None:
            return [answer.checkpoint]
        case AskScan() | AskAncestors():
            return list(answer)
        case _:
            return []


def _listed(rows: PageRows) -> Listed:
    try:
        return Listed(
            unsealed(ThreadRow, rows.thread),
            _row(RunRow, rows.run),
            _row(CheckpointRow, rows.newest),
        )
    except CheckpointIntegrityError as error:
        return Listed(suspect(rows.thread), damage=error.message)
