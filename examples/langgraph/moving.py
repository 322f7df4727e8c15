"""From LangGraph's SqliteSaver to Lastgood: bring the file over, change one line, go on."""

import operator
import subprocess
import sys
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

from lastgood.adapters.langgraph import LastgoodSaver


class State(TypedDict):
    log: Annotated[list[str], operator.add]


graph = StateGraph(State)
graph.add_node("answer", lambda state: {"log": [f"answer {len(state['log'])} " + "x" * 1000]})
graph.add_edge(START, "answer")

CONFIG = {"configurable": {"thread_id": "chat"}}


def lastgood(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "lastgood", *words], check=True)


if __name__ == "__main__":
    with SqliteSaver.from_conn_string("./checkpoints.db") as saver:
        app = graph.compile(checkpointer=saver)
        for turn in range(60):
            app.invoke({"log": [f"question {turn}"]}, CONFIG)

    lastgood("import", "langgraph-sqlite", "checkpoints.db", "--dry-run")
    lastgood("import", "langgraph-sqlite", "checkpoints.db", "--store", "lastgood.db")

    with LastgoodSaver.from_sqlite("./lastgood.db") as saver:
        app = graph.compile(checkpointer=saver)
        before = len(app.get_state(CONFIG).values["log"])
        app.invoke({"log": ["one more"]}, CONFIG)
        print(f"{before} entries came over, {len(app.get_state(CONFIG).values['log'])} now")

    theirs, ours = (Path(name).stat().st_size for name in ("checkpoints.db", "lastgood.db"))
    print(f"{theirs // ours} times smaller")
