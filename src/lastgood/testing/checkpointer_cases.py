"""What every checkpointer does, said with the thirteen methods: for those of your own too."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from lastgood import ThreadOwnerError
from lastgood.checkpointers import Message
from lastgood.testing.checkpointer_store import CheckpointerStore, case

T1, T2 = {"thread_id": "thread-1"}, {"thread_id": "thread-2"}


def said(*texts: str, role: str = "user") -> list[Message]:
    """Messages with their texts as ids."""
    return [Message(role, text, message_id=f"id of {text}") for text in texts]


async def texts(checkpointer: Any, config: Any, *page: Any) -> list[str]:
    """What the messages of a thread say."""
    page = page or (None, 0, 100)
    return [message.content for message in await checkpointer.aget_messages(config, *page)]


async def ids(checkpointer: Any, config: Any, *page: Any) -> set[str]:
    """The threads that are listed."""
    page = page or (None, 0, 100)
    return {info.thread_id for info in await checkpointer.aget_threads(config, *page)}


@case(builtin=False)
async def a_thread_begins_empty(store: CheckpointerStore) -> None:
    """Nothing is there, and asking for it is no error."""
    checkpointer = await store.open()
    assert await checkpointer.aget_state(T1) is None
    assert await checkpointer.aget_state_cache(T1) is None
    assert await checkpointer.aget_messages(T1, None, 0, 10) == []
    assert await checkpointer.aget_message(T1, "nothing") is None
    assert await checkpointer.aget_thread(T1) is None
    assert await checkpointer.aget_threads({}, None, 0, 10) == []
    await checkpointer.aclear_state(T1)
    await checkpointer.adelete_message(T1, "nothing")
    await checkpointer.adelete_thread(T1)


@case(builtin=False)
async def setting_up_again_changes_nothing(store: CheckpointerStore) -> None:
    """It is called at every start."""
    checkpointer = await store.open()
    await checkpointer.aput_state(T1, {"n": 1})
    await checkpointer.asetup()
    assert await (await store.open()).aget_state(T1) == {"n": 1}


@case(builtin=False)
async def the_newest_state_is_read(store: CheckpointerStore) -> None:
    """Each put takes the place of the one before, and gives the state back."""
    checkpointer = await store.open()
    for number in range(3):
        state = {"n": number, "list": [1, "two", None]}
        assert await checkpointer.aput_state(T1, state) == state
    await checkpointer.aput_state(T2, {"n": 9})
    other = await store.open()
    assert await other.aget_state(T1) == {"n": 2, "list": [1, "two", None]}
    assert await other.aget_state(T2) == {"n": 9}


@case(builtin=False)
async def a_stored_state_is_a_copy(store: CheckpointerStore) -> None:
    """Neither what was put nor what was read is the stored one."""
    checkpointer = await store.open()
    state = {"list": [1]}
    await checkpointer.aput_state(T1, state)
    state["list"].append(2)
    read = await checkpointer.aget_state(T1)
    assert read == {"list": [1]}
    read["list"].append(3)
    assert await checkpointer.aget_state(T1) == {"list": [1]}


@case(builtin=False)
async def a_cached_state_is_read(store: CheckpointerStore) -> None:
    """The one that was cached last."""
    checkpointer = await store.open()
    await checkpointer.aput_state(T1, {"n": 1})
    await checkpointer.aput_state_cache(T1, {"n": 2})
    assert await checkpointer.aget_state_cache(T1) == {"n": 2}
    await checkpointer.aput_state_cache(T1, {"n": 3})
    assert await checkpointer.aget_state_cache(T1) == {"n": 3}
    assert await checkpointer.aget_state(T1) == {"n": 1}
    assert await checkpointer.aget_state_cache(T2) is None


@case(builtin=False)
async def clearing_the_state_clears_the_cache(store: CheckpointerStore) -> None:
    """Otherwise it would come back. Messages stay."""
    checkpointer = await store.open()
    await checkpointer.aput_state(T1, {"n": 1})
    await checkpointer.aput_state_cache(T1, {"n": 2})
    await checkpointer.aput_messages(T1, said("one"))
    await checkpointer.aclear_state(T1)
    assert await checkpointer.aget_state(T1) is None
    assert await checkpointer.aget_state_cache(T1) is None
    assert await texts(checkpointer, T1) == ["one"]
    await checkpointer.aput_state(T1, {"n": 3})
    assert await checkpointer.aget_state(T1) == {"n": 3}


@case(builtin=False)
async def messages_keep_their_order(store: CheckpointerStore) -> None:
    """That in which they were put, page by page."""
    checkpointer = await store.open()
    wanted = [f"message {number}" for number in range(12)]
    for start in range(0, 12, 4):
        await checkpointer.aput_messages(T1, said(*wanted[start : start + 4]))
    other = await store.open()
    assert await texts(other, T1) == wanted
    assert await texts(other, T1, None, 5, 4) == wanted[5:9]
    assert await texts(other, T1, None, 10, 10) == wanted[10:]
    assert await texts(other, T1, None, 12, 10) == []
    assert await texts(other, T2) == []


@case(builtin=False)
async def a_message_is_there_once(store: CheckpointerStore) -> None:
    """Whoever puts it again, alone or among new ones, does not double it."""
    checkpointer = await store.open()
    await checkpointer.aput_messages(T1, said("one", "two"))
    await checkpointer.aput_messages(T1, said("two", "three"))
    await checkpointer.aput_messages(T1, said("one"))
    assert await texts(checkpointer, T1) == ["one", "two", "three"]


@case(builtin=False)
async def ids_of_messages_belong_to_their_thread(store: CheckpointerStore) -> None:
    """The same id in another thread is another message."""
    checkpointer = await store.open()
    await checkpointer.aput_messages(T1, [Message("user", "in 1", message_id="same")])
    await checkpointer.aput_messages(T2, [Message("user", "in 2", message_id="same")])
    assert (await checkpointer.aget_message(T1, "same")).content == "in 1"
    assert (await checkpointer.aget_message(T2, "same")).content == "in 2"
    await checkpointer.adelete_message(T1, "same")
    assert await texts(checkpointer, T1) == []
    assert await texts(checkpointer, T2) == ["in 2"]


@case(builtin=False)
async def a_message_is_found_and_deleted(store: CheckpointerStore) -> None:
    """By its id; the others stay in order, and a new one comes last."""
    checkpointer = await store.open()
    await checkpointer.aput_messages(T1, said("one", "two", "three"))
    found = await checkpointer.aget_message(T1, "id of two")
    assert (found.role, found.content, found.message_id) == ("user", "two", "id of two")
    await checkpointer.adelete_message(T1, "id of two")
    assert await checkpointer.aget_message(T1, "id of two") is None
    assert await texts(checkpointer, T1) == ["one", "three"]
    await checkpointer.aput_messages(T1, said("two"))
    assert await texts(checkpointer, T1) == ["one", "three", "two"]


@case(builtin=False)
async def a_search_is_literal(store: CheckpointerStore) -> None:
    """What looks like a pattern is text; the form in which messages are kept is not searched."""
    checkpointer = await store.open()
    await checkpointer.aput_messages(T1, said("100 % sure", "under_score", "plain", "a*b"))
    for search, found in {
        "%": ["100 % sure"],
        "_": ["under_score"],
        "*": ["a*b"],
        "sure": ["100 % sure"],
        "content": [],
        "user": [],
        "id of": [],
        "\x00": [],
    }.items():
        assert await texts(checkpointer, T1, search, 0, 10) == found, search
    assert await texts(checkpointer, T1, "a", 1, 1) == ["a*b"]


@case(builtin=False)
async def threads_are_listed(store: CheckpointerStore) -> None:
    """All that have something in them, or those with a text in their id."""
    checkpointer = await store.open()
    await checkpointer.aput_state(T1, {"n": 1})
    await checkpointer.aput_messages(T2, said("one"))
    await checkpointer.aput_state({"thread_id": "other"}, {"n": 1})
    assert await ids(checkpointer, {}) == {"thread-1", "thread-2", "other"}
    assert await ids(checkpointer, {}, "thread-", 0, 10) == {"thread-1", "thread-2"}
    assert await ids(checkpointer, {}, "%", 0, 10) == set()
    pages = [await checkpointer.aget_threads({}, None, offset, 1) for offset in range(4)]
    assert [len(page) for page in pages] == [1, 1, 1, 0]
    assert len({page[0].thread_id for page in pages[:3]}) == 3
    assert (await checkpointer.aget_thread(T2)).thread_id == "thread-2"


@case(builtin=False)
async def pages_of_threads_fit_together(store: CheckpointerStore) -> None:
    """Each thread once, in one order, however long the pages are."""
    checkpointer = await store.open()
    for name in ("a", "b", "c", "d", "e"):
        await checkpointer.aput_state({"thread_id": name}, {})
    for name in ("b", "a"):
        await checkpointer.aput_state({"thread_id": name}, {"touched": "again"})
    whole = [info.thread_id for info in await checkpointer.aget_threads({}, None, 0, 100)]
    assert sorted(whole) == ["a", "b", "c", "d", "e"]
    for limit in (1, 2, 3, 5):
        found = []
        for offset in range(0, 5, limit):
            page = await checkpointer.aget_threads({}, None, offset, limit)
            found += [info.thread_id for info in page]
        assert found == whole


@case(builtin=False)
async def a_deleted_thread_leaves_nothing(store: CheckpointerStore) -> None:
    """Neither state nor cache nor messages; the neighbour stays, and the id can begin anew."""
    checkpointer = await store.open()
    for config in (T1, T2):
        await checkpointer.aput_state(config, {"n": 1})
        await checkpointer.aput_state_cache(config, {"n": 2})
        await checkpointer.aput_messages(config, said("one"))
    await checkpointer.adelete_thread(T1)
    assert await checkpointer.aget_state(T1) is None
    assert await checkpointer.aget_state_cache(T1) is None
    assert await texts(checkpointer, T1) == []
    assert await checkpointer.aget_message(T1, "id of one") is None
    assert await checkpointer.aget_thread(T1) is None
    assert await ids(checkpointer, {}) == {"thread-2"}
    assert await checkpointer.aget_state(T2) == {"n": 1}
    assert await texts(checkpointer, T2) == ["one"]
    await checkpointer.aput_messages(T1, said("two"))
    assert await texts(checkpointer, T1) == ["two"]


@case(builtin=False)
async def users_see_only_their_own(store: CheckpointerStore) -> None:
    """A user_id in the config hides what is not theirs, whatever else stands in it."""
    checkpointer = await store.open()
    mine = {"thread_id": "thread-1", "user_id": "ann"}
    await checkpointer.aput_state(mine, {"n": 1})
    await checkpointer.aput_messages(mine, said("secret"))
    await checkpointer.aput_state_cache(mine, {"n": 2})
    for theirs in (
        {"thread_id": "thread-1", "user_id": "bob"},
        {"thread_id": "thread-1", "user_id": "bob", "authz": {"scope": "none"}},
    ):
        assert await checkpointer.aget_state(theirs) is None
        assert await checkpointer.aget_state_cache(theirs) is None
        assert await texts(checkpointer, theirs) == []
        assert await checkpointer.aget_message(theirs, "id of secret") is None
        assert await checkpointer.aget_thread(theirs) is None
        assert await ids(checkpointer, theirs) == set()
    assert await ids(checkpointer, {"user_id": "ann"}) == {"thread-1"}
    assert await checkpointer.aget_state(mine) == {"n": 1}


@case(builtin=False)
async def users_change_only_their_own(store: CheckpointerStore) -> None:
    """What another user writes to a thread is refused, and leaves it as it was."""
    checkpointer = await store.open()
    mine = {"thread_id": "thread-1", "user_id": "ann"}
    theirs = {"thread_id": "thread-1", "user_id": "bob"}
    await checkpointer.aput_state(mine, {"n": 1})
    await checkpointer.aput_messages(mine, said("one"))
    for method, *arguments in (
        (checkpointer.aput_state, {"n": 9}),
        (checkpointer.aput_state_cache, {"n": 9}),
        (checkpointer.aput_messages, said("nine")),
        (checkpointer.adelete_message, "id of one"),
        (checkpointer.aclear_state,),
        (checkpointer.adelete_thread,),
    ):
        with suppress(ThreadOwnerError, PermissionError):
            await method(theirs, *arguments)
    assert await checkpointer.aget_state(mine) == {"n": 1}
    assert await checkpointer.aget_state_cache(mine) in (None, {"n": 1})
    assert await texts(checkpointer, mine) == ["one"]


@case(builtin=False)
async def a_thread_must_be_named(store: CheckpointerStore) -> None:
    """A config without a thread_id, or with an empty one, is an error and not a thread."""
    checkpointer = await store.open()
    for config in ({}, {"thread_id": ""}, {"thread_id": None}):
        for method, *arguments in (
            (checkpointer.aput_state, {"n": 1}),
            (checkpointer.aget_state,),
            (checkpointer.aclear_state,),
            (checkpointer.aput_state_cache, {"n": 1}),
            (checkpointer.aget_state_cache,),
            (checkpointer.aput_messages, said("one")),
            (checkpointer.aget_messages, None, 0, 10),
            (checkpointer.aget_message, "id"),
            (checkpointer.adelete_message, "id"),
            (checkpointer.aget_thread,),
            (checkpointer.adelete_thread,),
        ):
            with pytest.raises((ValueError, KeyError)):
                await method(config, *arguments)
    assert await checkpointer.aget_threads({}, None, 0, 10) == []


@case(builtin=False)
async def a_config_is_not_changed(store: CheckpointerStore) -> None:
    """It is the caller's."""
    checkpointer = await store.open()
    config = {"thread_id": "thread-1", "run_id": "run", "meta": {"k": [1]}}
    before = deepcopy(config)
    await checkpointer.aput_state(config, {"n": 1})
    await checkpointer.aput_state_cache(config, {"n": 2})
    await checkpointer.aput_checkpoint(config, {"n": 3}, said("one"))
    await checkpointer.aget_state(config)
    await checkpointer.aget_state_cache(config)
    await checkpointer.aput_messages(config, said("two"))
    await checkpointer.aget_messages(config, None, 0, 10)
    await checkpointer.adelete_thread(config)
    assert config == before


