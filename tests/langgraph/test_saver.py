"""The contract of a saver beyond LangGraph's own suite: order, revisions, forks, values, loops."""

import asyncio
import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, create_checkpoint
from langgraph.checkpoint.base import empty_checkpoint as empty
from langgraph.checkpoint.base.id import uuid6
from langgraph.types import Command, Interrupt, Send

from lastgood import ThreadDeletedError
from lastgood.adapters.langgraph import LastgoodSaver, putting
from lastgood.client import Client
from lastgood.errors import SerializationError
from lastgood.testing.harness import BackendHarness

Config = dict[str, Any]


def config(thread: str = "t", ns: str = "", id: str | None = None) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


def checkpoint(values: dict[str, Any], versions: dict[str, Any] | None = None) -> Checkpoint:
    return {
        "v": 4,
        "id": str(uuid6(clock_seq=1)),
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": values,
        "channel_versions": versions or dict.fromkeys(values, "1"),
        "versions_seen": {"node": {"a": "1"}},
        "updated_channels": None,
    }


def put(
    saver: LastgoodSaver, values: dict[str, Any], parent: Any = None, **options: Any
) -> tuple[Any, Checkpoint]:
    made = options.pop("checkpoint", None) or checkpoint(values, options.pop("versions", None))
    new = options.pop("new", made["channel_versions"])
    metadata: CheckpointMetadata = options.pop("metadata", {"source": "loop", "step": 1})
    return saver.put(parent or config(**options), made, metadata, new), made


def ids(found: Any) -> list[str]:
    return [each.config["configurable"]["checkpoint_id"] for each in found]


def put_and_killed(
    saver: LastgoodSaver, made: Checkpoint, monkeypatch: pytest.MonkeyPatch, ns: str = ""
) -> None:
    """Put a checkpoint in a process that ends right behind the commit."""

    async def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(putting, "take_over", killed)
        with pytest.raises(KeyboardInterrupt):
            saver.put(config(ns=ns), made, {}, {})


