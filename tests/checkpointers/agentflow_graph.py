"""One turn of an agentflow graph on one of our checkpointers; run in agentflow's environment.

    python agentflow_graph.py STORE TEXT

STORE is the address of a store, `memory:` for both turns in this process. Prints as JSON what the
thread holds afterwards.
"""

import asyncio
import json
import sys
from typing import Any

from agentflow.core.graph import StateGraph
from agentflow.core.state import AgentState, Message
from agentflow.utils.constants import END

from lastgood.checkpointers import InMemoryCheckpointer, PgCheckpointer, SqliteCheckpointer

CONFIG = {"thread_id": "order-42", "user_id": "ann"}


class Shop(AgentState):
    total: int = 0


async def answer(state: Shop, config: dict[str, Any]) -> Message:
    state.total += 1
    asked = state.context[-1].text()
    return Message.text_message(f"{asked}? answer {state.total}", role="assistant")


def checkpointer_on(address: str) -> Any:
    scheme, _, rest = address.partition(":")
    if scheme == "memory":
        return InMemoryCheckpointer()
    if scheme == "sqlite":
        return SqliteCheckpointer(rest.removeprefix("///"))
    dsn, _, schema = address.partition("#")
    return PgCheckpointer(postgres_dsn=dsn, schema=schema)


async def turn(checkpointer: Any, text: str) -> None:
    graph = StateGraph(Shop())
    graph.add_node("answer", answer)
    graph.set_entry_point("answer")
    graph.add_edge("answer", END)
    app = graph.compile(checkpointer=checkpointer)
    asked = Message.text_message(text)
    await app.ainvoke({"messages": [asked]}, config=dict(CONFIG))


async def main(address: str, text: str) -> dict[str, Any]:
    checkpointer = checkpointer_on(address)
    await checkpointer.asetup()
    for part in text.split(",") if address == "memory:" else [text]:
        await turn(checkpointer, part)
    state = await checkpointer.aget_state(CONFIG)
    found = {
        "class": type(state).__name__,
        "total": state.total,
        "status": str(state.execution_meta.status.value),
        "context": [message.text() for message in state.context],
        "messages": [message.text() for message in await checkpointer.alist_messages(CONFIG)],
        "threads": [info.thread_id for info in await checkpointer.alist_threads(CONFIG)],
        "steps": len(await checkpointer.client.log(CONFIG["thread_id"])),
        "for bob": await checkpointer.aget_state(CONFIG | {"user_id": "bob"}),
    }
    await checkpointer.arelease()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
