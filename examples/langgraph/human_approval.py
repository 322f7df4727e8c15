"""A graph asks a person, and waits in the store for as long as it takes.

Run it: one process asks, another lists what is waiting, a third answers.
"""

import subprocess
import sys
from typing import TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from lastgood.adapters.langgraph import LastgoodSaver


class State(TypedDict, total=False):
    amount: int
    decision: str


def approve(state: State) -> State:
    answer = interrupt({"question": f"Pay {state['amount']}?"})
    return {"decision": answer}


graph = StateGraph(State)
graph.add_node("approve", approve)
graph.add_edge(START, "approve")

THREADS = {"invoice-1": 120, "invoice-2": 9000}


def ask() -> None:
    with LastgoodSaver.from_sqlite("./approvals.db") as saver:
        app = graph.compile(checkpointer=saver)
        for thread, amount in THREADS.items():
            app.invoke({"amount": amount}, {"configurable": {"thread_id": thread}})
            print(f"  {thread} is waiting")


def waiting() -> None:
    with LastgoodSaver.from_sqlite("./approvals.db") as saver:
        app = graph.compile(checkpointer=saver)
        for thread in THREADS:
            state = app.get_state({"configurable": {"thread_id": thread}})
            for question in state.interrupts:
                print(f"  {thread}: {question.value['question']}")


def answer() -> None:
    with LastgoodSaver.from_sqlite("./approvals.db") as saver:
        app = graph.compile(checkpointer=saver)
        for thread, amount in THREADS.items():
            decision = "yes" if amount < 1000 else "no"
            found = app.invoke(Command(resume=decision), {"configurable": {"thread_id": thread}})
            print(f"  {thread}: {found['decision']}")


if __name__ == "__main__":
    steps = {"ask": ask, "waiting": waiting, "answer": answer}
    if len(sys.argv) > 1:
        steps[sys.argv[1]]()
    else:
        for name in steps:
            print(name, flush=True)
            subprocess.run([sys.executable, __file__, name], check=True)
