"""Fork, rewind, undo, switch and tags: operations over a `Core`.

History stays as it is: a fork and a rewind commit a new checkpoint that shares the pages of the
one they begin at, and the others only say which branch a lane follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from lastgood import paths, registry
from lastgood.alias_rules import SaveAs
from lastgood.backend import Located
from lastgood.building import build_state
from lastgood.commits import Place, Scope, Writes
from lastgood.core import About, Core, Loaded
from lastgood.driver import Driver
from lastgood.editing import edited
from lastgood.ids import new_id, show_id
from lastgood.losses import carried, listed, read_losses
from lastgood.model import INHERIT, Move
from lastgood.move_rules import Switch, Tag, Undo, Untag
from lastgood.resolving import locate, only_agent
from lastgood.rows import CheckpointRow, MoveRow
from lastgood.rules import Draft, Save

Edits = Mapping[str, Any] | Callable[[Any], Any]


class Moved(NamedTuple):
    """A move as the store has it: the entry, and what is current now."""

    session: str
    agent: str
    entry: MoveRow
    head: CheckpointRow | None


def moved(core: Core, found: Moved) -> Move:
    """A move as callers see it."""
    head = found.head and core.header(Located(found.head, found.session, found.agent, False))
    entry = found.entry
    return Move(entry.kind, found.session, found.agent, entry.old_branch, entry.new_branch, head)


# forks


async def fork(
    core: Core,
    driver: Driver,
    ref: str,
    *,
    branch: str | None,
    edits: Edits | None,
    remove: Iterable[str],
    switch: bool,
) -> str:
    """A line of its own from any checkpoint; its id."""
    loaded = await driver.run(_whole(core, ref))
    copy, removed = _copy(core, loaded.located, "fork_of"), tuple(remove)
    if edits is None and not removed:
        draft = core.copy_draft(loaded.located.row, copy.about)
    else:
        draft = _edited_draft(core, loaded, copy.about, edits or {}, removed)
    intent = _beside(core, loaded.located, draft)
    intent = intent._replace(branch=branch, switch=switch, kind="fork")
    return (await driver.run(_saved(core, intent, copy.alias)))[0].label


async def _whole(
    core: Core, ref: str, thread: str | None = None, agent: str | None = None
) -> Loaded:
    """A checkpoint of which every page is there: nobody is led to one that cannot be restored."""
    return await core.load(await locate(core, ref, thread, agent))


def _edited_draft(
    core: Core, loaded: Loaded, about: About, edits: Edits, remove: tuple[str, ...]
) -> Draft:
    source, state = loaded.located, build_state(core.codec, loaded.stored.tree)
    if callable(edits):
        returned = edits(state)
        state = state if returned is None else returned
        edits = {}
    if edits or remove:
        state = edited(core.codec, state, edits, remove)
    captured = core.encode(state, source.session, source.agent, source.row.id)
    changed = [paths.parse(path) for path in (*edits, *remove)]
    lost = carried(read_losses(source.row.losses), changed)
    return core.draft(captured._replace(losses=listed((*lost, *captured.losses))), about)


class Copy(NamedTuple):
    """What a copy says of itself, and its alias where its framework has such."""

    about: About
    alias: Place | None


def _copy(core: Core, source: Located, verb: str) -> Copy:
    """All that the source says of itself, but the name of the step and a framework's own id."""
    header = core.header(source)
    about = About(
        agent=source.agent,
        framework=header.framework,
        step=header.step_index,
        step_name=f"{verb}_{header.seq}",
        ttl=INHERIT,
        context=header.agent_context,
        metadata=header.metadata,
    )
    named = registry.renamed(
        source.row.framework, source.session, source.agent, header.agent_context, header.metadata
    )
    if named is None:
        return Copy(about, None)
    return Copy(about._replace(context=named.context, metadata=named.metadata), named.place)


def _beside(core: Core, source: Located, draft: Draft) -> Save:
    return Save(core.tenant, source.session, draft, parent=source.row.id)


async def _saved(core: Core, intent: Save, alias: Place | None) -> tuple[CheckpointRow, Writes]:
    intent = await core.with_base(intent)
    writes = await core.backend.commit(intent if alias is None else SaveAs(intent, alias))
    return core.committed(intent, writes), writes


async def rewind(core: Core, driver: Driver, thread: str, to: str, agent: str | None) -> Move:
    """Go on from an earlier checkpoint; the line that is left stays as a branch."""
    target = (await driver.run(_whole(core, to, thread, agent))).located
    if target.session != thread or agent not in (None, target.agent):
        raise ValueError(
            f"{to} is in {target.session}/{target.agent}, not in {thread}"
            f"{'' if agent is None else f'/{agent}'}. Use fork() or handoff() to go elsewhere."
        )
    copy = _copy(core, target, "rewind_to")
    draft = core.copy_draft(target.row, copy.about)
    intent = _beside(core, target, draft)._replace(kind="rewind")
    return moved(core, await driver.run(_committed(core, intent, copy.alias)))


async def _committed(core: Core, intent: Save, alias: Place | None) -> Moved:
    row, writes = await _saved(core, intent, alias)
    entry = writes.move or await _entry_of(core, intent, row)
    return Moved(intent.thread, intent.draft.agent, entry, row)


async def _entry_of(core: Core, intent: Save, row: CheckpointRow) -> MoveRow:
    """The entry that a rewind made which turned out to have happened before."""
    scope = Scope(core.tenant, intent.thread, intent.draft.agent, move=True)
    newest = (await core.backend.look(scope)).move
    if newest is not None and newest.id == row.id:
        return newest
    place, branch = (row.thread, row.lane, 0, row.id), row.branch
    return MoveRow(*place, intent.kind, branch, branch, row.created_at)


# which branch a lane follows


async def switch(core: Core, thread: str, branch: str, agent: str | None) -> Moved:
    """Follow another branch."""
    agent = agent or await only_agent(core, thread)
    return await _follow(core, Switch(core.tenant, thread, agent, branch, new_id()))


async def undo(core: Core, thread: str, agent: str | None) -> Moved:
    """Follow the branch that was current before the last move."""
    agent = agent or await only_agent(core, thread)
    return await _follow(core, Undo(core.tenant, thread, agent, new_id()))


async def _follow(core: Core, intent: Switch | Undo) -> Moved:
    entry = (await core.backend.commit(intent)).answer
    assert isinstance(entry, MoveRow)
    scope = Scope(core.tenant, intent.thread, intent.agent, entry.new_branch)
    return Moved(intent.thread, intent.agent, entry, (await core.backend.look(scope)).tip)


# tags


async def tag(core: Core, ref: str, name: str) -> str | None:
    """Name a checkpoint; the id that the tag named before."""
    source = await locate(core, ref)
    intent = Tag(core.tenant, source.session, name, source.row.id)
    before = (await core.backend.commit(intent)).answer
    return None if before is None else show_id(before.checkpoint)  # type: ignore[attr-defined]


async def untag(core: Core, thread: str, name: str) -> bool:
    """Take a tag away; whether it was there."""
    return bool((await core.backend.commit(Untag(core.tenant, thread, name))).answer)
