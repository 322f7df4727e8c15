"""The cross-thread store: the interface of LangGraph, one set of semantics on all backends."""

import asyncio
import math
import random
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.embeddings import Embeddings
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    TTLConfig,
)
from pydantic import BaseModel

from lastgood.adapters.langgraph import LastgoodSaver, LastgoodStore, vectors
from lastgood.adapters.langgraph.keeping import Keeping, Kept
from lastgood.adapters.langgraph.opening import core_of
from lastgood.client import Client
from lastgood.driver import run_blocking
from lastgood.errors import BackendConnectionError, StorageError, TransientStorageError
from lastgood.testing.harness import BackendHarness
from rights import as_an_ordinary_user, read_only


@pytest.fixture
def store(client: Client) -> LastgoodStore:
    return LastgoodStore(client)


def keys(found: Any) -> list[str]:
    return [item.key for item in found]


class TestValues:
    def test_come_back_in_both_colours(self, store: LastgoodStore) -> None:
        store.put(("users", "1"), "name", {"v": 1})
        found = store.get(("users", "1"), "name")
        assert found is not None
        assert (found.namespace, found.key, found.value) == (("users", "1"), "name", {"v": 1})
        assert asyncio.run(store.aget(("users", "1"), "name")) == found
        asyncio.run(store.aput(("users", "1"), "name", {"v": 2}))
        again = store.get(("users", "1"), "name")
        assert again is not None
        assert again.value == {"v": 2}
        assert again.created_at == found.created_at
        assert found.updated_at <= again.updated_at <= datetime.now(UTC)
        store.delete(("users", "1"), "name")
        assert store.get(("users", "1"), "name") is None

    def test_are_those_of_the_moment_at_which_they_are_put(self, store: LastgoodStore) -> None:
        async def changed_meanwhile() -> Any:
            value = {"n": 0, "steps": ["first"]}
            put = asyncio.create_task(store.aput(("a",), "k", value))
            while not put.done():
                await asyncio.sleep(0)
                value["n"] += 1  # type: ignore[operator]
            return await store.aget(("a",), "k")

        assert asyncio.run(changed_meanwhile()).value == {"n": 0, "steps": ["first"]}

    @pytest.mark.parametrize("ttl", [None, 5])
    def test_are_read_once_and_on_the_thread_of_the_caller(
        self, store: LastgoodStore, ttl: float | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        codec, threads = store._core.codec, list[int]()
        unpack = codec.unpack

        def noted(*pieces: bytes) -> object:
            threads.append(threading.get_ident())
            return unpack(*pieces)

        monkeypatch.setattr(codec, "unpack", noted)
        asyncio.run(store.aput(("n",), "k", {"when": datetime.now(UTC)}, ttl=ttl))
        assert asyncio.run(store.aget(("n",), "k")) is not None
        assert threads == [threading.get_ident()]

    def test_are_kept_as_they_are(self, store: LastgoodStore) -> None:
        value = {
            "nul": "a\x00b",
            "surrogate": "\ud800",
            "nan": float("inf"),
            "big": 2**100,
            "time": datetime(2026, 1, 2, tzinfo=UTC),
            "tuple": (1, {2}),
        }
        store.put(("n",), "k\x00é", value)
        found = store.get(("n",), "k\x00é")
        assert found is not None
        assert found.value == value
        found.value["big"] = 0
        assert store.get(("n",), "k\x00é").value == value  # type: ignore[union-attr]

    def test_of_models_and_other_mappings_have_keys(self, store: LastgoodStore) -> None:
        class Profile(BaseModel):
            name: str
            tags: list[str] = []

        class Settings(dict[str, Any]):
            pass

        for value in (Profile(name="Ann", tags=["a"]), Settings(name="Ann", tags=["a"])):
            store.put(("users",), "ann", value)  # type: ignore[arg-type]
            found = store.get(("users",), "ann")
            assert found is not None
            assert found.value == {"name": "Ann", "tags": ["a"]}
            assert [each.key for each in store.search((), filter={"name": "Ann"})] == ["ann"]

    def test_of_many_namespaces(self, store: LastgoodStore) -> None:
        names = {("users", f"{number:03}") for number in range(70)}
        for name in names:
            store.put(name, "k", {"of": name[1]})
        found = store.search(("users",), limit=100)
        assert {(item.namespace, item.value["of"]) for item in found} == {(n, n[1]) for n in names}
        assert set(store.list_namespaces(prefix=("users",), limit=100)) == names
        assert keys(store.search(("users", "007"))) == ["k"]

    def test_a_key_that_begins_like_another(self, store: LastgoodStore) -> None:
        store.put(("n",), "ab", {"v": 1})
        assert store.get(("n",), "a") is None
        store.put(("n",), "a", {"v": 2})
        assert store.get(("n",), "a").value == {"v": 2}  # type: ignore[union-attr]


class TestBatches:
    def test_read_first_and_write_then(self, store: LastgoodStore) -> None:
        put = PutOp(("n",), "k", {"v": 1})
        found = store.batch([put, GetOp(("n",), "k"), SearchOp(("n",)), ListNamespacesOp()])
        assert found == [None, None, [], []]
        assert store.get(("n",), "k") is not None

    def test_the_last_write_wins(self, store: LastgoodStore) -> None:
        puts = [PutOp(("n",), "k", {"v": n}) for n in range(3)]
        gone = [PutOp(("n",), "gone", {"v": 1}), PutOp(("n",), "gone", None)]
        store.batch([*puts, *gone])
        assert store.get(("n",), "k").value == {"v": 2}  # type: ignore[union-attr]
        assert store.get(("n",), "gone") is None

    def test_labels_are_checked(self, store: LastgoodStore) -> None:
        for namespace in [("a.b",), ("",), (1,)]:
            with pytest.raises(InvalidNamespaceError):
                store.batch([PutOp(namespace, "k", {"v": 1})])  # type: ignore[arg-type]
        with pytest.raises(InvalidNamespaceError):
            store.put((), "k", {})
        with pytest.raises(InvalidNamespaceError):
            store.put(("langgraph",), "k", {})


class TestNamespaces:
    NAMESPACES = (
        ("tenant", "a"),
        ("tenant", "ab"),
        ("tenant", "a", "x"),
        ("tenant", "b%", "x"),
        ("ten\x1fant", "a"),
        ("ten", "\x1eant"),
    )

    @pytest.fixture(autouse=True)
    def fill(self, store: LastgoodStore) -> None:
        for namespace in self.NAMESPACES:
            store.put(namespace, "k", {"at": list(namespace)})

    def test_are_apart(self, store: LastgoodStore) -> None:
        for namespace in self.NAMESPACES:
            found = store.get(namespace, "k")
            assert found is not None
            assert found.value == {"at": list(namespace)}

    def test_a_prefix_is_of_whole_labels(self, store: LastgoodStore) -> None:
        found = {item.namespace for item in store.search(("tenant", "a"))}
        assert found == {("tenant", "a"), ("tenant", "a", "x")}
        assert {item.namespace for item in store.search(("ten",))} == {("ten", "\x1eant")}
        assert len(store.search((), limit=100)) == len(self.NAMESPACES)
        assert store.search(("tenant", "%")) == []

    def test_are_listed(self, store: LastgoodStore) -> None:
        assert store.list_namespaces() == sorted(self.NAMESPACES)
        assert store.list_namespaces(prefix=("tenant", "*", "x")) == [
            ("tenant", "a", "x"),
            ("tenant", "b%", "x"),
        ]
        assert store.list_namespaces(suffix=("x",), limit=1) == [("tenant", "a", "x")]
        assert store.list_namespaces(prefix=("tenant",), max_depth=1) == [("tenant",)]
        assert store.list_namespaces(offset=5) == sorted(self.NAMESPACES)[5:]
        both = (MatchCondition("prefix", ("tenant",)), MatchCondition("suffix", ("*", "a")))
        assert store.batch([ListNamespacesOp(match_conditions=both)]) == [[("tenant", "a")]]

    def test_an_empty_one_is_gone(self, store: LastgoodStore) -> None:
        for namespace in self.NAMESPACES[1:]:
            store.delete(namespace, "k")
        assert store.list_namespaces() == [("tenant", "a")]


FILTERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "equal": ({"n": 10}, {"ten"}),
    "true is not one": ({"flag": True}, {"ten"}),
    "one is not true": ({"flag": 1}, {"nine"}),
    "numbers as numbers": ({"n": {"$gt": 9}}, {"ten", "hundred"}),
    "between": ({"n": {"$gte": 9, "$lt": 50}}, {"nine", "ten"}),
    "text as text": ({"s": {"$gt": "b"}}, {"hundred"}),
    "no order between types": ({"s": {"$gt": 1}}, set()),
    "none is none": ({"absent": None}, {"nine", "ten", "hundred"}),
    "not equal": ({"s": {"$ne": "b"}}, {"nine", "hundred"}),
    "nested": ({"o": {"p": 1}}, {"nine"}),
    "equal to the whole of it": ({"o": {"$eq": {"q": 2, "p": 1}}}, {"nine"}),
    "not to a part": ({"o": {"$eq": {"p": 1}}}, set()),
    "not equal to a part": ({"o": {"$ne": {"p": 1}}}, {"nine", "ten", "hundred"}),
    "true in it is not one": ({"o": {"$eq": {"p": True, "q": 2}}}, set()),
    "equal to a list": ({"l": {"$eq": [1, 2]}}, {"nine"}),
    "a list": ({"l": [1, 2]}, {"nine"}),
    "a key is no path": ({"d.e": 1}, {"ten"}),
    "no such path": ({"o.p": 1}, set()),
    "a trick": ({"' OR 1=1 --": 1}, set()),
}


