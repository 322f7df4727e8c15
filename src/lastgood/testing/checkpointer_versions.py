"""States as checkpoints: their history, writers in each other's way, threads that are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lastgood import StaleWriterError, StorageError, ThreadDeletedError
from lastgood.checkpointers import AgentState, Message, ThreadInfo, writers
from lastgood.commits import Intent, Writes
from lastgood.testing.checkpointer_cases import T1, ids, said, texts
from lastgood.testing.checkpointer_store import CheckpointerStore, case


@case(builtin=True)
async def states_are_checkpoints(store: CheckpointerStore) -> None:
    """History, diff, fork and rewind of the client apply to them."""
    checkpointer = await store.open()
    config = {"thread_id": "t", "run_id": "run-1"}
    for number in range(3):
        await checkpointer.aput_state(config, {"n": number})
    client = store.store.client()
    log = await client.log("t")
    assert [header.step_index for header in log] == [2, 1, 0]
    assert log[0].metadata == {"run_id": "run-1"}
    assert str((await client.diff("t@1", "t@2")).changes[0]) == "~ n: 0 -> 1"
    await client.rewind("t", "t@1")
    assert await checkpointer.aget_state(config) == {"n": 0}
    await checkpointer.aput_state(config, {"n": 7})
    assert (await client.latest(agent_id="agent", session_id="t")).state == {"n": 7}  # type: ignore[union-attr]
    await client.fork("t@2", edits={"n": 5}, switch=True)
    assert await checkpointer.aget_state(config) == {"n": 5}
    await store.store.close()


@case(builtin=True)
async def a_step_is_named_after_its_node(store: CheckpointerStore) -> None:
    """Where a state says at which node of a graph it stands."""
    checkpointer = await store.open()
    state = AgentState()
    state.execution_meta.current_node = "plan"
    await checkpointer.aput_state(T1, state)
    client = store.store.client()
    assert (await client.log("thread-1"))[0].step_name == "plan"
    await store.store.close()


@case(builtin=True)
async def a_checkpoint_is_one_commit(store: CheckpointerStore) -> None:
    """If there is no room for the state and its messages, neither is there."""
    checkpointer = await store.open()
    await checkpointer.aput_checkpoint(T1, {"n": 1}, said("one"))
    backend = checkpointer._core.backend
    with store.store.harness.full_disk(backend), pytest.raises(StorageError):
        await checkpointer.aput_checkpoint(T1, {"n": 2}, said("two"))
    other = await store.open()
    assert await other.aget_state(T1) == {"n": 1}
    assert await texts(other, T1) == ["one"]
    await store.verify()


@case(builtin=True)
async def a_refused_state_brings_no_messages(store: CheckpointerStore) -> None:
    """What is put with a state is not there without it."""
    checkpointer, other = await store.open(), await store.open()
    await checkpointer.aget_state(T1)
    await other.aput_state(T1, {"n": 1})
    with pytest.raises(StaleWriterError):
        await checkpointer.aput_checkpoint(T1, {"n": 2}, said("one"))
    assert await texts(checkpointer, T1) == []


# versions


@case(builtin=True)
async def of_two_writers_one_wins(store: CheckpointerStore) -> None:
    """Who read before the other wrote is refused, and may read again."""
    checkpointer = await store.open()
    await checkpointer.aput_state(T1, {"n": 0})
    writers: list[tuple[Any, dict[str, Any]]] = [
        (checkpointer, {"thread_id": "thread-1"}),
        (checkpointer, {"thread_id": "thread-1"}),
        (checkpointer, {"thread_id": "thread-1", "run_id": "run-1"}),
        (checkpointer, {"thread_id": "thread-1", "run_id": "run-2"}),
        (await store.open(), {"thread_id": "thread-1"}),
    ]
    for number, (winner, config) in enumerate(writers):
        for each, its in writers:
            await each.aget_state(its)
        await winner.aput_state(config, {"n": number})
        for each, its in writers:
            if its is not config:
                with pytest.raises(StaleWriterError, match="aget_state"):
                    await each.aput_state(its, {"n": "lost"})
        await winner.aput_state(config, {"n": number, "again": True})
        assert await winner.aget_state(config) == {"n": number, "again": True}


@case(builtin=True)
async def a_run_is_known_by_its_id(store: CheckpointerStore) -> None:
    """Whatever copies of its config it uses."""
    checkpointer, other = await store.open(), await store.open()
    config = {"thread_id": "thread-1", "run_id": "run-1"}
    await checkpointer.aget_state(config)
    await checkpointer.aput_state({**config, "more": 1}, {"n": 1})
    await checkpointer.aput_state({**config, "more": 2}, {"n": 2})
    await other.aput_state(T1, {"n": 3})
    with pytest.raises(StaleWriterError):
        await checkpointer.aput_state(dict(config), {"n": 4})


@case(builtin=True)
async def configs_made_for_one_call_are_one_writer(store: CheckpointerStore) -> None:
    """The checkpointer itself: what another one put since it read is not lost."""
    checkpointer, other = await store.open(), await store.open()
    await checkpointer.aput_state({"thread_id": "t"}, {"n": 1})
    for each in (checkpointer, other):
        assert await each.aget_state({"thread_id": "t"}) == {"n": 1}
    await other.aput_state({"thread_id": "t"}, {"n": 2})
    await other.aput_state({"thread_id": "t"}, {"n": 3})
    with pytest.raises(StaleWriterError):
        await checkpointer.aput_state({"thread_id": "t"}, {"n": 4})
    assert await checkpointer.aget_state({"thread_id": "t"}) == {"n": 3}
    await checkpointer.aput_state({"thread_id": "t"}, {"n": 4})


@case(builtin=True)
async def one_writer_does_not_set_another_back(store: CheckpointerStore) -> None:
    """Who is behind may append messages; who has read since may put a state all the same."""
    checkpointer, other = await store.open(), await store.open()
    behind = {"thread_id": "t"}
    await checkpointer.aget_state(behind)
    await other.aput_state({"thread_id": "t"}, {"n": 1})
    assert await checkpointer.aget_state({"thread_id": "t"}) == {"n": 1}
    await checkpointer.aput_messages(behind, said("one"))
    with pytest.raises(StaleWriterError):
        await checkpointer.aput_state(behind, {"n": 2})
    await checkpointer.aput_state({"thread_id": "t"}, {"n": 2})


@case(builtin=True)
async def who_never_read_is_not_refused(store: CheckpointerStore) -> None:
    """They replace what is there, and say so by not reading."""
    checkpointer, other = await store.open(), await store.open()
    for number in range(3):
        await checkpointer.aput_state(T1, {"n": number})
        await other.aput_state(T1, {"n": -number})
    assert await checkpointer.aget_state(T1) == {"n": -2}


@case(builtin=True)
async def of_many_who_begin_a_thread_one_wins(store: CheckpointerStore) -> None:
    """All of them saw that there was nothing."""
    checkpointer = await store.open()
    configs = [{"thread_id": "t", "run_id": f"run-{number}"} for number in range(6)]
    for config in configs:
        assert await checkpointer.aget_state(config) is None

    async def put(config: dict[str, Any]) -> Any:
        return await checkpointer.aput_state(config, {"by": config["run_id"]})

    outcomes = await store.together([lambda c=c: put(c) for c in configs])  # type: ignore[misc]
    won = [outcome for outcome in outcomes if isinstance(outcome, dict)]
    assert [await checkpointer.aget_state(T1 | {"thread_id": "t"})] == won
    lost = [outcome for outcome in outcomes if isinstance(outcome, StaleWriterError)]
    assert len(lost) == 5


# deleted threads


@case(builtin=True)
async def a_late_writer_brings_nothing_back(store: CheckpointerStore) -> None:
    """Who knew a deleted thread is refused until they have read that it is gone."""
    checkpointer, other = await store.open(), await store.open()
    late = {"thread_id": "t", "run_id": "late"}
    puts: list[Callable[[Any], Any]] = [
        lambda c: checkpointer.aput_state(c, {"n": 2}),
        lambda c: checkpointer.aput_state_cache(c, {"n": 2}),
        lambda c: checkpointer.aput_messages(c, said("late")),
        lambda c: checkpointer.aput_tool_result(c, "call", {}),
        lambda c: checkpointer.aput_thread(c, ThreadInfo("t", thread_name="late")),
        checkpointer.arequest_stop,
        checkpointer.aclear_stop_request,
    ]
    for put in puts:
        await checkpointer.aput_state(late, {"n": 1})
        await other.adelete_thread({"thread_id": "t"})
        with pytest.raises(ThreadDeletedError, match="aget_state"):
            await put(late)
        assert await ids(other, {}) == set()
        await other.aput_messages({"thread_id": "t"}, said("new"))
        with pytest.raises(ThreadDeletedError):
            await put(late)
        assert await checkpointer.aget_state(late) is None
        await put(late)
        await other.adelete_thread({"thread_id": "t"})
        await checkpointer.aget_state(late)


@case(builtin=True)
async def a_late_writer_that_read_no_state_brings_nothing_back(store: CheckpointerStore) -> None:
    """Whatever it read of the thread, it knew it; and it may begin it anew once it read again."""
    checkpointer, other = await store.open(), await store.open()
    reads: list[Callable[[Any], Any]] = [
        checkpointer.aget_messages,
        lambda c: checkpointer.aget_message(c, "a"),
        checkpointer.aget_thread,
        lambda c: checkpointer.aget_tool_result(c, "call"),
    ]
    for number, read in enumerate(reads):
        for late in ({"thread_id": f"t{number}"}, {"thread_id": f"u{number}", "run_id": "late"}):
            there = {"thread_id": late["thread_id"]}
            await other.aput_messages(there, [Message("user", "hi", message_id="a")])
            await other.aput_tool_result(there, "call", 1)
            assert await read(late) is not None
            await other.adelete_thread(there)
            assert await checkpointer.ais_stop_requested(late) is False
            with pytest.raises(ThreadDeletedError, match="aget_messages"):
                await checkpointer.aput_messages(late, said("late"))
            with pytest.raises(ThreadDeletedError):
                await checkpointer.aput_tool_result(late, "call", 2)
            assert await checkpointer.aget_messages(late) == []
            await checkpointer.aput_messages(late, said("anew"))


@case(builtin=True)
async def who_only_appends_is_not_hindered_by_who_looks(store: CheckpointerStore) -> None:
    """Their configs are made for each call: nothing says that they are one."""
    checkpointer, other = await store.open(), await store.open()
    await other.aput_messages({"thread_id": "t"}, said("one"))
    assert await texts(checkpointer, {"thread_id": "t"}) == ["one"]
    await other.adelete_thread({"thread_id": "t"})
    await other.aput_messages({"thread_id": "t"}, said("two"))
    await checkpointer.aput_messages({"thread_id": "t"}, said("three"))
    assert await texts(checkpointer, {"thread_id": "t"}) == ["two", "three"]
    assert await checkpointer.adelete_thread({"thread_id": "t"}) is True


@case(builtin=True)
async def who_looks_at_many_threads_does_not_make_others_forgotten(
    store: CheckpointerStore,
) -> None:
    """A writer that read a state is remembered among many that read messages alone."""
    checkpointer, other = await store.open(), await store.open()
    run = {"thread_id": "t", "run_id": "r"}
    await other.aput_state({"thread_id": "t"}, {"n": 1})
    await checkpointer.aget_state(run)
    await other.aput_messages({"thread_id": "seen"}, said("one"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "WRITERS", 3)
        for number in range(10):
            await checkpointer.aget_messages({"thread_id": "seen", "run_id": f"r{number}"})
        await other.aput_state({"thread_id": "t"}, {"n": 2})
        with pytest.raises(StaleWriterError):
            await checkpointer.aput_state(run, {"n": 3})


@case(builtin=True)
async def a_late_writer_of_a_state_has_to_read_that_again(store: CheckpointerStore) -> None:
    """That its messages are gone does not make the state that it had read a new one."""
    checkpointer, other = await store.open(), await store.open()
    late = {"thread_id": "t", "run_id": "late"}
    await other.aput_state({"thread_id": "t"}, {"n": 1})
    await checkpointer.aget_state(late)
    await other.adelete_thread({"thread_id": "t"})
    assert await checkpointer.aget_messages(late) == []
    with pytest.raises(ThreadDeletedError):
        await checkpointer.aput_state(late, {"n": 2})


@case(builtin=True)
async def a_late_writer_brings_no_cleared_state_back(store: CheckpointerStore) -> None:
    """Their state is one of those that were removed."""
    checkpointer, other = await store.open(), await store.open()
    for number in range(3):
        await checkpointer.aput_state(T1, {"n": number})
    await checkpointer.aget_state(T1)
    assert await other.aclear_state(T1) is True
    assert await other.aclear_state(T1) is False
    with pytest.raises(StaleWriterError):
        await checkpointer.aput_state(T1, {"n": 3})
    assert await checkpointer.aput_state_cache(T1, {"n": 3}) is False
    assert await checkpointer.aget_state_cache(T1) is None
    client = store.store.client()
    assert [header.step_name for header in await client.log("thread-1")] == ["clear_state"]
    await store.verify()


@case(builtin=True)
async def a_late_writer_removes_nothing_new(store: CheckpointerStore) -> None:
    """What they want to clear or delete has gone; what is there now is somebody else's."""
    checkpointer, other = await store.open(), await store.open()
    late, new = {"thread_id": "t", "run_id": "late"}, {"thread_id": "t", "run_id": "new"}
    for remove in (checkpointer.aclear_state, checkpointer.adelete_thread):
        await checkpointer.aput_state(late, {"n": "old"})
        await other.adelete_thread({"thread_id": "t"})
        assert await remove(late) is False
        assert await checkpointer.aget_state(late) is None
        await checkpointer.aput_state(late, {"n": "old"})
        await other.adelete_thread({"thread_id": "t"})
        await other.aput_checkpoint(new, {"n": "new"}, said("hello"))
        with pytest.raises(ThreadDeletedError, match="aget_state"):
            await remove(late)
        assert await other.aget_state(new) == {"n": "new"}
        assert await texts(other, new) == ["hello"]
        assert await checkpointer.aget_state(late) == {"n": "new"}
        assert await remove(late) is True
        assert await other.aget_state(new) is None
        await other.adelete_thread(new)
        await checkpointer.aget_state(late)