class TestWrites:
    def test_come_in_the_order_of_path_task_and_number(self, saver: LastgoodSaver) -> None:
        at, _ = put(saver, {"a": 1})
        saver.put_writes(at, [("x", 1), ("y", 2)], "task-b", "~2")
        saver.put_writes(at, [("x", 3)], "task-c", "~1")
        saver.put_writes(at, [("x", 4)], "task-z")
        saver.put_writes(at, [("x", 5)], "task-a", "~2")
        expected = [
            ("task-z", "x", 4),
            ("task-c", "x", 3),
            ("task-a", "x", 5),
            ("task-b", "x", 1),
            ("task-b", "y", 2),
        ]
        found = saver.get_tuple(at)
        assert found is not None
        assert found.pending_writes == expected
        assert next(iter(saver.list(config()))).pending_writes == expected

    def test_the_first_of_ordinary_and_the_last_of_special_ones_stay(
        self, saver: LastgoodSaver
    ) -> None:
        at, _ = put(saver, {"a": 1})
        saver.put_writes(at, [("__resume__", [1]), ("x", 1)], "task")
        saver.put_writes(at, [("__resume__", [1, 2]), ("x", 2)], "task", "another path")
        found = saver.get_tuple(at)
        assert found is not None
        assert sorted(found.pending_writes or []) == [
            ("task", "__resume__", [1, 2]),
            ("task", "x", 1),
        ]

    def test_may_come_before_their_checkpoint(self, saver: LastgoodSaver) -> None:
        made = checkpoint({"a": 1})
        saver.put_writes(config(id=made["id"]), [("x", 1)], "task")
        assert saver.get_tuple(config()) is None
        assert list(saver.list(None)) == []
        at, _ = put(saver, {}, checkpoint=made)
        found = saver.get_tuple(at)
        assert found is not None
        assert found.pending_writes == [("task", "x", 1)]

    @pytest.mark.parametrize("begun", [False, True])
    @pytest.mark.parametrize("killed", [False, True])
    def test_that_came_before_outlive_the_process_that_put_it(
        self,
        saver: LastgoodSaver,
        harness: BackendHarness,
        monkeypatch: pytest.MonkeyPatch,
        *,
        begun: bool,
        killed: bool,
    ) -> None:
        made = checkpoint({"a": 1})
        saver.put_writes(config(id=made["id"]), [("x", 1)], "task")
        if begun:  # by somebody who saves there, too
            saver.client.blocking.save("agent", session_id="t", execution_state={})
        if killed:
            put_and_killed(saver, made, monkeypatch)
        else:
            put(saver, {}, checkpoint=made)
        with LastgoodSaver(Client.on(harness.backend())) as other:
            [listed] = other.list(config())
            found = other.get_tuple(config())
        assert found is not None
        assert found.pending_writes == listed.pending_writes == [("task", "x", 1)]

    def test_that_came_before_a_subgraph_began_the_thread(
        self, saver: LastgoodSaver, harness: BackendHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outer, inner = checkpoint({"a": 1}), checkpoint({"b": 1})
        saver.put_writes(config(id=outer["id"]), [("x", 1)], "task")
        put_and_killed(saver, inner, monkeypatch, ns="node:1")
        put(saver, {}, checkpoint=outer)
        with LastgoodSaver(Client.on(harness.backend())) as other:
            found = other.get_tuple(config())
        assert found is not None
        assert found.pending_writes == [("task", "x", 1)]

    def test_of_a_deleted_thread_bring_nothing_back(self, saver: LastgoodSaver) -> None:
        at, _ = put(saver, {"a": 1})
        saver.delete_thread("t")
        saver.put_writes(at, [("x", 1)], "task")
        assert saver.get_tuple(config()) is None
        assert list(saver.list(None)) == []
        with pytest.raises(ThreadDeletedError):
            put(saver, {"a": 2}, parent=at)
        again, _ = put(saver, {"a": 3})
        found = saver.get_tuple(again)
        assert found is not None
        assert found.pending_writes == []
        with pytest.raises(ThreadDeletedError):
            put(saver, {"a": 4}, parent=at)

    def test_an_error_is_kept_as_its_text(self, saver: LastgoodSaver) -> None:
        at, _ = put(saver, {"a": 1})
        saver.put_writes(at, [("__error__", ValueError("broken"))], "task")
        found = saver.get_tuple(at)
        assert found is not None
        assert found.pending_writes == [("task", "__error__", "ValueError('broken')")]

    def test_more_than_a_page_of_them(self, saver: LastgoodSaver) -> None:
        at, _ = put(saver, {"a": 1})
        saver.put_writes(at, [("x", number) for number in range(1100)], "task")
        found = saver.get_tuple(at)
        assert found is not None
        assert [value for _, _, value in found.pending_writes or []] == list(range(1100))


class TestRevisions:
    def test_take_over_the_id_and_the_place(self, saver: LastgoodSaver) -> None:
        first, made = put(saver, {"a": 1})
        second, _ = put(saver, {"a": 2}, parent=first)
        put(saver, {}, checkpoint={**made, "channel_values": {"a": 9}})
        found = saver.get_tuple(first)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": 9}
        listed = list(saver.list(config()))
        assert ids(listed) == ids([saver.get_tuple(second), found])
        assert [each.checkpoint["channel_values"] for each in listed] == [{"a": 2}, {"a": 9}]
        assert listed[0].parent_config == listed[1].config

    def test_the_same_again_is_nothing(self, saver: LastgoodSaver) -> None:
        at, made = put(saver, {"a": 1})
        assert put(saver, {}, checkpoint=made)[0] == at
        client = saver.client.blocking if isinstance(saver.client, Client) else saver.client
        assert len(client.log("t")) == 1

    def test_a_saver_that_does_not_know_the_first(self, saver: LastgoodSaver) -> None:
        at, made = put(saver, {"a": "x" * 5000, "b": 1})
        other = LastgoodSaver(saver.client)
        put(other, {}, checkpoint={**made, "channel_values": {"a": "x" * 5000, "b": 2}})
        found = saver.get_tuple(at)
        assert found is not None
        assert found.checkpoint["channel_values"]["b"] == 2
        after, _ = put(saver, {"a": "x" * 5000, "b": 3}, parent=at)
        assert ids(saver.list(config())) == ids([saver.get_tuple(after), found])


class TestLines:
    def test_latest_is_what_was_put_last_whatever_the_ids_say(self, saver: LastgoodSaver) -> None:
        late = {**checkpoint({"a": 1}), "id": str(UUID(int=2**127))}
        early = {**checkpoint({"a": 2}), "id": str(UUID(int=1))}
        at, _ = put(saver, {}, checkpoint=late)
        put(saver, {}, checkpoint=early, parent=at)
        found = saver.get_tuple(config())
        assert found is not None
        assert found.checkpoint["id"] == early["id"]
        assert found.parent_config == at
        assert ids(saver.list(config())) == [early["id"], late["id"]]
        assert ids(saver.list(config(), before=found.config)) == [late["id"]]

    def test_forks_keep_their_own_values(self, saver: LastgoodSaver) -> None:
        """Also where versions are numbers that both forks count up."""
        root, _ = put(saver, {"big": "r" * 5000, "n": 0}, versions={"big": 1, "n": 1})
        forks = [
            put(saver, {"big": "r" * 5000, "n": n}, parent=root, versions={"big": 1, "n": 2})[0]
            for n in (1, 2)
        ]
        leaves = [
            put(
                saver,
                {"big": "r" * 5000, "n": n, "m": n},
                parent=fork,
                versions={"big": 1, "n": 2, "m": 1},
                new={"m": 1},
            )[0]
            for n, fork in enumerate(forks, 1)
        ]
        for n, leaf in enumerate(leaves, 1):
            found = LastgoodSaver(saver.client).get_tuple(leaf)
            assert found is not None
            assert found.checkpoint["channel_values"] == {"big": "r" * 5000, "n": n, "m": n}
        found = saver.get_tuple(config())
        assert found is not None
        assert found.config == leaves[1]
        back, _ = put(saver, {"n": 9}, parent=leaves[0])
        assert saver.get_tuple(config()) is not None
        found = saver.get_tuple(config())
        assert found is not None
        assert found.config == back

    def test_a_namespace_is_its_own_line(self, saver: LastgoodSaver) -> None:
        for ns in ("", "graph", "a:1", "a:1|b:2", "|"):
            put(saver, {"ns": ns}, ns=ns)
        for ns in ("", "graph", "a:1", "a:1|b:2", "|"):
            found = saver.get_tuple(config(ns=ns))
            assert found is not None
            assert found.checkpoint["channel_values"] == {"ns": ns}
            assert len(list(saver.list(config(ns=ns)))) == 1
        assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == 5

    def test_an_unknown_parent_is_accepted(self, saver: LastgoodSaver) -> None:
        put(saver, {"a": 1})
        at, _ = put(saver, {"a": 2}, parent=config(id=str(uuid4())))
        found = saver.get_tuple(config())
        assert found is not None
        assert found.config == at


class TestLists:
    def test_of_all_threads(self, saver: LastgoodSaver) -> None:
        for thread in range(5):
            put(saver, {"n": thread}, thread=f"t{thread}")
        found = {each.config["configurable"]["thread_id"] for each in saver.list(None)}
        assert found == {f"t{thread}" for thread in range(5)}
        assert len(list(saver.list(None, limit=3))) == 3
        assert list(saver.list(None, limit=0)) == []

    def test_by_metadata_as_values(self, saver: LastgoodSaver) -> None:
        parent = None
        for value in (1, True, "1", None, {"id": 7}, [1]):
            parent, _ = put(saver, {"v": 1}, parent=parent, metadata={"k": value, "d.e": 1})
        for value in (1, True, "1", None, {"id": 7}, [1]):
            found = list(saver.list(config(), filter={"k": value}))
            assert [each.metadata["k"] for each in found] == [value]  # type: ignore[typeddict-item]
        assert list(saver.list(config(), filter={"absent": None})) == []
        assert len(list(saver.list(config(), filter={"d.e": 1}))) == 6
        assert list(saver.list(config(), filter={"' OR 1=1 --": 1})) == []

    def test_while_others_write(self, saver: LastgoodSaver) -> None:
        """Nothing is locked while a caller iterates."""
        parent = None
        for number in range(120):
            parent, _ = put(saver, {"n": number}, parent=parent)
        seen = []
        for found in saver.list(config()):
            seen.append(found.checkpoint["channel_values"]["n"])
            inner = saver.get_tuple(found.config)
            assert inner is not None
            if len(seen) % 40 == 1:
                put(saver, {"n": -1}, parent=inner.config)
        assert seen == list(range(119, -1, -1))

    def test_before_an_id_that_is_not_there(self, saver: LastgoodSaver) -> None:
        at, _ = put(saver, {"n": 1})
        before = config(id="ffffffff-ffff-6fff-bfff-ffffffffffff")
        assert ids(saver.list(config(), before=before)) == ids([saver.get_tuple(at)])
        before = config(id="00000000-0000-6000-8000-000000000000")
        assert ids(saver.list(config(), before=before)) == []

    def test_of_one_id(self, saver: LastgoodSaver) -> None:
        first, _ = put(saver, {"a": 1})
        second, _ = put(saver, {"a": 2}, parent=first)
        inner, _ = put(saver, {"a": 3}, ns="sub:1")
        id = inner["configurable"]["checkpoint_id"]
        anywhere: Any = {"configurable": {"thread_id": "t", "checkpoint_id": id}}
        assert [found.config for found in saver.list(anywhere)] == [inner]
        assert list(saver.list(config(id=id))) == []
        assert list(saver.list(anywhere, limit=0)) == []
        assert [found.config for found in saver.list(first, before=second)] == [first]
        assert list(saver.list(first, before=first)) == []
        assert list(saver.list(second, before=first)) == []
        assert list(saver.list(second, before=config(id="0"))) == []

    def test_an_empty_id_is_none(self, saver: LastgoodSaver) -> None:
        first, _ = put(saver, {"a": 1})
        second, _ = put(saver, {"a": 2}, parent=first)
        empty = config(id="")
        found = saver.get_tuple(empty)
        assert found is not None
        assert found.config == second
        assert [each.config for each in saver.list(empty, before=empty)] == [second, first]
        third, _ = put(saver, {"a": 3}, parent=empty)
        found = saver.get_tuple(third)
        assert found is not None
        assert found.parent_config is None


class TestValues:
    def test_come_back_as_they_were(self, saver: LastgoodSaver) -> None:
        values = {
            "messages": [
                HumanMessage("hi", id="1"),
                AIMessage(
                    "x",
                    tool_calls=[{"name": "t", "args": {"a": 1}, "id": "c"}],
                    usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
                    response_metadata={"model": "m"},
                ),
                ToolMessage("r", tool_call_id="c", artifact={"raw": (1, 2)}),
            ],
            "odd": [(1, 2), {3}, "a\x00b", "\ud800", 2**80, float("inf"), b"\x00", Send("n", 1)],
            "more": [Document(page_content="d", metadata={"k": 1}), Interrupt("q", id="i")],
            "command": Command(goto="n", update={"x": 1}),
        }
        at, _ = put(saver, values)
        saver.put_writes(at, [("odd", values["odd"])], "task")
        found = LastgoodSaver(saver.client).get_tuple(at)
        assert found is not None
        assert found.checkpoint["channel_values"] == values
        assert found.pending_writes == [("task", "odd", values["odd"])]
        restored = found.checkpoint["channel_values"]
        assert [type(each) for each in restored["messages"]] == [
            HumanMessage,
            AIMessage,
            ToolMessage,
        ]
        assert [type(each) for each in restored["odd"]] == [type(each) for each in values["odd"]]

    def test_the_text_of_a_message_comes_back_as_text(self, saver: LastgoodSaver) -> None:
        answer = AIMessage("hello").text
        at, _ = put(saver, {"answer": answer, "all": [answer], "by": {answer: 1}})
        saver.put_writes(at, [("answer", answer)], "task")
        found = saver.get_tuple(at)
        assert found is not None
        values = found.checkpoint["channel_values"]
        assert values == {"answer": "hello", "all": ["hello"], "by": {"hello": 1}}
        assert found.pending_writes == [("task", "answer", "hello")]
        assert type(values["answer"]) is type(found.pending_writes[0][2]) is str

    def test_a_value_that_cannot_be_kept_is_named(self, saver: LastgoodSaver) -> None:
        with pytest.raises(SerializationError, match=r"state\.call\[0\]"):
            put(saver, {"call": [print]})
        at, _ = put(saver, {"a": 1})
        with pytest.raises(SerializationError, match=r"writes\.x"):
            saver.put_writes(at, [("x", {"f": print})], "task")

    def test_legacy_keys_of_a_checkpoint_are_kept(self, saver: LastgoodSaver) -> None:
        made = create_checkpoint(empty(), {}, 1)
        at, _ = put(saver, {}, checkpoint=made)
        found = saver.get_tuple(at)
        assert found is not None
        assert found.checkpoint == made

    def test_many_channels(self, saver: LastgoodSaver) -> None:
        values = {f"channel {number}": "x" * 100 for number in range(100)}
        at, made = put(saver, values)
        more = {**values, "channel 7": "y"}
        after, _ = put(
            saver, more, parent=at, versions=made["channel_versions"], new={"channel 7": 2}
        )
        found = saver.get_tuple(after)
        assert found is not None
        assert found.checkpoint["channel_values"] == more


class TestUnchangedChannels:
    """Their values are those of the checkpoint before, however large the state is."""

    @pytest.fixture(params=["small", "large", "becomes small", "becomes large"])
    def sizes(self, request: pytest.FixtureRequest) -> list[int]:
        found: list[int] = {
            "small": [9, 9],
            "large": [9000, 9000],
            "becomes small": [9000, 9],
            "becomes large": [9, 9000],
        }[request.param]
        return found

    def test_may_be_changed_in_place_before_they_are_put(
        self, saver: LastgoodSaver, sizes: list[int]
    ) -> None:
        log, parent = ["one"], None
        for number, size in enumerate(sizes):
            values = {"log": log, "when": datetime(2026, 1, 1, tzinfo=UTC), "pad": "x" * size}
            versions = {"log": "1", "when": "1", "pad": str(number)}
            new = {"pad": str(number)} if number else versions
            parent, _ = put(saver, values, parent=parent, versions=versions, new=new)
            log.append("two")
        for reader in (saver, LastgoodSaver(saver.client)):
            found = reader.get_tuple(config())
            assert found is not None
            expected = {
                "log": ["one"],
                "when": datetime(2026, 1, 1, tzinfo=UTC),
                "pad": "x" * sizes[-1],
            }
            assert found.checkpoint["channel_values"] == expected

    def test_are_left_as_the_hook_made_them(
        self, harness: BackendHarness, sizes: list[int]
    ) -> None:
        count = iter(range(10))
        hook = lambda channels: {**channels, "key": f"made {next(count)}"}  # noqa: E731
        saver, parent = LastgoodSaver(Client.on(harness.backend(), before_save=hook)), None
        for number, size in enumerate(sizes):
            versions = {"key": "1", "pad": str(number)}
            new = {"pad": str(number)} if number else versions
            values = {"key": "secret", "pad": "x" * size}
            parent, _ = put(saver, values, parent=parent, versions=versions, new=new)
        found = saver.get_tuple(config())
        assert found is not None
        assert found.checkpoint["channel_values"]["key"] == "made 0"


class TestHook:
    """`before_save` sees channels with their values, of checkpoints and of writes."""

    @pytest.fixture
    def saver(self, harness: BackendHarness) -> LastgoodSaver:
        return LastgoodSaver(Client.on(harness.backend(), before_save=self.redacted))

    @staticmethod
    def redacted(channels: dict[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in channels.items() if name != "drafts"}
        return {**kept, "token": "***"} if "token" in channels else kept

    def test_sees_what_is_put(self, saver: LastgoodSaver) -> None:
        given = {"token": "secret", "log": ["x" * 9000], "drafts": ["secret"]}
        first, made = put(saver, given)
        assert given["token"] == "secret"
        again = {**made, "id": str(uuid6(clock_seq=1)), "channel_values": {**given, "log": ["y"]}}
        again["channel_versions"] = {**made["channel_versions"], "log": "2"}
        second, _ = put(saver, {}, first, checkpoint=again, new={"log": "2"})
        for at, log in [(first, given["log"]), (second, ["y"])]:
            found = saver.get_tuple(at)
            assert found is not None
            assert found.checkpoint["channel_values"] == {"token": "***", "log": log}

    def test_sees_every_write(self, saver: LastgoodSaver) -> None:
        at, _ = put(saver, {"log": []})
        writes = [("log", ["a"]), ("drafts", ["secret"]), ("token", "secret"), ("log", ["b"])]
        saver.put_writes(at, writes, "task")
        asyncio.run(saver.aput_writes(at, [("__error__", ValueError("no")), ("token", 1)], "two"))
        found = saver.get_tuple(at)
        assert found is not None
        assert found.pending_writes is not None
        assert sorted(found.pending_writes, key=repr) == [
            ("task", "log", ["a"]),
            ("task", "log", ["b"]),
            ("task", "token", "***"),
            ("two", "__error__", "ValueError('no')"),
            ("two", "token", "***"),
        ]

    def test_that_returns_no_channels_is_told(self) -> None:
        saver = LastgoodSaver.from_memory(before_save=lambda channels: None)
        with pytest.raises(TypeError, match=r"before_save returned NoneType .* a, b"):
            put(saver, {"a": 1, "b": 2})
        with pytest.raises(TypeError, match="before_save returned NoneType"):
            saver.put_writes(config(id="x"), [("a", 1)], "task")


class TestAllowlist:
    def test_narrows_what_is_accepted(self, saver: LastgoodSaver) -> None:
        from tests.langgraph.states import Order, Other

        at, _ = put(saver, {"o": Order("a"), "m": HumanMessage("x")})
        beside, _ = put(saver, {"o": Other("a")}, thread="beside")
        strict = saver.with_allowlist([Order])
        found = strict.get_tuple(at)
        assert found is not None
        assert found.checkpoint["channel_values"]["o"] == Order("a")
        with pytest.raises(SerializationError, match="Other"):
            strict.get_tuple(beside)
        with pytest.raises(SerializationError, match="Other"):
            put(strict, {"o": Other("a")})
        named = saver.with_allowlist([(Other.__module__, "Other")]).get_tuple(beside)
        assert named is not None
        assert named.checkpoint["channel_values"]["o"] == Other("a")

    def test_what_it_lacks_is_told(self, saver: LastgoodSaver) -> None:
        from tests.langgraph.states import Order, Other

        at, _ = put(saver, {"o": Other("a")})
        strict = saver.with_allowlist([Order])
        with pytest.raises(SerializationError, match="or add it to the allowlist") as refused:
            strict.put_writes(at, [("o", Other("a"))], "task")
        assert "encode=" not in str(refused.value)
        with pytest.raises(SerializationError, match="or add it to the allowlist"):
            strict.get_tuple(at)

    @pytest.mark.parametrize("entry", ["Order", ("tests.langgraph.states",), ("a", 1), 7])
    def test_what_is_no_class_is_refused(self, saver: LastgoodSaver, entry: Any) -> None:
        with pytest.raises(TypeError, match=r"allowlist.*shop\.models"):
            saver.with_allowlist([entry])

    def test_survives_a_copy(self, saver: LastgoodSaver) -> None:
        at, _ = put(saver, {"a": 1})
        found = copy.copy(saver).get_tuple(at)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": 1}


class TestVersions:
    def test_grow_and_never_meet(self, saver: LastgoodSaver) -> None:
        first = saver.get_next_version(None, None)
        second = saver.get_next_version(first, None)
        assert first < second
        assert saver.get_next_version(first, None) != second
        assert int(saver.get_next_version(7, None).partition(".")[0]) == 8


class TestColours:
    def test_blocking_calls_inside_a_loop(self, saver: LastgoodSaver) -> None:
        async def inside() -> None:
            at, _ = put(saver, {"a": 1})
            found = await saver.aget_tuple(at)
            assert found is not None
            again = saver.get_tuple(at)
            assert again == found

        asyncio.run(inside())

    def test_several_loops_and_threads_at_once(self, saver: LastgoodSaver) -> None:
        async def conversation(thread: str) -> None:
            at = config(thread)
            for number in range(10):
                at = await saver.aput(at, checkpoint({"n": number}), {"step": number}, {"n": "1"})
                await asyncio.gather(
                    *(saver.aput_writes(at, [("x", n)], f"task {n}") for n in range(5))
                )
            found = [each async for each in saver.alist(config(thread))]
            assert [len(each.pending_writes or []) for each in found] == [5] * 10

        def blocking(thread: str) -> None:
            at = config(thread)
            for number in range(10):
                at, _ = put(saver, {"n": number}, parent=at)

        def looping(thread: str) -> None:
            asyncio.run(conversation(thread))

        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(looping, "a"), pool.submit(looping, "b")]
            jobs += [pool.submit(blocking, "c"), pool.submit(blocking, "d")]
            for job in jobs:
                job.result(60)
        assert threading.active_count() < 50
        assert len(list(saver.list(config("c")))) == 10


class TestFactories:
    def test_every_kind_of_store(self, tmp_path: Path, postgres_url: str, valkey_url: str) -> None:
        name = f"f{uuid4().hex[:12]}"
        savers = [
            LastgoodSaver.from_sqlite(str(tmp_path / "a.db")),
            LastgoodSaver.from_conn_string(str(tmp_path / "b.db")),
            LastgoodSaver.from_conn_string(f"sqlite:///{tmp_path / 'c.db'}"),
            LastgoodSaver.from_memory(),
            LastgoodSaver.from_postgres(postgres_url, schema=name),
            LastgoodSaver.from_redis(valkey_url, prefix=name),
        ]
        for made in savers:
            with made as saver:
                at, _ = put(saver, {"a": 1})
                assert saver.get_tuple(at) is not None
