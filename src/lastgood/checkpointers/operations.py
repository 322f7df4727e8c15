"""What a checkpointer does with a store: operations over a `Core`, run by a driver.

They await nothing but the backend and turn no stored value into Python's: that is for the caller's
side. A read on behalf of a user sees nothing of threads that are not theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lastgood.backend import ItemListing, Listing, Located, ThreadEntry
from lastgood.checkpointers.config import Where
from lastgood.checkpointers.rules import (
    CACHE,
    IDS,
    MESSAGES,
    METADATA,
    Append,
    ForUser,
    Known,
    PutMessages,
    PutState,
    cached,
    check_life,
    check_owner,
    is_foreign,
)
from lastgood.commits import Found, Place, Scope, Writes
from lastgood.core import Core, Loaded
from lastgood.errors import CheckpointIntegrityError
from lastgood.item_rules import ChangeItems, Outcome, live_item
from lastgood.removal_rules import Delete, Expire
from lastgood.rows import CheckpointRow, ItemRow
from lastgood.rules import Save

AGENT = "agent"
"""The lane that holds the states."""


class Head(NamedTuple):
    """What a thread holds for its reader."""

    thread: int | None = None
    version: bytes = b""
    loaded: Loaded | None = None
    cached: bytes | None = None
    """A state that is newer than the head's, encoded."""


class Looked(NamedTuple):
    """Something of a thread, encoded, and the thread's key; None if it is not there."""

    thread: int | None = None
    values: Sequence[bytes] = ()


class Put(NamedTuple):
    """What was written: the key of the thread, and the state's checkpoint."""

    thread: int
    version: bytes | None = None
    seq: int = 0


async def commit(core: Core, where: Where, intent: Any, life: int | None = None) -> Writes:
    """Carry out an intent on behalf of the user, on the thread that they know if it is there."""
    return await core.backend.commit(ForUser(intent, where.user, where.title, life))


async def look(core: Core, where: Where, *places: Place, agent: str | None = None) -> Found:
    """What is there for the user to see."""
    found = await core.backend.look(Scope(core.tenant, where.thread, agent, items=places))
    return Found(found.now) if is_foreign(found.live, where.user) else found


# states


async def put_state(core: Core, where: Where, intent: PutState) -> Put:
    """Save a state, and messages with it."""
    intent = replace(intent, save=await core.with_base(intent.save))
    while True:
        writes = await commit(core, where, intent)
        if not isinstance(writes.answer, Known):
            row = core.committed(intent.save, writes)
            return Put(row.thread, row.id, row.seq)
        intent = replace(intent, append=replace(intent.append, known=writes.answer.places))


async def head(core: Core, where: Where, *, fresh: bool = False) -> Head:
    """The newest state; with `fresh` one that was only cached, if that is newer."""
    found = await look(core, where, *((CACHE,) if fresh else ()), agent=AGENT)
    if found.live is None:
        return Head()
    newer = cached(found) if fresh else None
    if found.tip is None or newer is not None:
        return Head(found.live.thread, found.tip.id if found.tip else b"", None, newer)
    loaded = await core.load(Located(found.tip, where.thread, AGENT, expired=False))
    return Head(found.live.thread, found.tip.id, loaded)


async def clear_state(core: Core, where: Where, cleared: Save) -> Put | None:
    """Hide every state behind an empty one at once, then remove them; None if there is none."""
    found = await core.backend.look(Scope(core.tenant, where.thread, AGENT, items=(CACHE,)))
    check_owner(found, where.thread, where.user)
    check_life(found, cleared.holder, where.thread)
    if found.live is None:
        return None
    names = [row.step_name for row in await _states(core, Listing(where.thread, AGENT, limit=2))]
    if names in ([], [cleared.draft.step_name]) and CACHE not in found.items:
        return None
    put = await put_state(core, where, PutState(cleared))
    listing = Listing(where.thread, AGENT, before=put.seq, limit=100)
    while rows := await _states(core, listing):
        for row in rows:
            if row.thread == put.thread:
                await core.backend.commit(Expire(core.tenant, where.thread, row.id))
        listing = listing._replace(before=rows[-1].seq)
    return put


