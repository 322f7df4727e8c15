"""Kills a process in the middle of a graph, again and again, until the graph is through.

A task tells RUN when it begins; the saver tells DONE when the writes of a task are in the store.
A task that was done never runs again, and at the end nothing is lost.
"""

import operator
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from forked import Tell, drive, fork  # type: ignore[import-not-found]
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from lastgood.adapters.langgraph import LastgoodSaver

ROUNDS, WIDE = 6, 4


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    round: int


class Telling(LastgoodSaver):
    """Says what is safe."""

    tell: Tell = staticmethod(lambda line: None)

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        listed = list(writes)
        super().put_writes(config, listed, task_id, task_path)
        for channel, value in listed:
            if channel == "log" and isinstance(value, list):
                for name in value:
                    self.tell(f"DONE {name}")


def graph(tell: Tell) -> Any:
    """Some rounds of parallel tasks, one after the other."""

    def spread(state: State) -> Any:
        if state["round"] > ROUNDS:
            return END
        return [Send("work", {"round": state["round"], "log": [str(n)]}) for n in range(WIDE)]

    def work(state: State) -> State:
        name = f"{state['round']}.{state['log'][0]}"
        tell(f"RUN {name}")
        time.sleep(0.002)
        return {"log": [name]}

    def count(state: State) -> State:
        tell(f"RUN count {state['round']}")
        return {"round": state["round"] + 1, "log": [f"count {state['round']}"]}

    made = StateGraph(State)
    made.add_node("work", work)
    made.add_node("count", count)
    made.add_edge("work", "count")
    made.add_conditional_edges(START, spread, ["work", END])
    made.add_conditional_edges("count", spread, ["work", END])
    return made


def play(address: str, thread: str, tell: Tell) -> None:
    """Begin the graph or go on with it."""
    saver = Telling.from_conn_string(address)
    saver.tell = tell
    app = graph(tell).compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": 1000}
    begun = saver.get_tuple(config) is not None
    app.invoke(None if begun else {"round": 1, "log": []}, config, durability="sync")
    tell("END " + " ".join(app.get_state(config).values["log"]).replace("count ", "count"))


def hunt(address: str, kills: int, seed: str) -> dict[str, Any]:
    """Graphs on fresh threads until there were so many kills."""
    rng, problems, done, killed, threads = random.Random(seed), list[str](), 0, 0, 0
    while killed < kills:
        threads += 1
        more, found = _thread(address, f"thread {threads}", rng)
        killed += more
        problems += found
        done += 1
    return {"problems": problems, "kills": killed, "threads": threads}


def _thread(address: str, thread: str, rng: random.Random) -> tuple[int, list[str]]:
    killed, finished, problems = 0, set[str](), list[str]()
    expected = {f"{r}.{n}" for r in range(1, ROUNDS + 1) for n in range(WIDE)}
    expected |= {f"count{r}" for r in range(1, ROUNDS + 1)}
    for attempt in range(40):
        child = fork(lambda tell: play(address, thread, tell))
        first = child.pipe.readline().rstrip()
        time.sleep(rng.random() * 0.08 * (1 + attempt / 8))  # a slow machine gets there too
        child.kill()
        killed += 1
        lines = [first, *child.rest()]
        for line in lines:
            kind, _, name = line.partition(" ")
            if kind == "RUN" and name in finished:
                problems.append(f"{thread}: {name} ran again")
            elif kind == "DONE":
                finished.add(name)
            elif kind == "ERROR":
                problems.append(f"{thread}: {line}")
            elif kind == "END":
                log = name.split()
                if sorted(log) != sorted(expected):
                    problems.append(f"{thread}: ended with {log}")
                return killed, problems
    return killed, [*problems, f"{thread}: never came to its end"]


if __name__ == "__main__":
    drive(hunt)
