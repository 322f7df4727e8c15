"""What people write who put a saver or a store of ours in the place of LangGraph's own."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from langgraph.graph import START, StateGraph
from pydantic import SecretStr

from lastgood.adapters.langgraph import LastgoodSaver, LastgoodStore
from lastgood.backends.postgres.backend import PostgresBackend
from lastgood.backends.redis.backend import RedisBackend
from lastgood.client import Client
from lastgood.codec import Codec, Registry
from lastgood.errors import SerializationError
from tests.langgraph.test_saver import put

AT: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


class TestAddresses:
    @pytest.mark.parametrize(
        ("address", "kind"),
        [
            ("postgres://ann:secret@nowhere.invalid/app", PostgresBackend),
            ("postgresql://ann:secret@nowhere.invalid/app", PostgresBackend),
            ("host=nowhere.invalid password=secret dbname=app", PostgresBackend),
            ("rediss://:secret@nowhere.invalid", RedisBackend),
            ("unix:///nowhere/socket", RedisBackend),
        ],
    )
    def test_are_no_paths(
        self, address: str, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert isinstance(LastgoodSaver.from_conn_string(address)._core.backend, kind)

    def test_of_others_are_refused_without_their_password(self) -> None:
        with pytest.raises(ValueError, match="mysql://ann@host/app") as refused:
            LastgoodSaver.from_conn_string("mysql://ann:secret@host/app")
        assert "secret" not in str(refused.value)

    @pytest.mark.parametrize("kind", [LastgoodSaver, LastgoodStore])
    def test_may_be_paths(self, kind: Any, tmp_path: Path) -> None:
        with kind.from_conn_string(tmp_path / "made.db") as made:
            assert made.client.url.endswith("made.db")

    @pytest.mark.parametrize("kind", [LastgoodSaver, LastgoodStore])
    def test_that_are_missing_are_told(self, kind: Any) -> None:
        with pytest.raises(TypeError, match=r"not NoneType.*environment variable"):
            kind.from_conn_string(None)

    @pytest.mark.server("postgres")
    def test_the_other_spelling_of_postgres(self, postgres_url: str) -> None:
        address = postgres_url.replace("postgresql://", "postgres://", 1)
        joined = "&" if "?" in address else "?"
        address += f"{joined}schema=s{uuid4().hex[:12]}"
        with LastgoodSaver.from_conn_string(address) as saver:
            at, _ = put(saver, {"a": 1})
            assert saver.get_tuple(at) is not None


class TestHabits:
    def test_setup_in_both_colours(self) -> None:
        async def awaited(made: Any) -> None:
            await made.setup()

        for made in (LastgoodSaver.from_memory(), LastgoodStore(Client.memory())):
            made.setup()
            asyncio.run(awaited(made))

    def test_a_store_in_a_with_block(self, tmp_path: Path) -> None:
        path = str(tmp_path / "store.db")
        with LastgoodStore.from_conn_string(path) as store:
            store.put(("n",), "k", {"v": 1})

        async def read() -> Any:
            async with LastgoodStore.from_conn_string(path) as store:
                return await store.aget(("n",), "k")

        assert asyncio.run(read()).value == {"v": 1}

    @pytest.mark.parametrize("kind", [LastgoodSaver, LastgoodStore])
    def test_what_is_no_client_is_named(self, kind: Any) -> None:
        with (
            sqlite3.connect(":memory:") as connection,
            pytest.raises(TypeError, match=r"sqlite3\.Connection.*from_conn_string"),
        ):
            kind(connection)
        connection.close()
        with pytest.raises(TypeError, match=r"LastgoodStore.*saver\.client"):
            kind(LastgoodStore(Client.memory()))

    def test_a_config_that_names_nothing(self, saver: LastgoodSaver) -> None:
        for config in ({}, {"configurable": {}}):
            with pytest.raises(ValueError, match="thread_id"):
                saver.get_tuple(config)  # type: ignore[arg-type]
        for config in ({"configurable": {}}, {"configurable": {"checkpoint_id": "x"}}):
            with pytest.raises(ValueError, match="thread_id"):
                list(saver.list(config))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="checkpoint_id"):
            saver.put_writes(AT, [("a", 1)], "task")


class State(TypedDict, total=False):
    lock: Any
    log: list[Any]


class TestWhatCannotBeKept:
    def test_is_named_by_its_path_alone(self, saver: LastgoodSaver) -> None:
        at, _ = put(saver, {"a": 1})
        with pytest.raises(SerializationError, match=r"^writes\.x\.deep\[1\]: "):
            saver.put_writes(at, [("x", {"deep": [1, print]})], "task")
        with pytest.raises(SerializationError, match=r"^store\['k'\]\.deep\[1\]: "):
            LastgoodStore(saver.client).put(("n",), "k", {"deep": [1, print]})

    def test_may_be_left_out(self, tmp_path: Path) -> None:
        saver = LastgoodSaver.from_sqlite(str(tmp_path / "a.db"), on_unserializable="drop")
        graph = StateGraph(State)
        graph.add_node("lock", lambda _: {"lock": threading.Lock(), "log": [1, print, 2]})
        graph.add_node("end", lambda state: {"log": [*state["log"], 3]})
        graph.add_edge(START, "lock")
        graph.add_edge("lock", "end")
        app = graph.compile(checkpointer=saver, interrupt_before=["end"])
        app.invoke({"log": []}, AT)
        assert app.get_state(AT).values == {"log": [1, 2]}
        assert len(list(saver.list(AT))) == 3
        assert app.invoke(None, AT) == {"log": [1, 2, 3]}

    def test_may_be_a_secret_until_somebody_says_how(self, saver: LastgoodSaver) -> None:
        at, _ = put(saver, {"a": 1})
        with pytest.raises(SerializationError, match=r"^writes\.key: .*SecretStr") as refused:
            saver.put_writes(at, [("key", SecretStr("hush"))], "task")
        assert "hush" not in str(refused.value)
        registry = Registry()
        registry.register(SecretStr, encode=SecretStr.get_secret_value, decode=SecretStr)
        told = Codec(registry)
        assert told.unpack(told.pack(SecretStr("hush"))) == SecretStr("hush")

    def test_is_an_exception_anywhere_but_where_a_node_ends(self, saver: LastgoodSaver) -> None:
        with pytest.raises(SerializationError, match=r"^state\.errors\[0\]: an exception"):
            put(saver, {"errors": [ValueError("no")]})
        at, _ = put(saver, {"a": 1})
        saver.put_writes(at, [("__error__", ValueError("no"))], "task")
        found = saver.get_tuple(at)
        assert found is not None
        assert found.pending_writes == [("task", "__error__", "ValueError('no')")]