@case(builtin=False)
async def a_checkpoint_has_both(store: CheckpointerStore) -> None:
    """State and messages are put by one call."""
    checkpointer = await store.open()
    assert await checkpointer.aput_checkpoint(T1, {"n": 1}, said("one", "two")) == {"n": 1}
    await checkpointer.aput_checkpoint(T1, {"n": 2})
    assert await checkpointer.aget_state(T1) == {"n": 2}
    assert await texts(checkpointer, T1) == ["one", "two"]


@case(builtin=False)
async def other_names_mean_the_same(store: CheckpointerStore) -> None:
    """Those that frameworks use."""
    checkpointer = await store.open()
    await checkpointer.aput_messages(T1, said("one", "two"))
    assert len(await checkpointer.alist_messages(T1, "two", 0, 10)) == 1
    assert len(await checkpointer.alist_threads({}, None, 0, 10)) == 1
    assert len(await checkpointer.alist_messages(T1)) == 2
    assert len(await checkpointer.alist_threads({})) == 1
    await checkpointer.aclear_stop_request(T1)
    assert await checkpointer.ais_stop_requested(T1) is False
    await checkpointer.aclean_thread(T1)
    assert await ids(checkpointer, {}) == set()


@case(builtin=False)
async def many_append_at_once(store: CheckpointerStore) -> None:
    """Every message is there once, and those of one writer in its order."""
    checkpointers = [await store.open() for _ in range(4)]

    async def write(writer: int) -> None:
        for number in range(5):
            await checkpointers[writer].aput_messages(T1, said(f"{writer}.{number}", "shared"))

    outcomes = await store.together([lambda w=w: write(w) for w in range(4)])  # type: ignore[misc]
    assert outcomes == [None] * 4
    found = await texts(checkpointers[0], T1)
    assert len(found) == 21
    for writer in range(4):
        mine = [text for text in found if text.startswith(f"{writer}.")]
        assert mine == sorted(mine), mine
