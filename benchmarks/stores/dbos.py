"""DBOS on SQLite: a durable workflow, whose steps are recorded with what they return.

It keeps the results of steps and not a state, so a step returns the messages that it adds, and the
state is put together from the recorded results. A workflow runs from its beginning to its end in a
thread of its own; the workload hands it one step after the other.
"""

from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from benchmarks.data import Message, State
from benchmarks.scenarios import Delta
from benchmarks.stores.interface import THREAD, Pragmas, Steps
from benchmarks.stores.spy import spy

ASKED: SimpleQueue[list[Message] | None] = SimpleQueue()
DONE: SimpleQueue[None] = SimpleQueue()


def _returned(added: list[Message]) -> list[Message]:
    return added


@cache
def _workflow() -> Any:
    """Registered once per process, as DBOS wants it."""
    from dbos import DBOS

    keep = DBOS.step()(_returned)

    def conversation() -> None:
        while (added := ASKED.get()) is not None:
            keep(added)
            DONE.put(None)

    return DBOS.workflow()(conversation)


class DbosSteps(Steps):
    """One workflow; a step is recorded with the messages that it adds."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        from dbos import DBOS

        self._spy, self._dbos = spy(), DBOS
        self._running: Any = None
        self._workflow = _workflow()
        url = f"sqlite:///{path}"
        quiet = {"run_admin_server": False, "log_level": "ERROR"}
        DBOS(config={"name": "benchmark", "system_database_url": url, **quiet})
        DBOS.launch()
        self._step = 0

    def begin(self, state: State) -> None:
        from dbos import SetWorkflowID

        if state != {"messages": []}:
            raise ValueError("a workflow begins with nothing")
        with SetWorkflowID(THREAD):
            self._running = self._dbos.start_workflow(self._workflow)

    def step(self, state: State, delta: Delta) -> str:  # noqa: ARG002
        [(_, _, added)] = delta
        ASKED.put(added)
        DONE.get()
        self._step += 1
        return str(self._step)

    def restore(self, mark: str | None = None) -> State:
        steps = self._dbos.list_workflow_steps(THREAD)[: None if mark is None else int(mark)]
        return {"messages": [message for step in steps for message in step["output"]]}

    def pragmas(self) -> Pragmas:
        return self._spy.pragmas()

    def close(self) -> None:
        if self._running is not None:
            ASKED.put(None)
            self._running.get_result()
        self._dbos.destroy()
