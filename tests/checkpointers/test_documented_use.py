"""What agentflow documents for its checkpointers, with the import changed and nothing else.

The graph that a checkpointer is given to is a stand-in here; `test_agentflow.py` has the real one.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastgood.testing.postgres_harness import PostgresHarness


class Graph:
    """Does with a checkpointer what compiling a graph does."""

    def compile(self, checkpointer: Any) -> Any:
        checkpointer.bind_state_type(dict)
        return SimpleNamespace(checkpointer=checkpointer)


graph = Graph()
state = {"messages": []}
config = {"thread_id": "session-abc123"}


def test_in_memory() -> None:
    from lastgood.checkpointers import InMemoryCheckpointer

    checkpointer = InMemoryCheckpointer()
    app = graph.compile(checkpointer=checkpointer)
    assert app.checkpointer is checkpointer

    app = graph.compile(checkpointer=InMemoryCheckpointer())
    assert app.checkpointer.get_state(config) is None


def test_sync_wrappers_in_a_script() -> None:
    from lastgood.checkpointers import BaseCheckpointer, InMemoryCheckpointer

    checkpointer = InMemoryCheckpointer()
    assert isinstance(checkpointer, BaseCheckpointer)

    checkpointer.put_state(config, state)
    checkpointer.get_state(config)

    assert checkpointer.get_state(config) == state


@pytest.fixture
def schema(postgres_url: str, tmp_path: Path) -> Iterator[str]:
    harness = PostgresHarness(tmp_path)
    yield harness.schema
    harness.close()


def test_postgres(postgres_url: str, valkey_url: str, schema: str) -> None:
    from lastgood.checkpointers import PgCheckpointer

    async def main() -> None:
        checkpointer = PgCheckpointer(
            postgres_dsn=postgres_url,
            redis_url=valkey_url,  # optional
            schema=schema,
        )

        await checkpointer.asetup()  # creates tables if they don't exist
        app = graph.compile(checkpointer=checkpointer)

        await checkpointer.asetup()
        await app.checkpointer.aput_state(config, state)
        assert await app.checkpointer.aget_state(config) == state
        await checkpointer.arelease()

    asyncio.run(main())


def test_a_custom_checkpointer() -> None:
    from lastgood.checkpointers import AgentState, BaseCheckpointer, Message

    class DynamoDBCheckpointer(BaseCheckpointer):
        async def asetup(self) -> Any:
            # Create DynamoDB tables
            ...

        async def aput_state(self, config: dict, state: AgentState) -> AgentState:
            thread_id = config["thread_id"]  # noqa: F841
            # Serialise and PUT to DynamoDB
            return state

        async def aget_state(self, config: dict) -> AgentState | None:
            thread_id = config["thread_id"]  # noqa: F841
            # GET from DynamoDB and deserialise

        async def aclear_state(self, config: dict) -> Any: ...

        async def aput_state_cache(
            self, config: dict, state: AgentState
        ) -> Any: ...  # in-memory dict, no external call

        async def aget_state_cache(self, config: dict) -> AgentState | None: ...

        async def aput_messages(self, config: dict, messages: list[Message]) -> Any: ...

        async def aget_messages(
            self, config: dict, search: str | None, offset: int, limit: int
        ) -> list[Message]: ...

        async def aget_message(self, config: dict, message_id: str) -> Message | None: ...

        async def adelete_message(self, config: dict, message_id: str) -> Any: ...

        async def aget_threads(self, config: dict, search: str | None, offset: int, limit: int): ...

        async def aget_thread(self, config: dict): ...

        async def adelete_thread(self, config: dict) -> Any: ...

    checkpointer = DynamoDBCheckpointer()
    given = AgentState()
    assert checkpointer.put_state(config, given) is given
    assert checkpointer.put_checkpoint(config, given, [Message("user", "hi")]) is given
    assert checkpointer.get_state(config) is None
    assert checkpointer.list_messages(config, None, 0, 10) is None
    assert checkpointer.clean_thread(config) is None
    with pytest.raises(NotImplementedError, match="DynamoDBCheckpointer"):
        checkpointer.put_tool_result(config, "call", {})
