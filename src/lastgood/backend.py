"""What a backend is: one small interface, and its obligations.

A backend keeps the rows of `rows.py` and the parts of streams. It knows no codec, no Client, no
rules: what a commit writes is decided by the intent it carries. Adding a backend is one file and
one line in `registry.py`; the contract suite then runs on it in both colours without being asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, NamedTuple

from lastgood.commits import Found, Intent, Scope, Writes
from lastgood.manifest import Spot
from lastgood.reports import Problem
from lastgood.rows import BranchRow, CheckpointRow, ItemRow, LaneRow, RunRow, TagRow, ThreadRow

Sort = Literal["updated", "created", "name"]
Durability = Literal["strict", "relaxed", "window", "cache", "none", "unknown"]
Pulsing = Literal["thread", "loop", "steps"]
"""A thread of ours; a task on the event loop of the run; the run itself, with its steps."""


class Located(NamedTuple):
    """A checkpoint row with the names that its keys stand for."""

    row: CheckpointRow
    session: str
    agent: str
    expired: bool


class Listing(NamedTuple):
    """Which checkpoints of a thread to list, newest first. Filters are data, never query text."""

    thread: str
    agent: str | None = None
    branch: str | None = None
    step_name: str | None = None
    since: int | None = None
    until: int | None = None
    before: int | None = None
    """Only those with a smaller seq: the cursor of the next page."""
    above: int | None = None
    """Only those with a larger seq: what came since."""
    limit: int = 50


class ThreadListing(NamedTuple):
    """Which threads to list, and in which order."""

    sort: Sort = "updated"
    """`updated`: last touched first, to about a minute; `created`: youngest first, by the store's
    clock; `name`."""
    after: tuple[object, ...] = ()
    """The place of the last one seen: (active, key), (created_at, key) or (name,)."""
    limit: int = 50
    newest: bool = False
    """Whether each thread's newest checkpoint is wanted."""
    owner: str | None = None
    """Whose threads are wanted; a store may list those of others too, which are left out later."""


class ThreadEntry(NamedTuple):
    """A thread as a list shows it: its row, its agents, its newest run."""

    row: ThreadRow
    agents: tuple[str, ...]
    run: RunRow | None
    now: int
    """The store's clock, for the age of the run's last sign of life."""
    newest: CheckpointRow | None = None
    """The checkpoint that was saved last, if it was asked for and was not removed."""
    damage: str = ""
    """What is wrong with the thread; then nothing of it but its name is told."""


Inside = Literal["lanes", "tags"]
"""What may be asked for alone of a thread from inside."""


class Outline(NamedTuple):
    """What a thread consists of: lanes, branches with what each reads as, tags."""

    row: ThreadRow
    lanes: tuple[LaneRow, ...]
    branches: tuple[tuple[BranchRow, CheckpointRow | None], ...]
    tags: tuple[TagRow, ...]
    now: int


class ItemListing(NamedTuple):
    """Which items of one shelf of a thread to list, in the order of their keys."""

    thread: str
    shelf: str
    prefix: bytes = b""
    """What their keys begin with."""
    after: bytes | None = None
    """Only keys above this one, in whichever direction the list goes."""
    before: bytes | None = None
    """Only keys below this one."""
    contains: str | None = None
    """Only items with a text that has this in it, letter for letter."""
    reverse: bool = False
    """The highest key first."""
    offset: int = 0
    limit: int = 50
    over: bool = False
    """Those over their time instead of the live ones: for who removes them."""
    every: bool = False
    """Those over their time too: where none has a time to live, or a reader sees to it."""


class Extents(NamedTuple):
    """A range of parts of a thread: `length` of them from `first` on."""

    thread: int
    first: Spot
    length: int
    seq: int = 0
    """The checkpoint of the thread that they are read for, if they are read for one."""