@case(builtin=True)
async def clearing_leaves_other_lanes_alone(store: CheckpointerStore) -> None:
    """A run or an object under the name of the thread is not the checkpointer's to remove."""
    checkpointer = await store.open()
    client = store.store.client()
    kept = await client.save("planner", session_id="thread-1", execution_state={"plan": 1})
    assert await checkpointer.aclear_state(T1) is False
    for number in range(2):
        saved = await checkpointer.aput_state(T1, {"n": number})
    assert saved == {"n": 1}
    head = await client.latest(agent_id="agent", session_id="thread-1")
    assert head is not None
    handed = await client.handoff(head.checkpoint_id, "planner")
    assert await checkpointer.aclear_state(T1) is True
    assert await checkpointer.aclear_state(T1) is False
    assert (await client.restore(kept)).state == {"plan": 1}
    assert (await client.restore(handed)).state == {"n": 1}
    assert [header.agent_id for header in await client.log("thread-1")] == [
        *("agent", "planner", "planner")
    ]
    await store.verify()


@case(builtin=True)
async def what_is_put_after_a_clearing_stays(store: CheckpointerStore) -> None:
    """Also while the clearing still removes what was there before it."""
    checkpointer, opened = await store.open(), await store.open()
    other = getattr(opened, "twin", opened)
    for number in range(3):
        await checkpointer.aput_state(T1, {"n": number})
    backend = checkpointer._core.backend
    whole = backend.commit

    async def first(intent: Intent) -> Writes:
        backend.commit = whole
        written: Writes = await whole(intent)
        assert other.get_state(T1) is None
        other.put_state(T1, {"n": "new"})
        return written

    backend.commit = first
    assert await checkpointer.aclear_state(T1) is True
    assert await opened.aget_state(T1) == {"n": "new"}
    log = await store.store.client().log("thread-1")
    assert [header.step_name for header in log] == [None, "clear_state"]
    await store.verify()


@case(builtin=True)
async def the_thread_that_was_touched_last_is_on_the_first_page(store: CheckpointerStore) -> None:
    """However short that is, and however little time lies between them."""
    checkpointer = await store.open()
    for name in ("a", "b", "c"):
        await checkpointer.aput_state({"thread_id": name}, {})
    await checkpointer.aput_state({"thread_id": "a"}, {"touched": "again"})
    (first,) = await checkpointer.aget_threads({}, None, 0, 1)
    assert first.thread_id == "a"
