"""All operations in any order, on every contract backend, against a model made of dicts.

The model knows the rules of design.md (sections 4 and 5) and nothing of rows, pages or backends.
After every step the store must answer like the model, in a client with an empty cache.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lastgood import (
    BlockingClient,
    CheckpointConflictError,
    CheckpointNotFoundError,
    LastgoodError,
    StaleWriterError,
    ThreadDeletedError,
)
from lastgood.model import HEAD
from lastgood.testing import harness_for
from lastgood.testing.suite import contract_schemes, server_marks

threads = st.sampled_from(["s", "s", "s", "t"])
agents = st.sampled_from(["a", "a", "a", "b"])
branches = st.sampled_from([None, None, None, "main", "side"])
lifetimes = st.sampled_from([None, None, None, 5, 50])
policies = st.sampled_from(["branch", "reject"])
picks = st.integers(0, 10**6)


def state_of(number: int, size: int) -> dict[str, Any]:
    return {"n": number, "m": [f"message {i} " * 9 for i in range(size)], "deep": {"l": [number]}}


states = st.builds(state_of, st.integers(0, 5), st.sampled_from([0, 0, 3, 90]))


@dataclass
class Row:
    id: str
    seq: int
    agent: str
    branch: str
    parent: Row | None
    state: Any
    step: int
    expires: float | None
    source: str | None = None
    removed: bool = False


@dataclass
class Thread:
    life: int
    seq: int = 0
    rows: dict[str, Row] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    heads: dict[tuple[str, str], Row | None] = field(default_factory=dict)
    entries: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The newest run of each agent, and how often it was entered."""
    done: dict[str, int] = field(default_factory=dict)
    """Runs that have a result, and which entry gave it."""


@dataclass
class OpenRun:
    """What the model knows of a run that was entered."""

    handle: Any
    context: Any
    thread: str
    agent: str
    life: int
    base: Row | None
    branch: str | None
    asked: str | None
    """The branch that it was entered on; None for whatever branch is current."""