class TestSearches:
    @pytest.mark.parametrize("name", FILTERS)
    def test_by_value(self, store: LastgoodStore, name: str) -> None:
        store.put(("n",), "nine", {"n": 9, "o": {"p": 1, "q": 2}, "l": [1, 2], "flag": 1})
        store.put(("n",), "ten", {"n": 10, "s": "b", "d.e": 1, "flag": True})
        store.put(("n",), "hundred", {"n": 100.5, "s": "c"})
        wanted, expected = FILTERS[name]
        assert set(keys(store.search(("n",), filter=wanted))) == expected

    def test_an_unknown_operator_is_refused(self, store: LastgoodStore) -> None:
        store.put(("n",), "k", {"n": 1})
        with pytest.raises(ValueError, match=r"\$in"):
            store.search(("n",), filter={"n": {"$in": [1]}})

    def test_a_value_that_is_no_mapping_matches_nothing(self, store: LastgoodStore) -> None:
        store.put(("n",), "number", 5)  # type: ignore[arg-type]
        store.put(("n",), "k", {"v": 1})
        assert keys(store.search(("n",), filter={"v": 1})) == ["k"]

    def test_the_last_changed_comes_first(self, store: LastgoodStore) -> None:
        for key in "abc":
            store.put(("n",), key, {"v": 1})
        store.put(("n",), "a", {"v": 2})
        assert keys(store.search(("n",))) == ["a", "c", "b"]
        assert keys(store.search(("n",), limit=1, offset=1)) == ["c"]

    def test_more_than_a_page(self, store: LastgoodStore) -> None:
        store.batch([PutOp(("n",), f"{n}", {"v": n}) for n in range(1100)])
        assert len(store.search(("n",), limit=2000)) == 1100

    def test_decode_what_they_show(
        self, store: LastgoodStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.batch([PutOp(("n",), f"k{n}", {"n": n}) for n in range(9)])
        decoded: list[str] = []
        value = Kept.value

        def noted(kept: Kept, codec: Any) -> Any:
            decoded.append(kept.key)
            return value(kept, codec)

        monkeypatch.setattr(Kept, "value", noted)
        found = store.search(("n",), limit=3, offset=2)
        assert [item.value["n"] for item in found] == [2, 3, 4]
        assert decoded == keys(found) == ["k2", "k3", "k4"]


class TestTime:
    def _pass(self, harness: BackendHarness, minutes: float) -> None:
        if not harness.turns_clock:
            pytest.skip("this backend has a clock of its own")
        harness.time.shift += minutes * 60

    def test_is_over(self, harness: BackendHarness) -> None:
        store = LastgoodStore(Client.on(harness.backend()))
        store.put(("n",), "k", {"v": 1}, ttl=1)
        store.put(("n",), "kept", {"v": 1})
        assert store.supports_ttl
        self._pass(harness, 2)
        assert store.get(("n",), "k") is None
        assert keys(store.search(("n",))) == ["kept"]
        assert store.sweep_ttl() == 1
        assert store.sweep_ttl() == 0

    def test_begins_anew_when_read(self, harness: BackendHarness) -> None:
        store = LastgoodStore(Client.on(harness.backend()), ttl={"default_ttl": 1.5})
        store.put(("n",), "k", {"v": 1})
        for _ in range(3):
            self._pass(harness, 1)
            found = store.get(("n",), "k")
            assert found is not None
            assert found.updated_at == found.created_at
        self._pass(harness, 1)
        assert store.get(("n",), "k", refresh_ttl=False) is not None
        assert len(store.search(("n",), refresh_ttl=False)) == 1
        self._pass(harness, 1)
        assert store.get(("n",), "k") is None
        assert store.list_namespaces() == []

    def test_of_all_that_a_search_finds_begins_anew_in_one_commit(
        self, harness: BackendHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backend = harness.backend()
        store = LastgoodStore(Client.on(backend))
        store.batch([PutOp(("n",), key, {"v": key}, ttl=1.5) for key in "abc"])
        commits: list[Any] = []
        commit = backend.commit

        async def counted(intent: Any) -> Any:
            commits.append(intent)
            return await commit(intent)

        monkeypatch.setattr(backend, "commit", counted)
        assert keys(store.search(("n",), filter={"v": {"$ne": "c"}})) == ["a", "b"]
        assert len(commits) == 1
        self._pass(harness, 2)
        assert keys(store.search(("n",))) == []
        store.batch([PutOp(("n",), key, {"v": key}, ttl=1.5) for key in "abc"])
        self._pass(harness, 1)
        store.search(("n",), filter={"v": {"$ne": "c"}})
        self._pass(harness, 1)
        assert keys(store.search(("n",))) == ["a", "b"]

    def test_begins_anew_but_for_what_was_changed_meanwhile(self, client: Client) -> None:
        store = LastgoodStore(client)
        store.batch([PutOp(("n",), key, {"v": key}, ttl=60) for key in "abc"])
        keeping = Keeping(core_of(client))
        read = run_blocking(keeping.below(("n",)))
        store.put(("n",), "b", {"v": "new"})
        store.delete(("n",), "c")
        run_blocking(keeping.refresh(read))
        found = {kept.key: kept.row for kept in run_blocking(keeping.below(("n",)))}
        assert found.keys() == {"a", "b"}
        before = read[0].row.expires_at
        assert before is not None
        assert (found["a"].expires_at or 0) > before
        assert found["b"].expires_at is None
        assert store.get(("n",), "b").value == {"v": "new"}  # type: ignore[union-attr]

    def test_of_what_is_read_where_nothing_can_be_written(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "x.db"
            with LastgoodSaver.from_sqlite(path) as saver:
                LastgoodStore(saver.client).put(("n",), "k", {"v": 1}, ttl=5)
            with LastgoodSaver.from_sqlite(path) as saver:
                store = LastgoodStore(saver.client)
                with read_only(Path(name)), as_an_ordinary_user():
                    found = store.get(("n",), "k")
                    assert found is not None
                    assert found.value == {"v": 1}
                    assert keys(store.search(("n",))) == ["k"]
                    with pytest.raises(BackendConnectionError):
                        store.put(("n",), "k", {"v": 2})


class TestRefusals:
    """What no store can keep is refused before the first operation of a batch."""

    @pytest.mark.parametrize("ttl", [math.inf, -math.inf, math.nan, 1e12, 1e300])
    def test_times_without_end(self, store: LastgoodStore, ttl: float) -> None:
        with pytest.raises(ValueError, match="less than 950 years"):
            store.batch([PutOp(("n",), "first", {"v": 1}), PutOp(("n",), "k", {"v": 1}, ttl=ttl)])
        assert store.search(("n",)) == []

    def test_times_that_are_no_numbers(self, store: LastgoodStore) -> None:
        with pytest.raises(TypeError, match="number of minutes, not str"):
            store.put(("n",), "k", {"v": 1}, ttl="5")  # type: ignore[arg-type]

    def test_labels_that_are_no_text(self, store: LastgoodStore) -> None:
        wrong = ("a", "b\ud800")
        for op in (PutOp(wrong, "k", {"v": 1}), GetOp(wrong, "k"), SearchOp(wrong)):
            with pytest.raises(ValueError, match="half of a character"):
                store.batch([op])

    def test_operations_that_are_none(self, store: LastgoodStore) -> None:
        with pytest.raises(ValueError, match="object is no operation of a store"):
            store.batch([object()])  # type: ignore[list-item]

    def test_a_key_that_is_too_long_for_an_index(self, store: LastgoodStore, scheme: str) -> None:
        long = random.Random(1).randbytes(4000).hex()
        if scheme != "postgresql":
            store.put(("n",), long, {"v": 1})
            assert store.get(("n",), long) is not None
            return
        for namespace, key in ((("n",), long), ((long,), "k")):
            with pytest.raises(StorageError, match="Use shorter names and keys") as refused:
                store.put(namespace, key, {"v": 1})
            assert not isinstance(refused.value, TransientStorageError)


def embed(texts: list[str]) -> list[list[float]]:
    """As many of each letter as the text has."""
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


class TestMeaning:
    @pytest.fixture(params=[True, False], ids=["numpy", "plain"])
    def near(
        self, client: Client, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> LastgoodStore:
        if not request.param:
            monkeypatch.setattr(vectors, "find_spec", lambda name: None)
        index: Any = {"dims": 3, "embed": embed, "fields": ["text", "more[*]"]}
        return LastgoodStore(client, index=index)

    def test_orders_by_nearness(self, near: LastgoodStore) -> None:
        near.put(("n",), "a", {"text": "aaa"})
        near.put(("n",), "ab", {"text": "ab"})
        near.put(("n",), "c", {"text": "c", "more": ["x", "aa"]})
        near.put(("n",), "hidden", {"text": "aaa"}, index=False)
        found = near.search(("n",), query="a")
        assert keys(found)[:2] in (["a", "c"], ["c", "a"])
        assert keys(found)[2:] == ["ab", "hidden"]
        assert [item.score and round(item.score, 3) for item in found] == [1, 1, 0.707, None]
        assert keys(near.search(("n",), query="a", filter={"text": "ab"})) == ["ab"]
        again = asyncio.run(near.asearch(("n",), query="a"))
        assert keys(again) == keys(found)

    def test_follows_a_change(self, near: LastgoodStore) -> None:
        near.put(("n",), "k", {"text": "a"})
        near.put(("n",), "k", {"text": "b"})
        assert near.search(("n",), query="a")[0].score == 0
        near.put(("n",), "k", {"other": "b"}, index=["other"])
        assert near.search(("n",), query="b")[0].score == 1
        near.delete(("n",), "k")
        assert near.search(("n",), query="b") == []

    def test_what_another_embedding_made_compares_with_nothing(self, near: LastgoodStore) -> None:
        near.put(("n",), "old", {"text": "a"})
        index: Any = {"dims": 2, "embed": lambda texts: [[1.0, float(len(t))] for t in texts]}
        newer = LastgoodStore(near.client, index=index)
        newer.put(("n",), "new", {"text": "a"})
        scores = {item.key: item.score for item in newer.search(("n",), query="a")}
        assert scores["old"] is None
        assert scores["new"] is not None

    def test_questions_are_embedded_as_such(self, client: Client) -> None:
        class Opposite(Embeddings):
            """A model that takes questions in another way than documents."""

            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [[1.0, 0.0] if "cat" in text else [0.0, 1.0] for text in texts]

            def embed_query(self, text: str) -> list[float]:
                return [0.0, 1.0] if "cat" in text else [1.0, 0.0]

        store = LastgoodStore(client, index={"dims": 2, "embed": Opposite()})
        store.batch([PutOp(("n",), name, {"text": name}) for name in ("cat", "dog")])
        for query, nearest in (("cat", "dog"), ("dog", "cat")):
            assert keys(store.search(("n",), query=query))[0] == nearest
            assert keys(asyncio.run(store.asearch(("n",), query=query)))[0] == nearest

    def test_an_embedding_that_breaks_its_promise_is_named(self, client: Client) -> None:
        for made, match in (([[1.0]], "1 numbers.*'dims': 3"), ([], "0 vectors for 1")):
            index: Any = {"dims": 3, "embed": lambda _, made=made: made}
            with pytest.raises(ValueError, match=match):
                LastgoodStore(client, index=index).put(("n",), "k", {"text": "a"})


def test_in_a_graph(saver: LastgoodSaver) -> None:
    def remember(state: Any, runtime: Runtime[Any]) -> Any:
        assert runtime.store is not None
        runtime.store.put(("facts",), state["key"], {"seen": True})
        return {"key": str(len(runtime.store.search(("facts",))))}

    graph = StateGraph(dict)
    graph.add_node("remember", remember)
    graph.add_edge(START, "remember")
    app = graph.compile(checkpointer=saver, store=LastgoodStore(saver.client))
    app.invoke({"key": "a"}, {"configurable": {"thread_id": "1"}})
    app.invoke({"key": "b"}, {"configurable": {"thread_id": "2"}})
    assert set(keys(LastgoodStore(saver.client).search(("facts",)))) == {"a", "b"}


def test_every_kind_of_store_can_be_opened_by_itself(
    tmp_path: Path, postgres_url: str, valkey_url: str
) -> None:
    name = f"f{uuid4().hex[:12]}"
    ttl: TTLConfig = {"default_ttl": 60}
    for store in (
        LastgoodStore.from_sqlite(str(tmp_path / "a.db"), ttl=ttl),
        LastgoodStore.from_memory(ttl=ttl),
        LastgoodStore.from_postgres(postgres_url, schema=name, ttl=ttl),
        LastgoodStore.from_redis(valkey_url, prefix=name, ttl=ttl),
    ):
        store.put(("n",), "k", {"v": 1})
        found = store.get(("n",), "k")
        assert found is not None
        assert found.value == {"v": 1}
        assert store.ttl_config == ttl
        store.client.blocking.close()


def test_tenants_are_apart_and_threads_do_not_show(tmp_path: Any) -> None:
    path = str(tmp_path / "two.db")
    ours = LastgoodStore.from_conn_string(path, tenant="A")
    theirs = LastgoodStore.from_conn_string(path, tenant="B")
    ours.put(("n",), "k", {"v": 1})
    assert theirs.get(("n",), "k") is None
    assert theirs.list_namespaces() == []
    assert list(ours.client.blocking.threads()) == []  # type: ignore[union-attr]
