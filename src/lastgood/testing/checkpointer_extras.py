"""What is kept beside states and messages: tool results, what is cached, what is known."""

from __future__ import annotations

import asyncio

import pytest

from lastgood import ThreadOwnerError
from lastgood.checkpointers import AgentState, ThreadInfo
from lastgood.testing.checkpointer_cases import T1, T2, ids, said
from lastgood.testing.checkpointer_store import CheckpointerStore, case


@case(builtin=True)
async def a_tool_result_stands(store: CheckpointerStore) -> None:
    """The first one, after a restart too, in its thread and for its user alone."""
    checkpointer = await store.open()
    mine = {"thread_id": "t", "user_id": "ann"}
    assert await checkpointer.aget_tool_result(mine, "call-1") is None
    assert await checkpointer.aput_tool_result(mine, "call-1", {"sent": 1}) == {"sent": 1}
    assert await checkpointer.aput_tool_result(mine, "call-1", {"sent": 2}) == {"sent": 1}
    other = await store.open()
    assert await other.aget_tool_result(mine, "call-1") == {"sent": 1}
    assert await other.aget_tool_result(mine, "call-2") is None
    assert await other.aget_tool_result(T1, "call-1") is None
    theirs = {"thread_id": "t", "user_id": "bob"}
    assert await other.aget_tool_result(theirs, "call-1") is None
    with pytest.raises(ThreadOwnerError):
        await other.aput_tool_result(theirs, "call-2", {})
    await other.adelete_thread(mine)
    assert await other.aget_tool_result(mine, "call-1") is None


@case(builtin=True)
async def a_cached_state_is_never_older_than_the_newest(store: CheckpointerStore) -> None:
    """A state that was put since is the newest, also for who cached before."""
    checkpointer, other = await store.open(), await store.open()
    await checkpointer.aput_state(T1, {"n": 1})
    assert await checkpointer.aget_state_cache(T1) == {"n": 1}
    await checkpointer.aput_state_cache(T1, {"n": 2})
    assert await other.aget_state_cache(T1) == {"n": 2}
    await other.aput_state(T1, {"n": 3})
    assert await checkpointer.aput_state_cache(T1, {"n": 4}) is False
    for each in (checkpointer, other):
        assert await each.aget_state_cache(T1) == {"n": 3}
    assert await other.aput_state_cache(T1, {"n": 3}) is True
    assert await checkpointer.aget_state_cache(T1) == {"n": 3}
    assert await other.aput_state_cache(T1, {"n": 5}) is True
    await store.store.client().rewind("thread-1", "thread-1@1")
    assert await checkpointer.aget_state_cache(T1) == {"n": 1}
    await store.verify()


@case(builtin=True)
async def a_cached_state_is_over_after_a_while(store: CheckpointerStore) -> None:
    """Then the newest one is read."""
    checkpointer = await store.open(cache_ttl=0.5)
    await checkpointer.aput_state(T1, {"n": 1})
    await checkpointer.aput_state_cache(T1, {"n": 2})
    assert await checkpointer.aget_state_cache(T1) == {"n": 2}
    await store.store.pass_time(0.6)
    assert await checkpointer.aget_state_cache(T1) == {"n": 1}


@case(builtin=True)
async def a_request_to_stop_is_seen(store: CheckpointerStore) -> None:
    """By other processes, of the thread's user, until it is taken back."""
    checkpointer, other = await store.open(), await store.open()
    mine = {"thread_id": "t", "user_id": "ann"}
    assert await checkpointer.arequest_stop(mine) is False
    assert await ids(checkpointer, {}) == set()
    await checkpointer.aput_state(mine, {"n": 1})
    assert await other.arequest_stop(mine) is True
    await checkpointer.aput_state(mine, {"n": 2})
    assert await checkpointer.ais_stop_requested(mine) is True
    assert await checkpointer.ais_stop_requested(mine | {"user_id": "bob"}) is False
    with pytest.raises(ThreadOwnerError):
        await checkpointer.aclear_stop_request(mine | {"user_id": "bob"})
    assert await checkpointer.aclear_stop_request(mine) is True
    assert await checkpointer.aclear_stop_request(mine) is False
    assert await other.ais_stop_requested(mine) is False


