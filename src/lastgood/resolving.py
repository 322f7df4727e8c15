"""From a ref to the checkpoint it names, or to an error that helps to find it.

Operations over a `Core`; they await nothing but the backend.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

from lastgood import refs
from lastgood.backend import Inside, Located, Outline
from lastgood.commits import Scope
from lastgood.core import Core
from lastgood.errors import (
    CheckpointExpiredError,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    remade,
)
from lastgood.refs import Address
from lastgood.thread_rules import ago

JUST_NOW = 60.0
FIRST, STRIDE = 8, 256
"""How many ancestors are read at a time."""


async def find(
    core: Core, ref: str, thread: str | None = None, agent: str | None = None
) -> Located | None:
    """The checkpoint behind a ref, expired or not; None if there is none.

    `thread` and `agent` are what the caller speaks of anyway: they are meant where the ref names
    none and there are several.
    """
    parsed = refs.parse(ref, thread)
    if isinstance(parsed, Address):
        return await _select(core, parsed, agent)
    if parsed is None:
        return None
    return (await core.backend.find(core.tenant, [parsed])).get(parsed)


async def locate(
    core: Core, ref: str, thread: str | None = None, agent: str | None = None
) -> Located:
    """The live checkpoint behind a ref; raises CheckpointNotFoundError or ...ExpiredError."""
    found = await find(core, ref, thread, agent)
    if found is None:
        raise await _not_found(core, ref, thread)
    return _live(found, ref)


async def located(core: Core, address: Address, agent: str) -> Located:
    """The same for an address that was read already."""
    found = await _select(core, address, agent)
    if found is None:
        raise await _not_found(core, str(address))
    return _live(found, str(address))


def _live(found: Located, ref: str) -> Located:
    if found.expired:
        raise CheckpointExpiredError(
            f"checkpoint {ref} of thread {found.session!r} is over its time.",
            hint="Give important checkpoints no ttl_seconds.",
        )
    return found


async def lineage(core: Core, start: Located, limit: int) -> list[Located]:
    """A checkpoint that was just found, and what it follows; none if it was removed meanwhile.

    One that its id does not lead to any more, though it is there, is damage: the line does not end.
    """
    found = await core.backend.lineage(core.tenant, start.row.id, limit)
    if not found:
        there = await core.backend.at(core.tenant, start.session, start.row.seq)
        if there is not None and there.row.id == start.row.id:
            raise CheckpointIntegrityError(
                f"{refs.short_name(start.session, start.row.seq)} is there, and its id,"
                f" {start.row.label}, does not lead to it: an index of the store is damaged."
            )
    return found


async def onward(core: Core, seen: list[Located], limit: int) -> list[Located]:
    """What the last of some checkpoints follows, which each other follow, newest first.

    Those that were removed since they were seen lead nowhere; what followed them leads past them.
    """
    for known in reversed(seen):
        found = await lineage(core, known, limit + 1)
        if found:
            return found[1:]
    raise CheckpointNotFoundError(
        f"{refs.short_name(seen[0].session, seen[0].row.seq)}, whose line was read, was removed"
        " meanwhile.",
        hint="Ask again.",
    )


async def ancestors(core: Core, start: Located) -> AsyncIterator[Located]:
    """A checkpoint and all that it follows, expired ones too; few at first, then more at a time.

    Damage is raised where it stands, behind all that comes before it: what was read ahead may not
    be needed.
    """
    stride = FIRST
    seen: list[Located] = []
    while True:
        try:
            found = await (onward(core, seen, stride) if seen else lineage(core, start, stride))
        except CheckpointIntegrityError:
            if stride == 1:
                raise
            stride //= 2
            continue
        for located in found:
            yield located
        if len(found) < stride:
            return
        seen, stride = found, min(2 * stride, STRIDE)


async def _select(core: Core, address: Address, meant: str | None) -> Located | None:
    thread, agent, selector, value = address
    if selector == "seq":
        assert isinstance(value, int)
        found = await core.backend.at(core.tenant, thread, value)
        return found if found is None or agent in (None, found.agent) else None
    if selector == "tag":
        return await _tagged(core, address)
    agent = agent or await agent_in(core, thread, meant, address)
    if agent is None:
        return None
    branch = str(value) if selector == "branch" else None
    tip = await core.tip(thread, agent, branch)
    if tip is None or selector in ("head", "branch") or (selector, value) == ("back", 0):
        return tip
    assert isinstance(value, int)
    return await _on_the_line(core, tip, selector, value)


async def _on_the_line(core: Core, tip: Located, selector: str, value: int) -> Located | None:
    """Counting back, or looking for a step, among what is live on the line."""
    back = 0
    async for located in ancestors(core, tip):
        if located.expired:
            continue
        if value == (back if selector == "back" else located.row.step):
            return located
        back += 1
    return None


async def _tagged(core: Core, address: Address) -> Located | None:
    scope = Scope(core.tenant, address.thread, tag=str(address.value))
    tag = (await core.backend.look(scope)).tag
    if tag is None:
        return None
    found = (await core.backend.find(core.tenant, [tag.checkpoint])).get(tag.checkpoint)
    if found is None or found.session != address.thread:
        return None  # removed, and the id may be in use elsewhere
    return found if address.agent in (None, found.agent) else None


class SeveralAgentsError(ValueError):
    """A thread has several agents, and none of them was named."""

    def __init__(self, thread: str, agents: Sequence[str], asked: Address | None = None) -> None:
        asked = asked or Address(thread, None, "head")
        self.agents = agents
        self.ref = str(asked._replace(agent=agents[0]))
        self.found = f"thread {thread!r} has {len(agents)} agents: {', '.join(agents[:10])}."
        super().__init__(f"{self.found} Name one: agent_id=..., or '{self.ref}'.")

    def __reduce__(self) -> tuple[object, ...]:
        return remade, (type(self), self.args, vars(self))


async def outlined(core: Core, thread: str, only: Inside | None = None) -> Outline:
    """A thread from inside; it must be there."""
    outline = await core.backend.outline(core.tenant, thread, only=only)
    if outline is None:
        raise await _not_found(core, f"{refs.quote(thread)}@")
    return outline


async def only_agent(core: Core, thread: str) -> str:
    """The agent of a thread: its only one, or the one above all others. Names them otherwise."""
    found = _only(thread, await outlined(core, thread, "lanes"), None)
    if found is None:
        raise CheckpointNotFoundError(f"thread {thread!r} has no checkpoint yet.")
    return found


async def check_agent(core: Core, thread: str, agent: str) -> None:
    """Raise CheckpointNotFoundError for a thread that is not there, or has no such agent."""
    if (await core.backend.look(Scope(core.tenant, thread, agent))).lane is None:
        raise await _not_found(core, str(Address(thread, agent, "head")))


async def agent_in(
    core: Core, thread: str, meant: str | None = None, asked: Address | None = None
) -> str | None:
    """The agent that an address is about which names none; None if there is no agent yet."""
    outline = await core.backend.outline(core.tenant, thread, only="lanes")
    return None if outline is None else _only(thread, outline, meant, asked)


def _only(
    thread: str, outline: Outline, meant: str | None, asked: Address | None = None
) -> str | None:
    agents = [lane.agent for lane in outline.lanes]
    if len(agents) < 2:
        return agents[0] if agents else None
    if meant in agents:
        return meant
    if above := [agent for agent in agents if _is_above(agent, agents)]:
        return above[0]
    raise SeveralAgentsError(thread, agents, asked)


def _is_above(agent: str, agents: Sequence[str]) -> bool:
    """Whether all others are below it, as the subgraphs `graph|node:id` are below `graph`."""
    return all(other == agent or other.startswith(f"{agent}|") for other in agents)


async def _not_found(core: Core, ref: str, thread: str | None = None) -> CheckpointNotFoundError:
    census = await core.backend.census(core.tenant)
    age = (time.time_ns() // 1000 - census.created_at) / 1e6
    created = "just now" if age < JUST_NOW else ago(age)
    return CheckpointNotFoundError(
        f"No checkpoint {ref!r} in {core.backend.url} "
        f"(created {created}, {_threads(census.threads, core.tenant)}).",
        hint=await _hint(core, ref, thread, census.threads),
    )


def _threads(count: int, tenant: str) -> str:
    """How many there are; none may mean that they are another tenant's."""
    if not count:
        return f"0 threads of tenant {tenant!r}"
    return f"{count} {'thread' if count == 1 else 'threads'}"


