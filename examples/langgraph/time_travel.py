"""Back to any step of a graph: look at it, change it, go on from it, and keep both lines."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph

from lastgood.adapters.langgraph import LastgoodSaver


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def step(name: str):
    return lambda state: {"log": [name]}


graph = StateGraph(State)
graph.add_node("plan", step("plan"))
graph.add_node("draft", step("draft"))
graph.add_node("send", step("send"))
graph.add_edge(START, "plan")
graph.add_edge("plan", "draft")
graph.add_edge("draft", "send")

CONFIG = {"configurable": {"thread_id": "letter"}}

if __name__ == "__main__":
    with LastgoodSaver.from_sqlite("./letters.db") as saver:
        app = graph.compile(checkpointer=saver)
        app.invoke({"log": ["hello"]}, CONFIG)
        history = list(app.get_state_history(CONFIG))
        for place in reversed(history):
            print(f"  {', '.join(place.values.get('log', [])) or 'empty'} -> {place.next}")

        before_send = next(place for place in history if place.next == ("send",))
        fork = app.update_state(before_send.config, {"log": ["draft, friendlier"]})
        print("forked:", ", ".join(app.invoke(None, fork)["log"]))
        print("first line:", ", ".join(app.get_state(history[0].config).values["log"]))

        for branch in saver.client.blocking.branches("letter"):
            print("branch" + (" (current):" if branch.current else ":"), branch.head is not None)