@case(builtin=True)
async def values_are_cached_for_a_while(store: CheckpointerStore) -> None:
    """Under a namespace and a key, outside of threads."""
    made = await store.open()
    checkpointer = getattr(made, "twin", made)
    await checkpointer.aput_cache_value("media", "a%", {"url": 1}, 0.5)
    await checkpointer.aput_cache_value("media", "ab", 2)
    assert await checkpointer.aget_cache_value("media", "a%") == {"url": 1}
    assert await checkpointer.aget_cache_value("media", "a") is None
    assert await checkpointer.alist_cache_keys("media", "a%") == ["a%"]
    assert await checkpointer.alist_cache_keys("media", "") == ["a%", "ab"]
    for prefix, error in ((5, TypeError), (0, TypeError), ("\ud800", ValueError)):
        with pytest.raises(error, match="prefix"):
            await checkpointer.alist_cache_keys("media", prefix)
    await store.store.pass_time(0.6)
    assert await checkpointer.aget_cache_value("media", "a%") is None
    assert await checkpointer.alist_cache_keys("media") == ["ab"]
    assert await checkpointer.aclear_cache_value("media", "ab") is True
    assert await checkpointer.aclear_cache_value("media", "ab") is False
    with pytest.raises(ValueError, match="ttl_seconds"):
        await checkpointer.aput_cache_value("media", "ab", 1, 0)
    assert await ids(made, {}) == set()


# what is known of threads


@case(builtin=True)
async def a_thread_is_described(store: CheckpointerStore) -> None:
    """Its name, owner and metadata; what is not said stays."""
    checkpointer = await store.open()
    info = ThreadInfo("t", thread_name="Trip to Rome", metadata={"k": (1, 2)})
    assert await checkpointer.aput_thread({"thread_id": "t", "user_id": "ann"}, info) is True
    assert await checkpointer.aput_thread({"thread_id": "t"}, ThreadInfo("t")) is False
    found = await (await store.open()).aget_thread({"thread_id": "t"})
    assert (found.thread_name, found.user_id, found.metadata) == (
        "Trip to Rome",
        "ann",
        {"k": (1, 2)},
    )
    assert await checkpointer.aget_threads({}, "rome") == [found]
    made = getattr(checkpointer, "twin", checkpointer)
    assert await made.aget_thread_owner("t") == "ann"
    assert await made.aget_thread_owner("nobody's") is None
    await checkpointer.aput_messages({"thread_id": "u", "thread_name": "Named"}, said("one"))
    await checkpointer.aput_messages({"thread_id": "u", "thread_name": "Other"}, said("two"))
    assert (await checkpointer.aget_thread({"thread_id": "u"})).title == "Named"
    await store.verify()


@case(builtin=True)
async def the_name_that_is_put_goes_before_that_of_the_config(store: CheckpointerStore) -> None:
    """Also where that begins the thread: the config says how one is called that has no name."""
    checkpointer = await store.open()
    config = {"thread_id": "t", "thread_name": "New chat"}
    assert await checkpointer.aput_thread(config, ThreadInfo("t", thread_name="Trip")) is True
    assert (await checkpointer.aget_thread(config)).title == "Trip"
    config = {"thread_id": "u", "thread_name": "New chat"}
    assert await checkpointer.aput_thread(config, ThreadInfo("u")) is True
    assert (await checkpointer.aget_thread(config)).title == "New chat"
    await store.verify()


@case(builtin=True)
async def a_thread_is_not_described_as_another(store: CheckpointerStore) -> None:
    """An info is about the thread of the config, or about none; else nothing changes hands."""
    checkpointer = await store.open()
    for config, owner in ((T1, "ann"), (T2, "bob")):
        info = ThreadInfo(config["thread_id"], thread_name=f"{owner}'s", user_id=owner)
        await checkpointer.aput_thread(config, info)
    theirs = await checkpointer.aget_thread(T2)
    for config in (T1, T1 | {"user_id": "bob"}, {"thread_id": "new"}):
        with pytest.raises(ValueError, match=f"'thread-2'.*{config['thread_id']!r}.*thread_id"):
            await checkpointer.aput_thread(config, theirs)
    found = {info.thread_id: info for info in await checkpointer.aget_threads({})}
    assert {name: (info.title, info.user) for name, info in found.items()} == {
        "thread-1": ("ann's", "ann"),
        "thread-2": ("bob's", "bob"),
    }
    for nobody in (None, "", "thread-1"):
        await checkpointer.aput_thread(T1, ThreadInfo(nobody, thread_name="Trip"))  # type: ignore[arg-type]
    assert (await checkpointer.aget_thread(T1)).title == "Trip"
    assert await checkpointer.aput_thread({"thread_id": "7"}, ThreadInfo(7)) is True  # type: ignore[arg-type]
    assert await checkpointer.aput_thread({"thread_id": 7}, ThreadInfo("7")) is False


