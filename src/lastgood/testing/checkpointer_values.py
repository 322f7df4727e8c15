"""What comes back: classes of states, messages with all that is in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from lastgood import Opaque, SerializationError
from lastgood.checkpointers import (
    AgentState,
    BlobPart,
    Message,
    ReasoningPart,
    TextPart,
    ThreadInfo,
    ToolCall,
    ToolCallResponse,
    UriPart,
)
from lastgood.codec.labels import label_of
from lastgood.testing.checkpointer_cases import T1, said, texts
from lastgood.testing.checkpointer_store import CheckpointerStore, case


@dataclass
class Trip:
    """A state."""

    city: str
    stops: list[str] = field(default_factory=list)


@dataclass
class LongTrip:
    """The class that took its place."""

    city: str
    stops: list[str]
    days: int = 1


@dataclass
class Flight:
    """A class that a trip does not fit."""

    number: str


# classes of states


@case(builtin=True)
async def a_state_keeps_its_class(store: CheckpointerStore) -> None:
    """A dataclass, model or dict comes back as what it was; so do the messages in it."""
    from lastgood.testing.models import Plan

    checkpointer = await store.open()
    agent = AgentState(context=said("one"), context_summary="short")
    plan = Plan(name="p", steps=["a"])
    for state in (Trip("Rome", ["Pisa"]), agent, plan, {"t": (1, 2), 3: {4}}):
        await checkpointer.aput_state(T1, state)
        found = await (await store.open()).aget_state(T1)
        assert type(found) is type(state)
        assert found == state


@case(builtin=True)
async def a_bound_class_decides(store: CheckpointerStore) -> None:
    """What was saved as another class, or as a dict, is given to it by its fields."""
    checkpointer = await store.open()
    await checkpointer.aput_state(T1, Trip("Rome", ["Pisa"]))
    longer = await store.open()
    longer.bind_state_type(LongTrip)
    longer.bind_state_type(LongTrip)
    assert longer.state_type is LongTrip
    assert await longer.aget_state(T1) == LongTrip("Rome", ["Pisa"], 1)
    with pytest.raises(ValueError, match="LongTrip"):
        longer.bind_state_type(Trip)
    with pytest.raises(TypeError, match="dataclass"):
        longer.bind_state_type(int)
    plain = await store.open()
    plain.bind_state_type(dict)
    assert await plain.aget_state(T1) == {"city": "Rome", "stops": ["Pisa"]}
    await plain.aput_state(T1, {"city": "Oslo", "stops": [], "unknown": 1})
    assert await longer.aget_state(T1) == LongTrip("Oslo", [], 1)


@case(builtin=True)
async def a_bound_model_validates(store: CheckpointerStore) -> None:
    """A pydantic model takes stored fields by its own rules."""
    from lastgood.testing.models import Plan

    checkpointer, other = await store.open(), await store.open()
    other.bind_state_type(Plan)
    await checkpointer.aput_state(T1, {"name": "p", "phase": "act"})
    assert await other.aget_state(T1) == Plan(name="p", phase=Plan.Phase.ACT)
    await checkpointer.aput_state(T1, {"steps": 3})
    with pytest.raises(SerializationError, match=r"thread-1.*Plan(.|\n)*name"):
        await other.aget_state(T1)


@case(builtin=True)
async def a_class_that_does_not_fit_is_named(store: CheckpointerStore) -> None:
    """The error says which thread, which class and what is missing."""
    checkpointer = await store.open()
    await checkpointer.aput_state(T1, Trip("Rome"))
    other = await store.open()
    other.bind_state_type(Flight)
    with pytest.raises(SerializationError, match=r"thread-1.*Trip.*Flight.*number"):
        await other.aget_state(T1)


@case(builtin=True)
async def a_class_that_is_gone_is_no_loss(store: CheckpointerStore) -> None:
    """The bound class gets the stored fields, though nobody knows the old class any more."""
    checkpointer = await store.open()
    trip = Trip("Rome", [f"stop {number}" for number in range(2000)])
    kept, name = Trip, label_of(Trip).partition(":")[2]
    await checkpointer.aput_state(T1, trip)
    other, unbound = await store.open(), await store.open()
    other.bind_state_type(LongTrip)
    globals().pop(name)
    try:
        assert await other.aget_state(T1) == LongTrip("Rome", trip.stops, 1)
        assert isinstance(await unbound.aget_state(T1), Opaque)
    finally:
        globals()[name] = kept


# messages


@case(builtin=True)
async def messages_come_back_whole(store: CheckpointerStore) -> None:
    """With every part and every field."""
    checkpointer = await store.open()
    message = Message(
        "assistant",
        [
            TextPart("text"),
            ReasoningPart("thought", signature="s", provider="p"),
            ToolCall("c1", "delete_file", {"path": "/tmp/x"}, approval="required"),
            ToolCallResponse("c1", {"done": True}, name="delete_file", is_error=True),
            BlobPart(b"\x00\xff", "image/png"),
            UriPart("https://example.org/a.png", native={"k": 1}),
        ],
        author="planner",
        model="m-1",
        usage={"input_tokens": 3},
        is_error=True,
        metadata={"k": (1, 2)},
    )
    await checkpointer.aput_messages(T1, [message, Message("user", "", message_id=42)])
    found = await (await store.open()).aget_messages(T1)
    assert found == [message, Message("user", "", message_id=42)]
    assert found[0].tool_calls == (message.content[2],)
    assert (await checkpointer.aget_message(T1, 42)).message_id == 42
    for search in ("TEXT", "thought", "delete_file", "/tmp/x"):
        assert await checkpointer.aget_messages(T1, search) == [message], search
    for search in ("c1", "tool_call", "image/png", "planner"):
        assert await checkpointer.aget_messages(T1, search) == [], search


@case(builtin=True)
async def a_changed_message_keeps_its_place(store: CheckpointerStore) -> None:
    """The newest content under an id, where the first one stood; found by its new text."""
    checkpointer = await store.open()
    await checkpointer.aput_messages(T1, said("one", "two", "three"))
    changed = Message("user", "2", message_id="id of two", metadata={"edited": True})
    await checkpointer.aput_checkpoint(T1, {"n": 1}, [changed, *said("four")])
    assert await texts(checkpointer, T1) == ["one", "2", "three", "four"]
    assert await checkpointer.aget_message(T1, "id of two") == changed
    assert await texts(checkpointer, T1, "two", 0, 10) == []
    await checkpointer.aput_messages(T1, [changed, changed])
    assert await texts(checkpointer, T1) == ["one", "2", "three", "four"]
    await store.verify()


@case(builtin=True)
async def metadata_is_added_to_messages(store: CheckpointerStore) -> None:
    """To what is stored, not to the caller's objects; messages may be dicts."""
    checkpointer = await store.open()
    first = Message("user", "one", message_id="1", metadata={"a": 1, "b": 1})
    second = {"role": "user", "content": "two", "id": "2"}
    await checkpointer.aput_messages(T1, [first, second], {"b": 2})
    found = await checkpointer.aget_messages(T1)
    assert found[0].metadata == {"a": 1, "b": 2}
    assert found[1] == {**second, "metadata": {"b": 2}}
    assert first.metadata == {"a": 1, "b": 1}
    with pytest.raises(ValueError, match=r"messages\[1\] has no message_id"):
        await checkpointer.aput_messages(T1, [first, {"content": "three"}])
    with pytest.raises(SerializationError, match=r"messages\[0\]\.metadata\.f"):
        await checkpointer.aput_messages(T1, [Message("user", "x", metadata={"f": len})])
    assert len(await checkpointer.aget_messages(T1)) == 2


