"""A process is killed in the middle of a graph; the next one goes on where it was.

Run it: it plays both processes, the first of which ends itself with kill -9.
"""

import operator
import os
import signal
import subprocess
import sys
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph

from lastgood.adapters.langgraph import LastgoodSaver

CONFIG = {"configurable": {"thread_id": "order-42"}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def fetch(state: State) -> State:
    print("  fetch runs")
    return {"log": ["fetched"]}


def charge(state: State) -> State:
    print("  charge runs")
    return {"log": ["charged"]}


def ship(state: State) -> State:
    if os.environ.get("DIE"):
        print("  ship begins, and the machine dies", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print("  ship runs")
    return {"log": ["shipped"]}


graph = StateGraph(State)
for node in (fetch, charge, ship):
    graph.add_node(node.__name__, node)
graph.add_edge(START, "fetch")
graph.add_edge("fetch", "charge")
graph.add_edge("charge", "ship")
graph.add_edge("ship", END)


def work() -> None:
    with LastgoodSaver.from_sqlite("./orders.db") as saver:
        app = graph.compile(checkpointer=saver)
        begun = app.get_state(CONFIG).next
        result = app.invoke(None if begun else {"log": []}, CONFIG, durability="sync")
        print("  result:", ", ".join(result["log"]))


if __name__ == "__main__":
    if "work" in sys.argv:
        work()
    else:
        for number, settings in (("first", {"DIE": "1"}), ("second", {})):
            print(f"{number} process")
            done = subprocess.run(
                [sys.executable, __file__, "work"], env={**os.environ, **settings}, check=False
            )
            print("  ended with", done.returncode)
