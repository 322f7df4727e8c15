"""Looking back: pages of headers and of threads, lines of descent, branches and tags.

Operations over a `Core`. Where metadata is compared, it is compared as values and not in the
store's language, so the answer is the same on every backend; that happens on the caller's side of
the driver, for users' own decoders may run then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, repeat
from typing import Any

from lastgood.backend import Listing, Located, Sort, ThreadEntry, ThreadListing
from lastgood.checkpoints import read_mapping
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.headers import header_of
from lastgood.ids import show_id
from lastgood.model import BranchInfo, Gap, Header, Page, ThreadInfo, moment
from lastgood.resolving import STRIDE, lineage, locate, outlined
from lastgood.rows import RunRow, ThreadRow
from lastgood.run_rules import status_of

_TIMES = range(1 << 57)
"""What can be a time; that of a damaged thread may be anything."""
Keep = Callable[[ThreadInfo, ThreadEntry], bool]


async def log(
    core: Core, driver: Driver, listing: Listing, metadata: Mapping[str, Any]
) -> Page[Header]:
    """One page of headers."""
    kept: list[Header] = []
    wanted = listing.limit
    while True:
        rows = await driver.run(core.backend.history(core.tenant, listing))
        headers: Iterator[Header] = map(header_of, rows, repeat(core.codec))
        if metadata:  # what is behind the page is not decoded
            headers = filter(lambda header: has_all(header.metadata, metadata), headers)
        kept += islice(headers, wanted - len(kept))
        if len(kept) == wanted:
            return Page(kept, str(kept[-1].seq))
        if len(rows) < listing.limit:
            return Page(kept)
        listing = listing._replace(before=rows[-1].row.seq, limit=_more(listing.limit))


def _more(limit: int) -> int:
    """How many to read next where filters have left something out: few are not asked for often."""
    return max(limit, min(2 * limit, STRIDE))


def has_all(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether metadata has all the given items, type for type."""
    return all(key in metadata and _equal(metadata[key], value) for key, value in wanted.items())


def _equal(value: Any, wanted: Any) -> bool:
    """Whether two values are equal, their parts type for type too; two that cannot be compared, as
    `Decimal("sNaN")`, are not.
    """
    if type(value) is not type(wanted):
        return False
    if isinstance(value, dict):
        same = value.keys() == wanted.keys()
        return same and all(_equal(value[key], wanted[key]) for key in value)
    if isinstance(value, list | tuple):
        return len(value) == len(wanted) and all(map(_equal, value, wanted))
    try:
        return bool(value == wanted)
    except Exception:
        return False


# threads


async def threads(
    core: Core, driver: Driver, listing: ThreadListing, keep: Keep
) -> Page[ThreadInfo]:
    """One page of threads; filters are applied here, to what the store lists."""
    kept: list[ThreadInfo] = []
    wanted = listing.limit
    while True:
        entries = await driver.run(core.backend.threads(core.tenant, listing))
        for entry in entries:
            listing = listing._replace(after=_place(entry.row, listing.sort))
            info = info_of(core, entry)
            if keep(info, entry):
                kept.append(info)
                if len(kept) == wanted:
                    return Page(_sorted(kept, listing.sort), _cursor(listing.after))
        if len(entries) < listing.limit:
            return Page(_sorted(kept, listing.sort))
        listing = listing._replace(limit=_more(listing.limit))


def _sorted(kept: list[ThreadInfo], sort: Sort) -> list[ThreadInfo]:
    """The store sorts by the minute; within a page the exact time decides."""
    if sort != "updated":
        return kept
    return sorted(kept, key=lambda info: info.updated_at, reverse=True)


def _place(row: ThreadRow, sort: Sort) -> tuple[object, ...]:
    if sort == "name":
        return (row.name,)
    return row.active if sort == "updated" else row.created_at, row.thread


def _cursor(after: tuple[object, ...]) -> str:
    return ":".join(map(str, after))


def newest_has_all(core: Core, entry: ThreadEntry, wanted: Mapping[str, Any]) -> bool:
    """Whether a thread's newest checkpoint has metadata; what cannot be read here is not it."""
    try:
        metadata = read_mapping(core.codec, entry.newest.metadata) if entry.newest else {}
    except Exception:  # users' own decoders may raise anything
        return False
    return has_all(metadata, wanted)


def info_of(core: Core, entry: ThreadEntry) -> ThreadInfo:
    """A thread as callers see it."""
    row, run = entry.row, entry.run
    status = status_of(run, entry.now, core.options.stale_after_seconds)
    result, unread = _result(core, run)
    return ThreadInfo(
        thread_id=row.name,
        title=row.title or row.name,
        status="damaged" if entry.damage else status,
        checkpoints=row.checkpoints,
        agents=entry.agents,
        branches=row.branches,
        last_step=row.last_step,
        size=row.size,
        created_at=moment(row.created_at if row.created_at in _TIMES else 0),
        updated_at=moment(row.updated_at),
        user=row.owner,
        error=entry.damage or (run.error if run else None) or unread,
        result=result,
    )


def _result(core: Core, run: RunRow | None) -> tuple[object, str | None]:
    """What a run was finished with, or why that cannot be told: the other threads are listed."""
    if run is None or not run.result:
        return None, None
    try:
        return core.codec.unpack(run.result), None
    except Exception as error:  # users' own decoders may raise anything
        return None, f"the result cannot be read here: {type(error).__name__}: {error}"


# lines of descent


async def line(core: Core, start: bytes | str, limit: int) -> list[Located]:
    """What a ref or a cursor names and what that follows, one more than a page has."""
    if isinstance(start, str):
        return await lineage(core, await locate(core, start), limit + 1)
    return await core.backend.lineage(core.tenant, start, limit + 1)


def walked(core: Core, rows: list[Located], limit: int) -> Page[Header | Gap]:
    """One page of a line, with a gap wherever something is not there any more."""
    shown: list[Header | Gap] = []
    for located in rows[:limit]:
        row = located.row
        shown.append(Gap(row.label, "expired") if located.expired else core.header(located))
        if row.parent_gone:
            shown.append(Gap(show_id(row.parent), "removed"))
    return Page(shown, rows[limit].row.label if len(rows) > limit else None)


# branches and tags


async def branches(core: Core, thread: str, agent: str | None) -> list[tuple[Any, ...]]:
    """Names and heads of a thread's branches, in the order of lanes and names."""
    outline = await outlined(core, thread)
    lanes = {lane.number: lane for lane in outline.lanes}
    found = []
    for branch, tip in sorted(outline.branches, key=lambda each: each[0][:3]):
        lane = lanes[branch.lane]
        if agent in (None, lane.agent):
            located = Located(tip, thread, lane.agent, expired=False) if tip else None
            found.append((lane, branch.name, located))
    return found


def branch_info(core: Core, thread: str, found: tuple[Any, ...]) -> BranchInfo:
    """A branch as callers see it."""
    lane, name, located = found
    head = core.header(located) if located else None
    return BranchInfo(thread, lane.agent, name, lane.current == name, head)


async def tags(core: Core, thread: str) -> dict[str, str]:
    """Tags of a thread and the ids they name."""
    return {
        tag.name: show_id(tag.checkpoint) for tag in (await outlined(core, thread, "tags")).tags
    }