async def _hint(core: Core, ref: str, thread: str | None, threads: int) -> str:
    if not threads:
        if core.backend.blocking:
            return (
                "Started from another directory, or for another tenant? Pass the path, or tenant=."
            )
        return "Is it in another database, schema, prefix or tenant?"
    parsed = refs.parse(ref, thread)
    if isinstance(parsed, Address):
        outline = await core.backend.outline(core.tenant, parsed.thread)
        if outline is not None:
            return _neighbours(parsed, outline)
    if thread is not None and ref.isdecimal():
        return f"For the checkpoint with that number write '@{ref}'."
    whole = ref.rpartition("@")[0] or ref
    if await core.backend.outline(core.tenant, whole, only="lanes") is None:
        return ""
    return f"For the thread {whole!r} write '{refs.quote(whole)}@'."


def _newest(outline: Outline) -> str:
    """The newest one that can be read: what was saved last may be gone."""
    seqs = [row.seq for _, row in outline.branches if row is not None]
    if not seqs:
        return "All checkpoints of the thread were removed or are over their time."
    return f"The newest checkpoint of the thread is @{max(seqs)}."


def _neighbours(address: Address, outline: Outline) -> str:
    """What there is to choose from in place of what is not there."""
    agents = [lane.agent for lane in outline.lanes]
    if agents and address.agent is not None and address.agent not in agents:
        return f"The thread has no agent {address.agent!r}, but {', '.join(agents[:10])}."
    if address.selector == "tag":
        names = {tag.name for tag in outline.tags}
        if address.value in names:
            return "The tag is there, but its checkpoint was removed or is another agent's."
    elif address.selector == "branch":
        names = {branch.name for branch, _ in outline.branches}
    elif not outline.row.seq:
        return "The thread has no checkpoint yet."
    else:
        return _newest(outline)
    shown = ", ".join(sorted(names)[:10]) or "none"
    return f"What the thread has of that kind: {shown}."