@case(builtin=True)
async def what_has_no_loss_report_is_kept_whole(store: CheckpointerStore) -> None:
    """Where states may lose parts, and tell so, all else is refused with the path."""
    checkpointer = await store.open(on_unserializable="drop")
    made = getattr(checkpointer, "twin", checkpointer)
    call = Message("assistant", [ToolCall("c", "f", {"q": 1, "cb": len})])
    info = ThreadInfo("thread-1", metadata={"k": [1, len]})
    await checkpointer.aput_checkpoint(T1, {"n": 1, "cb": len}, said("one"))
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: checkpointer.aput_messages(T1, [call]), "messages[0].content[0].arguments.cb"),
        (lambda: checkpointer.aput_checkpoint(T1, {}, said("two"), {"f": len}), ".metadata.f"),
        (lambda: checkpointer.aput_tool_result(T1, "c", {"cb": len}), "result.cb"),
        (lambda: checkpointer.aput_thread(T1, info), "metadata.k[1]"),
        (lambda: made.aput_cache_value("n", "k", {"cb": object()}), "value.cb"),
    ]
    for put, path in refused:
        with pytest.raises(SerializationError) as caught:
            await put()
        assert caught.value.path.endswith(path)
        assert "drop it" not in str(caught.value)
    assert await texts(checkpointer, T1) == ["one"]
    assert await checkpointer.aget_tool_result(T1, "c") is None
    assert await checkpointer.aget_state(T1) == {"n": 1}
    head = await store.store.client().latest(agent_id="agent", session_id="thread-1")
    assert head is not None
    assert [loss.path for loss in head.losses] == ["state.cb"]
    await store.store.close()


@case(builtin=True)
async def pages_of_messages_are_checked(store: CheckpointerStore) -> None:
    """None means all of them; what is no count is an error."""
    checkpointer = await store.open()
    await checkpointer.aput_messages(T1, said(*map(str, range(120))))
    assert len(await checkpointer.aget_messages(T1)) == 120
    assert len(await checkpointer.aget_messages(T1, offset=110)) == 10
    for far in (120, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 200):
        assert await checkpointer.aget_messages(T1, offset=far) == []
        assert await checkpointer.aget_messages(T1, None, far, far) == []
        assert await checkpointer.aget_threads({}, None, far, far) == []
    for page in ({"limit": 0}, {"limit": -1}, {"offset": -1}, {"offset": True}):
        with pytest.raises(ValueError, match=r"limit|offset"):
            await checkpointer.aget_messages(T1, **page)
