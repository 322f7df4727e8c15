"""Snapshots saved by hand: extract, put, restore, reconstruct."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from lastgood import AdapterError, BlockingClient, Framework
from lastgood.adapters.langgraph import LangGraphAdapter, LastgoodSaver
from lastgood.client import Client
from tests.langgraph.test_import import config, graph


@pytest.fixture
def snapshot() -> Any:
    app = graph().compile(checkpointer=LastgoodSaver.from_memory())
    app.invoke({"messages": [HumanMessage("hello")]}, config("t"))
    return app.get_state(config("t"))


def test_there_and_back(client: Client, snapshot: Any) -> None:
    adapter = LangGraphAdapter()
    blocking = client.blocking
    made = adapter.extract(snapshot, "my-agent", context={"invoice_id": "INV-1"}, tag="x")
    assert (made.session_id, made.framework) == ("t", Framework.LANGGRAPH)
    found = blocking.restore(blocking.put(made))
    restored = adapter.reconstruct(found)
    assert restored["values"] == snapshot.values
    assert [type(m) for m in restored["values"]["messages"]] == [HumanMessage, AIMessage]
    assert restored["next"] == ("inner",)
    assert restored["config"] == snapshot.config
    assert restored["metadata"] == snapshot.metadata
    assert [i.value for i in restored["interrupts"]] == ["sure?"]
    assert [task.name for task in restored["tasks"]] == ["inner"]
    assert restored["agent_context"] == {"invoice_id": "INV-1"}
    assert found.metadata == {"tag": "x"}
    second = adapter.extract(snapshot, "my-agent", parent_id=found.checkpoint_id, ttl_seconds=60)
    assert blocking.restore(blocking.put(second)).parent_id == found.checkpoint_id


def test_a_graph_resumes_with_the_config() -> None:
    saver = LastgoodSaver.from_memory()
    app = graph().compile(checkpointer=saver)
    app.invoke({"messages": [HumanMessage("hello")]}, config("t"))
    adapter = LangGraphAdapter()
    made = adapter.extract(app.get_state(config("t")), "agent", session_id="by hand")
    restored = adapter.reconstruct(made)
    found = app.invoke(Command(resume="yes"), restored["config"])
    assert found["log"][-1] == "yes"


def test_an_error_of_a_task_is_kept_as_text() -> None:
    from langgraph.types import PregelTask, StateSnapshot

    task = PregelTask("id", "name", (), error=ValueError("broken"))
    snapshot = StateSnapshot({}, (), {"configurable": {}}, None, None, None, (task,), ())
    found = LangGraphAdapter().extract(snapshot, "agent").state["tasks"][0]
    assert found.error == "ValueError('broken')"


def test_what_is_no_snapshot_is_refused() -> None:
    adapter = LangGraphAdapter()
    with pytest.raises(AdapterError, match="get_state"):
        adapter.extract({"values": {}}, "agent")  # type: ignore[arg-type]
    client = BlockingClient.memory()
    with pytest.raises(AdapterError, match="not made"):
        adapter.reconstruct(client.restore(client.save("a", execution_state={"x": 1})))