class Machine(RuleBasedStateMachine):
    scheme = ""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.harness = harness_for(self.scheme, Path(self.place.name))
        self.harness.reuse()
        self.harness.time.stop()
        self.clients = [
            BlockingClient.on(self.harness.backend(), heartbeat_seconds=600) for _ in range(2)
        ]
        self.threads: dict[str, Thread] = {}
        self.lives = 0
        self.runs: list[OpenRun] = []
        self.gone: list[tuple[str, str]] = []

    def teardown(self) -> None:
        for run in self.runs:
            with contextlib.suppress(LastgoodError):
                run.context.__exit__(None, None, None)
        for client in self.clients:
            client.close()
        self.harness.close()
        self.place.cleanup()

    # the model

    @property
    def now(self) -> float:
        return self.harness.time.shift

    def alive(self, row: Row | None) -> bool:
        return (
            row is not None and not row.removed and (row.expires is None or row.expires > self.now)
        )

    def before(self, row: Row) -> Row | None:
        """The nearest ancestor in the lane that was not removed."""
        parent = row.parent
        while parent is not None and parent.agent == row.agent and parent.removed:
            parent = parent.parent
        return parent if parent is not None and parent.agent == row.agent else None

    def tip(self, head: Row | None) -> Row | None:
        while head is not None and not self.alive(head):
            head = self.before(head)
        return head

    def head(self, thread: Thread, agent: str, branch: str | None) -> tuple[str, bool, Row | None]:
        """The name meant, whether that branch is there, and the head that is followed."""
        current = thread.current.get(agent, "main")
        name = branch or current
        known = (agent, name) in thread.heads
        return name, known, thread.heads.get((agent, name if known else current))

    def line(self, thread: Thread, agent: str, parent: Any, branch: str | None, policy: str) -> Any:
        """(parent, branch, becomes current), with None for a side branch's name; or an error."""
        if isinstance(parent, Row) and branch is None and parent.agent == agent:
            current, _, head = self.head(thread, agent, None)
            branch = current if self.tip(head) is parent else parent.branch
        name, known, head = self.head(thread, agent, branch)
        new_lane = agent not in thread.current
        tip = self.tip(head)
        if parent is HEAD:
            return tip, name, new_lane
        if parent is None:
            if tip is None:
                return None, name, True
            if policy == "reject":
                return StaleWriterError
            return None, None if known else name, True
        if not self.alive(parent) and parent is not head:
            return CheckpointNotFoundError
        if new_lane or head is None or (branch is not None and not known) or parent in (head, tip):
            return parent, name, new_lane
        return StaleWriterError if policy == "reject" else (parent, None, False)

    def keep(self, name: str, agent: str, saved: str, line: Any, **more: Any) -> Row:
        """Put a committed checkpoint into the model; check what the store says of it."""
        thread = self.threads[name]
        parent, branch, current = line
        found = self.clients[1].restore(saved)
        thread.seq += 1
        step = 0 if parent is None else parent.step + 1
        row = Row(saved, thread.seq, agent, branch or found.branch, parent, step=step, **more)
        assert found.parent_id == (parent.id if parent else None)
        assert (found.seq, found.step_index, found.branch) == (row.seq, row.step, row.branch)
        if branch is None:
            assert (agent, row.branch) not in thread.heads, "a side branch has a name of its own"
        thread.rows[saved] = row
        thread.heads[agent, row.branch] = row
        if current or agent not in thread.current:
            thread.current[agent] = row.branch
        return row

    def opened(self, name: str) -> Thread:
        if name not in self.threads:
            self.lives += 1
            self.threads[name] = Thread(self.lives)
        return self.threads[name]

    def pick(self, number: int, thread: str | None = None) -> tuple[str, Row] | None:
        """Any checkpoint that was ever committed in a thread that lives."""
        rows = [
            (n, row)
            for n, t in self.threads.items()
            for row in t.rows.values()
            if thread in (None, n)
        ]
        return rows[number % len(rows)] if rows else None

    def expiry(self, ttl: float | None) -> float | None:
        return None if ttl is None else self.now + ttl

    # saving

    @rule(
        name=threads, agent=agents, state=states, branch=branches, ttl=lifetimes, who=st.booleans()
    )
    def save(
        self, name: str, agent: str, state: Any, branch: str | None, ttl: float | None, who: bool
    ) -> None:
        thread = self.opened(name)
        line = self.line(thread, agent, HEAD, branch, "branch")
        saved = self.clients[who].save(
            agent, execution_state=state, session_id=name, branch=branch, ttl_seconds=ttl
        )
        self.keep(name, agent, saved, line, state=state, expires=self.expiry(ttl))

    @rule(
        number=picks,
        agent=agents,
        state=states,
        branch=branches,
        policy=policies,
        who=st.booleans(),
    )
    def save_with_parent(
        self, number: int, agent: str, state: Any, branch: str | None, policy: Any, who: bool
    ) -> None:
        found = self.pick(number)
        if found is None:
            return
        name, parent = found
        self.save_explicit(name, agent, parent, state, branch, policy, who)

    @rule(
        name=threads,
        agent=agents,
        state=states,
        branch=branches,
        policy=policies,
        who=st.booleans(),
    )
    def start_over(
        self, name: str, agent: str, state: Any, branch: str | None, policy: Any, who: bool
    ) -> None:
        self.save_explicit(name, agent, None, state, branch, policy, who)

    def save_explicit(
        self,
        name: str,
        agent: str,
        parent: Row | None,
        state: Any,
        branch: str | None,
        policy: Any,
        who: bool,
    ) -> None:
        fresh = name not in self.threads
        thread = self.opened(name)
        line = self.line(thread, agent, parent, branch, policy)
        parent_id = parent.id if parent else None
        options = {"parent_id": parent_id, "branch": branch, "on_conflict": policy}
        if isinstance(line, type):
            with pytest.raises((line, CheckpointNotFoundError, ThreadDeletedError)):
                self.clients[who].save(agent, execution_state=state, session_id=name, **options)
            if fresh:
                del self.threads[name]
            return
        saved = self.clients[who].save(agent, execution_state=state, session_id=name, **options)
        self.keep(name, agent, saved, line, state=state, expires=None)

    @rule(number=picks, who=st.booleans())
    def save_again_under_the_same_id(self, number: int, who: bool) -> None:
        found = self.pick(number)
        if found is None or not self.alive(found[1]) or found[1].source is not None:
            return
        name, row = found
        client = self.clients[who]
        same = client.save(
            row.agent, execution_state=row.state, session_id=name, checkpoint_id=row.id
        )
        assert same == row.id
        with pytest.raises(CheckpointConflictError):
            client.save(
                row.agent, execution_state={"other": 1}, session_id=name, checkpoint_id=row.id
            )

    @rule(number=picks, receiver=agents, who=st.booleans())
    def handoff(self, number: int, receiver: str, who: bool) -> None:
        found = self.pick(number)
        if found is None:
            return
        name, source = found
        if not self.alive(source):
            with pytest.raises(CheckpointNotFoundError):
                self.clients[who].handoff(source.id, receiver)
            return
        thread = self.threads[name]
        branch, _, head = self.head(thread, receiver, None)
        tip = self.tip(head)
        saved = self.clients[who].handoff(source.id, receiver)
        line = (source, None if tip else branch, True)
        self.keep(
            name,
            receiver,
            saved,
            line,
            state=source.state,
            expires=source.expires,
            source=source.agent,
        )

    # runs

    @rule(
        name=threads,
        agent=agents,
        branch=branches,
        state=states,
        given=st.booleans(),
        who=st.booleans(),
    )
    def enter(
        self, name: str, agent: str, branch: str | None, state: Any, given: bool, who: bool
    ) -> None:
        if len(self.runs) > 3:
            return
        thread = self.opened(name)
        line = self.line(thread, agent, None, branch, "reject")
        context = self.clients[who].run(
            name, agent_id=agent, branch=branch, initial=state if given else None
        )
        handle = context.__enter__()
        if isinstance(line, tuple):
            base = None
            thread.current.setdefault(agent, branch or "main")
            if given:
                base = self.keep(name, agent, handle.base, line, state=state, expires=None)
        else:
            base = self.tip(self.head(thread, agent, branch)[2])
        assert handle.base == (base.id if base else None)
        assert handle.state == (base.state if base else None)
        self.runs.append(
            OpenRun(handle, context, name, agent, thread.life, base, handle.branch, branch)
        )
        thread.entries[agent] = handle.run_id, handle.attempt

    @rule(number=picks, state=states, append=st.booleans())
    def step(self, number: int, state: Any, append: bool) -> None:
        if not self.runs:
            return
        run = self.runs[number % len(self.runs)]
        if append and run.base is None:
            return
        thread = self.threads.get(run.thread)
        lives = thread is not None and thread.life == run.life
        line = (
            self.line(thread, run.agent, run.base, run.branch, "reject")
            if lives and thread
            else ThreadDeletedError
        )
        follows = lives and thread and run.base and run.asked is None
        if follows and thread.current.get(run.agent) != run.branch:
            line = StaleWriterError
        if isinstance(line, type):
            with pytest.raises(
                (line, CheckpointNotFoundError, ThreadDeletedError, StaleWriterError)
            ):
                self._step(run, state, append=append)
            return
        saved, state = self._step(run, state, append=append)
        run.base = self.keep(run.thread, run.agent, saved, line, state=state, expires=None)
        run.branch = run.handle.branch

    def _step(self, run: OpenRun, state: Any, *, append: bool) -> tuple[str, Any]:
        if not append:
            return run.handle.save(state), state
        base = run.base.state if run.base else {}
        run.handle.state = {
            **base,
            "m": list(base.get("m", ())),
            "deep": {"l": list(base["deep"]["l"])},
        }
        grown = {**base, "deep": {"l": [*base["deep"]["l"], "x" * 50]}}
        return run.handle.append("deep.l", "x" * 50), grown

    @rule(number=picks, how=st.sampled_from(["end", "error", "crash", "finish"]))
    def leave(self, number: int, how: str) -> None:
        if not self.runs:
            return
        run = self.runs.pop(number % len(self.runs))
        if how == "finish":
            self._finish(run)
        if how == "crash":
            inner = run.context._direct
            inner._core.pulse.remove(inner)
        else:
            error = ValueError("x") if how == "error" else None
            run.context.__exit__(type(error) if error else None, error, None)

    def _finish(self, run: OpenRun) -> None:
        """Refused to who was overtaken: by another run, or, on a head that has moved, by somebody
        who entered this one later or has given it a result.
        """
        thread = self.threads.get(run.thread)
        if thread is None or thread.life != run.life:
            with pytest.raises(ThreadDeletedError):
                run.handle.finish({"done": True})
            return
        newest, attempt = thread.entries[run.agent]
        head = self.head(thread, run.agent, run.asked)[2]
        moved = head is not None and head.seq > (run.base.seq if run.base else 0)
        me = run.handle.attempt
        others = attempt != me or thread.done.get(newest, me) != me
        if newest != run.handle.run_id or (moved and others):
            with pytest.raises(StaleWriterError):
                run.handle.finish({"done": True})
            return
        thread.done[newest] = me
        run.handle.finish({"done": True})

    # removal and time

    @rule(number=picks, who=st.booleans())
    def expire(self, number: int, who: bool) -> None:
        found = self.pick(number)
        if found is None:
            assert self.clients[who].expire(str(uuid4())) is False
            return
        self.remove(*found, who=who)

    @rule(name=threads, agent=agents, branch=branches, times=st.integers(1, 3), who=st.booleans())
    def expire_heads(
        self, name: str, agent: str, branch: str | None, times: int, who: bool
    ) -> None:
        for _ in range(times):
            thread = self.threads.get(name)
            head = self.head(thread, agent, branch)[2] if thread else None
            if head is not None:
                self.remove(name, head, who=who)

    def remove(self, name: str, row: Row, *, who: bool) -> None:
        assert self.clients[who].expire(row.id) is self.alive(row)
        self.forget(self.threads[name], row)

    def forget(self, thread: Thread, row: Row) -> None:
        for key, head in thread.heads.items():
            if head is row:
                thread.heads[key] = self.before(row)
        row.removed = True

    @rule(who=st.booleans())
    def sweep(self, who: bool) -> None:
        assert self.clients[who].sweep(grace_seconds=0).skipped == ()
        for name, thread in list(self.threads.items()):
            stored = [row for row in reversed(thread.rows.values()) if not row.removed]
            over = [row for row in stored if not self.alive(row)]
            for row in over:
                self.forget(thread, row)
            if over == stored != []:
                del self.threads[name]
                self.gone += [(name, row.id) for row in over]
        client = BlockingClient.on(self.harness.backend())
        assert client.verify(data=True).clean
        client.close()

    @rule(name=threads, who=st.booleans(), really=st.integers(0, 3))
    def delete(self, name: str, who: bool, really: int) -> None:
        if really:
            return
        thread = self.threads.pop(name, None)
        assert self.clients[who].delete(name) is (thread is not None)
        self.gone += [(name, r.id) for r in thread.rows.values() if not r.removed] if thread else []

    @rule(number=picks, who=st.booleans())
    def write_late(self, number: int, who: bool) -> None:
        if not self.gone:
            return
        name, parent = self.gone[number % len(self.gone)]
        with pytest.raises(ThreadDeletedError):
            self.clients[who].save("a", execution_state={}, session_id=name, parent_id=parent)
        with pytest.raises(CheckpointNotFoundError):
            self.clients[who].restore(parent)

    @rule(seconds=st.sampled_from([1, 6, 60]))
    def wait(self, seconds: float) -> None:
        self.harness.time.shift += seconds

    @rule(who=st.booleans())
    def reopen(self, who: bool) -> None:
        if not self.runs:
            self.clients[who].close()
            self.clients[who] = BlockingClient.on(self.harness.backend(), heartbeat_seconds=600)

    # what must hold at any time

    @invariant()
    def the_store_answers_like_the_model(self) -> None:
        client = BlockingClient.on(self.harness.backend())
        for name, thread in self.threads.items():
            live = [row for row in reversed(thread.rows.values()) if self.alive(row)]
            listed = client.log(name, limit=1000)
            assert [(h.checkpoint_id, h.branch) for h in listed] == [(r.id, r.branch) for r in live]
            for agent in thread.current:
                self._lane_answers(client, name, agent, live)
        assert {info.thread_id for info in client.threads()} == set(self.threads)
        client.close()

    def _lane_answers(self, client: BlockingClient, name: str, agent: str, live: list[Row]) -> None:
        tip = self.tip(self.head(self.threads[name], agent, None)[2])
        latest = client.latest(agent_id=agent, session_id=name)
        assert (latest and latest.checkpoint_id) == (tip and tip.id)
        mine = [row for row in live if agent in (row.agent, row.source)]
        found = client.timeline(agent, name, limit=1000)
        assert [(c.checkpoint_id, c.state) for c in found] == [(r.id, r.state) for r in mine]


@pytest.mark.timeout(420)  # when it fails, shrinking on a file takes its time
@pytest.mark.parametrize(
    "scheme", [pytest.param(name, marks=server_marks(name)) for name in contract_schemes()]
)
@pytest.mark.parametrize("examples", [12, pytest.param(50, marks=pytest.mark.slow)])
def test_any_order_of_operations(scheme: str, examples: int) -> None:
    machine = type("MachineOn" + scheme.title(), (Machine,), {"scheme": scheme})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None)
    )
