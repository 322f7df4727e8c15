"""The operations behind the client's methods, each written once as a coroutine over a `Core`.

Arguments are checked and states captured before these begin. Most await nothing but the backend and
are run by a driver. Those that turn stored values into Python's on the way are given the driver, so
that they stay with their caller: users' own functions may be called then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from lastgood.backend import Listing, Located, ThreadEntry
from lastgood.core import About, Core, Loaded
from lastgood.driver import Driver
from lastgood.errors import CheckpointExpiredError, CheckpointNotFoundError
from lastgood.ids import NAME_LIMIT, check_name, read_id
from lastgood.model import Header, Page, Sentinel, ThreadInfo, moment
from lastgood.removal_rules import Delete, Expire
from lastgood.rules import Save, ago
from lastgood.run_rules import status_of

JUST_NOW = 60.0


async def find(core: Core, ref: str) -> Located | None:
    """The checkpoint behind a ref, expired or not; None if there is none."""
    id = read_id(check_name(ref, "ref"))
    if id is None:
        return None
    return (await core.backend.find(core.tenant, [id])).get(id)


async def locate(core: Core, ref: str) -> Located:
    """The live checkpoint behind a ref, or an error that helps to find it."""
    found = await find(core, ref)
    if found is None:
        raise await _not_found(core, ref)
    if found.expired:
        raise CheckpointExpiredError(
            f"checkpoint {ref} of thread {found.session!r} is over its time.",
            hint="Give important checkpoints no ttl_seconds.",
        )
    return found


async def _not_found(core: Core, ref: str) -> CheckpointNotFoundError:
    census = await core.backend.census(core.tenant)
    age = (time.time_ns() // 1000 - census.created_at) / 1e6
    created = "just now" if age < JUST_NOW else ago(age)
    noun = "thread" if census.threads == 1 else "threads"
    return CheckpointNotFoundError(
        f"No checkpoint {ref!r} in {core.backend.url} "
        f"(created {created}, {census.threads} {noun}).",
        hint="Started from another directory? Pass the path." if not census.threads else "",
    )


async def save(core: Core, intent: Save) -> str:
    """Commit a checkpoint; its id."""
    return (await core.save(await core.on_parents_branch(intent))).label


async def restore(core: Core, ref: str, *, verify: bool) -> Loaded:
    """A checkpoint with its state."""
    return await core.load(await locate(core, ref), verify=verify)


async def handoff(
    core: Core,
    driver: Driver,
    ref: str,
    target: str,
    *,
    schema: str | None,
    note: str | None,
    ttl: float | Sentinel | None,
) -> str:
    """Give a state to another agent's lane."""
    source = await driver.run(locate(core, ref))
    header = core.header(source)
    noted = {} if note is None else {"handoff_note": note}
    about = About(
        agent=target,
        framework=header.framework,
        step=header.step_index + 1,
        step_name=f"handoff_to_{target}".encode()[:NAME_LIMIT].decode(errors="ignore"),
        ttl=ttl,
        context=header.agent_context,
        metadata={**header.metadata, **noted},
        target=target,
        schema=schema,
    )
    intent = Save(
        tenant=core.tenant,
        thread=source.session,
        draft=core.copy_draft(source.row, about),
        parent=source.row.id,
        takeover=True,
    )
    return (await driver.run(core.save(intent))).label


async def timeline(core: Core, listing: Listing) -> list[Loaded]:
    """Checkpoints with their states, newest first."""
    rows = await core.backend.history(core.tenant, listing)
    return [await core.load(located) for located in rows]


async def expire(core: Core, ref: str) -> bool:
    """Remove a checkpoint; whether it was there and live."""
    found = await find(core, ref)
    if found is None:
        return False
    intent = Expire(core.tenant, found.session, found.row.id)
    return bool((await core.backend.commit(intent)).answer)


async def latest(core: Core, thread: str, agent: str) -> Loaded | None:
    """The head of a lane's current branch."""
    tip = await core.tip(thread, agent)
    return None if tip is None else await core.load(tip)


async def delete(core: Core, thread: str) -> bool:
    """Remove a thread; whether it was there."""
    return bool((await core.backend.commit(Delete(core.tenant, thread))).answer)


async def log(
    core: Core, driver: Driver, listing: Listing, metadata: Mapping[str, Any]
) -> Page[Header]:
    """One page of headers; metadata is compared as values, not in the store's language."""
    kept: list[Header] = []
    before: int | None = listing.before
    while True:
        page = core.backend.history(core.tenant, listing._replace(before=before))
        rows = await driver.run(page)
        for located in rows:
            header = core.header(located)
            if all(_has(header.metadata, key, value) for key, value in metadata.items()):
                kept.append(header)
                if len(kept) == listing.limit:
                    return Page(kept, str(header.seq))
        if len(rows) < listing.limit:
            return Page(kept)
        before = rows[-1].row.seq


def _has(metadata: Mapping[str, Any], key: str, value: object) -> bool:
    return key in metadata and type(metadata[key]) is type(value) and metadata[key] == value


async def threads(core: Core, driver: Driver, after: int | None, limit: int) -> Page[ThreadInfo]:
    """One page of threads."""
    page = core.backend.threads(core.tenant, after=after, limit=limit)
    entries = await driver.run(page)
    infos = [_info(core, entry) for entry in entries]
    return Page(infos, str(entries[-1].row.thread) if len(entries) == limit else None)


def _info(core: Core, entry: ThreadEntry) -> ThreadInfo:
    row, run = entry.row, entry.run
    return ThreadInfo(
        thread_id=row.name,
        title=row.title or row.name,
        status=status_of(run, entry.now, core.options.stale_after_seconds),
        checkpoints=row.checkpoints,
        agents=entry.agents,
        last_step=row.last_step,
        size=row.size,
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
        user=row.owner,
        error=run.error if run else None,
        result=core.codec.unpack(run.result) if run and run.result else None,
    )