@case(builtin=True)
async def a_damaged_thread_takes_no_other_off_the_list(store: CheckpointerStore) -> None:
    """Its metadata is not told, and nothing is made up."""
    checkpointer = await store.open()
    for config in (T1, T2):
        info = ThreadInfo(config["thread_id"], metadata={"k": 1})
        await checkpointer.aput_thread(config, info)
    store.store.harness.edit_row("item", "thread-1", "value", b"\xc0")
    other = await store.open()
    found = {info.thread_id: info.metadata for info in await other.aget_threads({})}
    assert found == {"thread-1": None, "thread-2": {"k": 1}}


@case(builtin=True)
async def a_thread_is_given_away_by_nobody_but_the_application(store: CheckpointerStore) -> None:
    """A user can neither take a thread nor give one; a thread without an owner is no user's."""
    checkpointer = await store.open()
    await checkpointer.aput_state(T1, {"n": 1})
    ann, bob = T1 | {"user_id": "ann"}, T1 | {"user_id": "bob"}
    assert await checkpointer.aget_state(ann) is None
    for config, owner in ((ann, None), (ann, "ann")):
        with pytest.raises(ThreadOwnerError, match="ann"):
            await checkpointer.aput_thread(config, ThreadInfo("thread-1", user_id=owner))
    await checkpointer.aput_thread(T1, ThreadInfo("thread-1", user_id="ann"))
    assert await checkpointer.aget_state(ann) == {"n": 1}
    with pytest.raises(ThreadOwnerError, match="bob"):
        await checkpointer.aput_thread(ann, ThreadInfo("thread-1", user_id="bob"))
    with pytest.raises(ThreadOwnerError):
        await checkpointer.aput_state(bob, {"n": 2})
    with pytest.raises(ThreadOwnerError, match="'thread-1' does not belong to 'bob'"):
        await checkpointer.aclear_state(bob)
    with pytest.raises(TypeError, match="thread_info must be a ThreadInfo, not dict"):
        await checkpointer.aput_thread(T1, {"thread_name": "one"})


@case(builtin=True)
async def isolation_can_be_switched_off(store: CheckpointerStore) -> None:
    """Then a user_id is a note on new threads."""
    checkpointer = await store.open(enforce_user_isolation=False)
    await checkpointer.aput_state(T1 | {"user_id": "ann"}, {"n": 1})
    assert await checkpointer.aget_state(T1 | {"user_id": "bob"}) == {"n": 1}
    await checkpointer.aput_state(T1 | {"user_id": "bob"}, {"n": 2})
    named = ThreadInfo("thread-1", thread_name="Trip")
    assert await checkpointer.aput_thread(T1 | {"user_id": "bob"}, named) is False
    found = await checkpointer.aget_thread(T1)
    assert (found.user, found.thread_name) == ("ann", "Trip")
    assert await ids(checkpointer, {"user_id": "bob"}) == {"thread-1"}
    await checkpointer.aput_thread(T2 | {"user_id": "bob"}, ThreadInfo("thread-2"))
    assert (await checkpointer.aget_thread(T2)).user == "bob"
    await checkpointer.aput_thread(T2 | {"user_id": "bob"}, ThreadInfo("thread-2", user_id="ann"))
    assert (await checkpointer.aget_thread(T2)).user == "ann"


@case(builtin=True)
async def ids_may_be_numbers(store: CheckpointerStore) -> None:
    """They are kept as text; what is no id is an error."""
    checkpointer = await store.open()
    await checkpointer.aput_state({"thread_id": 7, "user_id": 3}, {"n": 1})
    assert await checkpointer.aget_state({"thread_id": "7", "user_id": "3"}) == {"n": 1}
    for config in ({"thread_id": 1.5}, {"thread_id": True}, {"thread_id": "a\nb"}, "t"):
        with pytest.raises((TypeError, ValueError)):
            await checkpointer.aget_state(config)
    with pytest.raises(TypeError, match="aclear_state"):
        await checkpointer.aput_state(T2, None)


# both colours


@case(builtin=True)
async def blocking_calls_work_inside_a_running_loop(store: CheckpointerStore) -> None:
    """And in threads beside it, mixed with async ones on the same object."""
    made = await store.open()
    checkpointer = getattr(made, "twin", made)
    checkpointer.put_state(T1, {"n": 1})
    assert await checkpointer.aget_state(T1) == {"n": 1}
    await checkpointer.aput_messages(T1, said("one"))
    assert await asyncio.to_thread(checkpointer.get_state, T1) == {"n": 1}
    assert [message.content for message in checkpointer.get_messages(T1)] == ["one"]
    checkpointer.bind_state_type(AgentState)
    checkpointer.put_state(T2, AgentState(context_summary="Rome"))
    assert (
        checkpointer.get_state(T2)
        == await checkpointer.aget_state(T2)
        == AgentState(context_summary="Rome")
    )