async def _states(core: Core, listing: Listing) -> list[CheckpointRow]:
    """The next states of a thread, newest first; what was handed on is another lane's."""
    found: list[CheckpointRow] = []
    while len(found) < listing.limit:
        rows = await core.backend.history(core.tenant, listing)
        found += [located.row for located in rows if located.agent == listing.agent]
        if not rows:
            break
        listing = listing._replace(before=rows[-1].row.seq)
    return found[: listing.limit]


async def delete_thread(core: Core, where: Where, life: int | None) -> bool:
    """Remove a thread and all that is in it."""
    return bool((await commit(core, where, Delete(core.tenant, where.thread), life)).answer)


# messages


async def put_messages(core: Core, where: Where, append: Append, holder: int | None) -> Put:
    """Append messages."""
    while True:
        intent = PutMessages(core.tenant, where.thread, append, holder, where.owner)
        writes = await commit(core, where, intent)
        if writes.thread is not None:
            return Put(writes.thread.thread)
        if isinstance(writes.answer, int):
            return Put(writes.answer)
        assert isinstance(writes.answer, Known)
        append = replace(append, known=writes.answer.places)


async def list_messages(core: Core, where: Where, listing: ItemListing) -> Looked:
    """Messages in the order in which they came."""
    rows: Sequence[ItemRow] = ()
    if where.user is None:
        rows = (await core.backend.items(core.tenant, [listing]))[0]
    if rows:
        return Looked(rows[0].thread, [row.value for row in rows])
    found = await look(core, where)
    if found.live is None or where.user is None:
        return _looked(found)
    rows = (await core.backend.items(core.tenant, [listing]))[0]
    return _looked(found, *(row for row in rows if row.thread == found.live.thread))


def _looked(found: Found, *rows: ItemRow | None) -> Looked:
    live = None if found.live is None else found.live.thread
    return Looked(live, [row.value for row in rows if row is not None])


async def get_message(core: Core, where: Where, id: str) -> Looked:
    """One message."""
    index = IDS, id.encode()
    found = await look(core, where, index)
    if index not in found.items:
        return _looked(found)
    place = MESSAGES, found.items[index].value
    found = await look(core, where, place)
    return _looked(found, found.items.get(place))


async def delete_message(core: Core, where: Where, id: str, holder: int | None) -> bool:
    """Remove a message; whether it was there."""
    index = IDS, id.encode()
    while True:
        found = await core.backend.look(Scope(core.tenant, where.thread, items=(index,)))
        row = found.items.get(index)
        places = () if row is None else (index, (MESSAGES, row.value))
        expected = {} if row is None else {index: row.value}
        done = await change(core, where, drops=places, expected=expected, holder=holder)
        if done.done:
            return row is not None


# other items of a thread


async def change(core: Core, where: Where, **changes: Any) -> Outcome:
    """Put and drop items of a thread, which is not begun for them."""
    intent = ChangeItems(core.tenant, where.thread, **{"owner": where.owner, **changes})
    answer = (await commit(core, where, intent)).answer
    assert isinstance(answer, Outcome)
    return answer


async def item(core: Core, where: Where, place: Place) -> Looked:
    """A live item of a thread."""
    found = await look(core, where, place)
    return _looked(found, live_item(found, place))


async def entry(core: Core, where: Where) -> ThreadEntry | None:
    """A thread as lists show it."""
    scope = Scope(core.tenant, where.thread, AGENT, run=True)
    found = await core.backend.look(scope)
    outline = await core.backend.outline(core.tenant, where.thread, only="lanes")
    if outline is None or is_foreign(outline.row, where.user):
        return None
    agents = tuple(lane.agent for lane in outline.lanes)
    return ThreadEntry(outline.row, agents, found.run, outline.now)


async def metadata(core: Core, threads: Sequence[str]) -> list[bytes | None]:
    """The encoded metadata of threads, empty where there is none; None where it is damaged."""
    shelf, key = METADATA
    listings = [ItemListing(thread, shelf, prefix=key, limit=1) for thread in threads]
    try:
        found = await core.backend.items(core.tenant, listings)
    except CheckpointIntegrityError:
        if len(threads) == 1:
            return [None]
        return [(await metadata(core, [thread]))[0] for thread in threads]
    return [rows[0].value if rows else b"" for rows in found]
