"""Everything that a store answers as one comparable value, checked for soundness on the way.

`view(client)` reads a whole store through the client's own questions (threads, log, timeline,
latest, branches, tags) and raises `Unsound` when two answers contradict each other. Two views are
equal exactly if the stores hold the same: so "all or nothing" is
`view(after) in (before, intended)`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lastgood import BlockingClient, Checkpoint, CheckpointIntegrityError, Header, ThreadInfo
from lastgood.backend import Sort

PAGE = 500


class Unsound(AssertionError):
    """Two answers of one store contradict each other."""


@dataclass(frozen=True, slots=True)
class ThreadView:
    """All that can be seen of one thread."""

    status: str
    agents: tuple[str, ...]
    log: tuple[tuple[Any, ...], ...]
    """Newest first: (seq, id, parent, agent, branch, step, step name, checksum)."""
    heads: dict[str, str]
    states: dict[str, str] = field(repr=False)
    """Checkpoint ids to fingerprints of their states."""
    branches: tuple[tuple[str, str, bool, str | None], ...] = ()
    """(agent, name, whether it is current, the id of its head)."""
    tags: dict[str, str] = field(default_factory=dict)


View = dict[str, ThreadView]


def fingerprint(state: object) -> str:
    """A hash of a state that owes nothing to Lastgood's own."""
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


def view(client: BlockingClient) -> View:
    """Read everything; raises Unsound, or whatever LastgoodError a question raises."""
    return {info.thread_id: _thread(client, info) for info in all_threads(client)}


def all_threads(
    client: BlockingClient, sort: Sort = "updated", user: str | None = None
) -> Iterator[ThreadInfo]:
    """Every thread, or every one of a user, page by page; raises if one is said to be damaged."""
    after: str | None = None
    while True:
        page = client.threads(limit=PAGE, after=after, sort=sort, user=user)
        for info in page:
            if info.status == "damaged":
                raise CheckpointIntegrityError(f"{info.thread_id}: {info.error}")
            yield info
        if (after := page.next) is None:
            return


def whole_log(client: BlockingClient, thread: str) -> list[Header]:
    """Every header of a thread, newest first."""
    found: list[Header] = []
    after: str | None = None
    while True:
        page = client.log(thread, limit=PAGE, after=after)
        found.extend(page)
        if (after := page.next) is None:
            return found


def _thread(client: BlockingClient, info: ThreadInfo) -> ThreadView:
    name = info.thread_id
    log = whole_log(client, name)
    heads: dict[str, str] = {}
    states: dict[str, str] = {}
    for agent in info.agents:
        line = client.timeline(agent, name, limit=max(1, info.checkpoints))
        _expect(
            _own(line, agent) == _own(log, agent), name, f"timeline and log of {agent!r} differ"
        )
        states |= {found.checkpoint_id: _state(found) for found in line}
        head = client.latest(agent_id=agent, session_id=name)
        if head is not None:
            heads[agent] = head.checkpoint_id
            _expect(states.get(heads[agent]) == _state(head), name, f"{agent!r}: the head differs")
    _check(info, log, states)
    return ThreadView(
        status=info.status,
        agents=info.agents,
        log=tuple(_entry(header) for header in log),
        heads=heads,
        states=states,
        branches=_branches(client, name, heads),
        tags=client.tags(name),
    )


def _branches(
    client: BlockingClient, name: str, heads: dict[str, str]
) -> tuple[tuple[str, str, bool, str | None], ...]:
    found = client.branches(name)
    followed = {b.agent_id: b.head.checkpoint_id for b in found if b.current and b.head}
    _expect(followed == heads, name, "the current branches and the heads differ")
    return tuple(
        (b.agent_id, b.name, b.current, b.head.checkpoint_id if b.head else None) for b in found
    )


def _check(info: ThreadInfo, log: list[Header], states: dict[str, str]) -> None:
    name = info.thread_id
    seqs = [header.seq for header in log]
    _expect(seqs == sorted(set(seqs), reverse=True), name, f"the log is out of order: {seqs}")
    _expect(len(log) <= info.checkpoints, name, f"{len(log)} of {info.checkpoints} are listed")
    _expect({h.checkpoint_id for h in log} == set(states), name, "a state of the log is missing")


def _own(found: list[Any], agent: str) -> list[str]:
    return [header.checkpoint_id for header in found if header.agent_id == agent]


def _state(found: Checkpoint) -> str:
    _expect(found.verify_integrity(), found.session_id, f"{found.name} does not give its checksum")
    return fingerprint(found.execution_state)


def _entry(header: Header) -> tuple[Any, ...]:
    return (
        header.seq,
        header.checkpoint_id,
        header.parent_id,
        header.agent_id,
        header.branch,
        header.step_index,
        header.step_name,
        header.checksum,
    )


def _expect(holds: bool, thread: str, message: str) -> None:
    if not holds:
        raise Unsound(f"thread {thread!r}: {message}")
