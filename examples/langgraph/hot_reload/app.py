"""A graph for `langgraph dev`; the server brings the checkpointer and the store."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def answer(state: State) -> State:
    return {"log": [f"answer to {state['log'][-1]}"]}


builder = StateGraph(State)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
graph = builder.compile()