class Census(NamedTuple):
    """How much there is: live threads of a tenant, and since when the store exists."""

    threads: int
    created_at: int
    disk: int | None = None
    """Bytes of its file; None where there is none or other tenants' threads are in it too."""


Shelf = Literal[
    "thread",
    "lane",
    "branch",
    "move",
    "tag",
    "run",
    "item",
    "stream",
    "large",
    "checkpoint",
    "part",
]
Columns = Sequence[object]
LAST = (1 << 32) - 1
WEIGHT = 4 << 20
"""About so many bytes of columns are handed out at a time."""


class Section(NamedTuple):
    """A stretch of one table, to be handed out as it is stored, damaged or not.

    Numbers are a thread's key, a checkpoint's seq, a part's number in its stream; rows of other
    tables are counted from 0 on. What comes back, column by column:

        stream                  its number
        large                   digest, stream, number
        part                    number, born, size (None if it is no bytes), digest, data or None
        all others              the columns of its row, then the seal

    Of a thread row that was changed and bears another tenant's name, only the key is shown.
    """

    table: Shelf
    owner: int = 0
    """The key of the thread."""
    stream: int = 0
    """For parts, the stream that they are in."""
    low: int = 0
    high: int = LAST
    data: bool = False
    """Whether the data of parts is wanted."""
    name: str | None = None
    """Only the thread of that name."""
    beside: bool = False
    """Of threads, whether those that are hidden beside the tenant's are wanted too."""
    limit: int = 512


class Sheet(NamedTuple):
    """What was found; `next` is the number to go on from, None at the end."""

    rows: list[Columns]
    next: int | None


class Footprint(NamedTuple):
    """What the checkpoints and the items of a thread take."""

    checkpoints: int
    logical: int
    inline: int
    """Bytes of manifests."""
    parts: int
    """Bytes of parts."""
    items: int = 0
    """Bytes of the values of items."""


class News(ABC):
    """A watcher's way of hearing that something happened in a thread. It only wakes."""

    @abstractmethod
    async def wait(self, seconds: float) -> bool:
        """Wait until there may be something new, for so long at most.

        - What happens between two calls is not missed: the second then returns at once.
        - False, at once: it cannot be told now; the watcher has to look by itself.
        """

    @abstractmethod
    def close(self) -> None:
        """Nobody waits any more."""


