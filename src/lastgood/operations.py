"""The operations behind the client's methods, each written once as a coroutine over a `Core`.

Arguments are checked and states captured before these begin. Most await nothing but the backend and
are run by a driver. Those that turn stored values into Python's on the way are given the driver, so
that they stay with their caller: users' own functions may be called then.
"""

from __future__ import annotations

from lastgood.backend import Listing, Located
from lastgood.core import About, Core, Loaded
from lastgood.driver import Driver
from lastgood.errors import CheckpointNotFoundError
from lastgood.ids import NAME_LIMIT
from lastgood.model import Sentinel
from lastgood.refs import Address
from lastgood.removal_rules import Delete, Expire
from lastgood.resolving import agent_in, find, locate, located
from lastgood.rules import Save


async def save(core: Core, intent: Save, parent: Address | None = None) -> str:
    """Commit a checkpoint, on top of the parent if it was given by its address; its id."""
    if parent is not None:
        found = await located(core, parent, intent.draft.agent)
        intent = intent._replace(parent=found.row.id)
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
        kind="handoff",
    )
    return (await driver.run(core.save(intent))).label


async def timeline(core: Core, listing: Listing) -> list[Loaded]:
    """Checkpoints with their states, newest first."""
    listed = await core.backend.history(core.tenant, listing)
    while True:
        try:
            return await _loaded(core, listed)
        except CheckpointNotFoundError:  # removed meanwhile: others are listed by now
            before, listed = listed, await core.backend.history(core.tenant, listing)
            if listed == before:
                raise


async def _loaded(core: Core, newest_first: list[Located]) -> list[Loaded]:
    found: list[Loaded] = []
    for each in reversed(newest_first):
        near = found[-1].stored if found else None
        found.append(await core.load(each, near=near))
    return found[::-1]


async def expire(core: Core, ref: str) -> bool:
    """Remove a checkpoint; whether it was there and live."""
    found = await find(core, ref)
    if found is None:
        return False
    intent = Expire(core.tenant, found.session, found.row.id)
    return bool((await core.backend.commit(intent)).answer)


async def latest(core: Core, thread: str, agent: str | None) -> Loaded | None:
    """The head of the current branch of a lane, the only one if none is named."""
    agent = agent or await agent_in(core, thread)
    if agent is None:
        return None
    tip = await core.tip(thread, agent)
    while tip is not None:
        try:
            return await core.load(tip)
        except CheckpointNotFoundError:  # removed meanwhile: another one is the head by now
            before, tip = tip, await core.tip(thread, agent)
            if tip is not None and tip.row.id == before.row.id:
                raise
    return None


async def delete(core: Core, thread: str) -> bool:
    """Remove a thread; whether it was there."""
    return bool((await core.backend.commit(Delete(core.tenant, thread))).answer)