class Backend(ABC):
    """Where rows and parts are kept.

    Every backend:
    - makes `commit` atomic and, at its declared durability, lasting before it returns;
    - assigns nothing but thread keys and stream numbers, and never uses one of them twice;
    - gives every tenant its own world: no call reaches a row of another;
    - serves concurrent calls from any number of threads, tasks and processes;
    - verifies the seal of every row it reads, and raises CheckpointIntegrityError for damage
      instead of leaving a row out;
    - opens lazily at the first call, and again after `close` or in a forked child;
    - raises only LastgoodErrors.
    """

    blocking: bool
    """True: its coroutines never suspend on an event loop, they block."""
    url: str
    """Its address as shown in messages, without any secret."""
    durability: Durability
    """What it really keeps: `strict` survives power loss, `relaxed` a killed process."""
    pulse: Pulsing = "thread"
    """Who calls the heartbeats of runs."""
    copies: bool = False
    """True: each checkpoint has a copy of its parts, and is verified by reading its own."""

    @abstractmethod
    async def commit(self, intent: Intent) -> Writes:
        """Look, decide, write: one atomic unit. Gives back the writes with all keys filled in.

        - Two commits never see the same `Found` if one of them changes it.
        - If a part's number, a new branch's name or the id of a checkpoint that comes from another
          store is taken, decide again, saying so: that loop is `commits.decided`.
        - If `decide` raises, nothing is written and the error propagates.
        """

    @abstractmethod
    async def look(self, scope: Scope) -> Found:
        """The same look as a commit takes, without writing."""

    @abstractmethod
    async def find(self, tenant: str, ids: Sequence[bytes]) -> dict[bytes, Located]:
        """Checkpoints by id; those that do not exist are left out, expired ones are marked."""

    @abstractmethod
    async def history(self, tenant: str, listing: Listing) -> list[Located]:
        """Live checkpoints of a thread, newest seq first.

        - With an agent: its lane, and the handoffs that left it.
        - A row that should be there and is not is an integrity error.
        """

    @abstractmethod
    async def parts(self, ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        """The parts of each range in order. A range of which a part is missing comes back short.

        - With `checked`, a part that its digest does not fit is an integrity error: for readers
          of some parts only, who cannot tell by the hash of the whole state.
        """

    @abstractmethod
    async def at(self, tenant: str, thread: str, seq: int) -> Located | None:
        """The checkpoint of a live thread with that number, marked if it is expired."""

    @abstractmethod
    async def lineage(self, tenant: str, id: bytes, limit: int) -> list[Located]:
        """A checkpoint and what it follows, newest first, expired ones marked.

        - Goes on over lanes, and past what was removed; ends where a parent is not known any more.
        """

    @abstractmethod
    async def outline(
        self, tenant: str, thread: str, *, only: Inside | None = None
    ) -> Outline | None:
        """Lanes, branches and tags of a live thread, or one kind of them `only`.

        - What was not asked for is empty, and costs nothing however much of it there is.
        """

    @abstractmethod
    async def items(self, tenant: str, listings: Sequence[ItemListing]) -> list[list[ItemRow]]:
        """Live items of live threads, one list for each listing, all of one moment.

        - A key is compared byte by byte. `offset` counts items that the listing asks for.
        - An item that should be there and is not is an integrity error, in a thread with few of
          them; in one with many that is left to `verify`.
        """

    async def look_and_list(
        self, scope: Scope, listings: Sequence[ItemListing]
    ) -> tuple[Found, list[list[ItemRow]]]:
        """A look, and items that are wanted too; of one moment where that saves a round trip."""
        return await self.look(scope), await self.items(scope.tenant, listings)

    @abstractmethod
    async def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        """Live threads in the order of the listing.

        - With a number of queries that does not depend on how many there are.
        """

    @abstractmethod
    async def census(self, tenant: str) -> Census:
        """How many live threads a tenant has."""

    @abstractmethod
    async def tenants(self) -> list[str]:
        """All tenants that have a thread, those that are hidden beside others too; in order.

        - Threads that were deleted do not count.
        - Looks up each tenant, not each thread, where the store has them in order.
        - A name that damage makes unreadable is left out: `checkup` and `survey` tell of it.
        """

    @abstractmethod
    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        """Rows as they are stored, all of one moment.

        - Verifies no seal and looks nothing up: damage is for the caller to find.
        - Raises CheckpointIntegrityError or StorageError only where a stretch cannot be read;
          asked for one number at a time, it raises for those alone that are harmed.
        - A sheet ends early when it has become large; it is never empty if more is to come,
          except for threads, where those of other tenants are left out.
        """

    @abstractmethod
    async def checkup(self) -> list[Problem]:
        """What is wrong with the store as a whole: its own structure, rows of no thread.

        - Shows numbers only: nobody knows whose it is.
        """

    @abstractmethod
    async def footprints(self, tenant: str, threads: Sequence[int]) -> dict[int, Footprint]:
        """What each of these threads takes, by key; reads no data of parts."""

    async def forget(self, thread: int) -> bool:  # noqa: ARG002
        """Drop copies of a thread's parts that are kept elsewhere; False if there can be none.

        - Then the next read is of the store itself: for who doubts what was read.
        """
        return False

    async def tidy(self, tenant: str) -> bool:  # noqa: ARG002
        """Free what is left beside a tenant's threads that have ended; False if nothing ever is."""
        return False

    def news(self, tenant: str, thread: str) -> News | None:  # noqa: ARG002
        """A way to hear of news in a thread; None if the store has none: watchers look again."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections; the next call opens again."""
