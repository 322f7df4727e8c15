"""Values that cannot be kept: refused with their path, or dropped with a report, never lost."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from lastgood import SerializationError, register
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store

UNSTORABLE: dict[str, Any] = {
    "lambda": lambda: 0,
    "class": Store,
    "module": sys,
    "generator": (letter for letter in ""),
    "object": object(),
}


class Span:
    """No data class: it is stored by a function, as a list of two."""

    def __init__(self, first: object, last: object) -> None:
        self.first, self.last = first, last


register(
    Span,
    "lastgood-testing-span",
    encode=lambda span: [span.first, span.last],
    decode=lambda stored: Span(*stored),
)


@case("S05", each=UNSTORABLE)
async def a_value_that_cannot_be_kept(store: Store, value: Any) -> None:
    """raise: the path, and nothing written. drop: the rest, and a loss report."""
    state = {"items": [1, {"callback": value}], "pad": "x" * 10_000, "kept": 1}
    strict = store.client()
    with pytest.raises(SerializationError) as caught:
        await save(strict, "s", state)
    assert caught.value.path == "state.items[1].callback"
    assert len(await strict.threads()) == 0
    lenient = store.client(on_unserializable="drop")
    found = await lenient.restore(await save(lenient, "s", state))
    assert found.state["kept"] == 1
    assert found.state["items"] == [1, {}]
    assert [loss.path for loss in found.losses] == ["state.items[1].callback"]
    assert found.verify_integrity()


@case("S05", each={"a function": len, "a memoryview": memoryview(b"x")})
async def losses_in_a_long_list_are_told_by_their_own_places(store: Store, value: Any) -> None:
    """Whatever was lost before them, and each once; what stays is what was there."""
    client = store.client(on_unserializable="drop")
    large = {"text": "y" * 70_000, "lost": value}
    kept = ["x" * 500, bytearray(b"x"), "x" * 4_000, {"text": large["text"]}, "z" * 70_000]
    listed = [value, kept[0], kept[1], kept[2], large, kept[4]]
    for state in (listed, dict(enumerate(listed))):
        found = await client.restore(await save(client, "s", {"l": state}))
        left = found.state["l"]
        assert (list(left.values()) if isinstance(left, dict) else left) == kept
        assert [loss.path for loss in found.losses] == ["state.l[0]", "state.l[4].lost"]


@case("S05")
async def an_open_file_is_refused_by_name(store: Store) -> None:
    """The reader learns what it is and what to do."""
    client = store.client()
    path = store.harness.directory / "open.txt"
    with path.open("w") as file, pytest.raises(SerializationError, match="an open file") as caught:
        await save(client, "s", {"f": file})
    assert 'on_unserializable="drop"' in caught.value.hint
    with pytest.raises(SerializationError) as caught:
        await save(client, "s", {}, context={"cb": [len]})
    assert caught.value.path == "context.cb[0]"
    with pytest.raises(SerializationError) as caught:
        await save(client, "s", {}, metadata={"cb": len})
    assert caught.value.path == "metadata.cb"
    assert len(await client.threads()) == 0


@case("S05")
async def losses_of_context_and_metadata_are_reported(store: Store) -> None:
    """What is dropped anywhere is listed."""
    client = store.client(on_unserializable="drop")
    saved = await save(client, "s", {}, context={"cb": len, "k": 1}, metadata={"m": len, "l": 2})
    found = await client.restore(saved)
    assert (found.context, found.metadata) == ({"k": 1}, {"l": 2})
    assert sorted(loss.path for loss in found.losses) == ["context.cb", "metadata.m"]


@case("S05")
async def a_loss_beside_a_huge_element(store: Store) -> None:
    """What is left still has the checksum of what is left."""
    client = store.client(on_unserializable="drop")
    found = await client.restore(await save(client, "s", {"l": [len, "x" * 100_000, "y"]}))
    assert found.state == {"l": ["x" * 100_000, "y"]}
    assert [loss.path for loss in found.losses] == ["state.l[0]"]
    assert found.verify_integrity()


@case("S05", each={"small": 1, "large": "x" * 10_000, "huge": "x" * 100_000})
async def a_loss_in_what_an_encode_function_gave(store: Store, value: Any) -> None:
    """The object is dropped whole: its decode function could do nothing with the rest of it."""
    client = store.client(on_unserializable="drop")
    state = {"a": [Span(value, len), Span(value, 2)], "b": Span([value, len], 2), "c": value}
    for _ in range(2):
        found = await client.restore(await save(client, "s", state))
        assert [(span.first, span.last) for span in found.state["a"]] == [(value, 2)]
        assert found.state.keys() == {"a", "c"}
        assert [loss.path for loss in found.losses] == ["state.a[0]", "state.b"]
        assert found.verify_integrity()


@case("S05")
async def a_key_beside_huge_values(store: Store) -> None:
    """An item whose key cannot be kept goes; each of the others keeps its own value."""
    client = store.client(on_unserializable="drop")
    kept = {f"k{n}": f"{n}" * (50_000 if n % 50 == 9 else 1) for n in range(300)}
    saved = await save(client, "s", {"d": {len: "lost", **kept}})
    found = await store.client(cache_bytes=0).restore(saved)
    assert found.state == {"d": kept}
    assert len(found.losses) == 1


@case("S05", each={"small": 1, "large": 100})
async def a_loss_in_a_key_or_an_element_of_a_set(store: Store, count: int) -> None:
    """They go whole: without a part of it, one could be equal to another that is there."""
    client = store.client(on_unserializable="drop")
    names = [f"{n}" * 100 for n in range(count)]
    items: dict[object, object] = {(3,): 2} | {(name,): name for name in names}
    elements: set[object] = {1, (3,), frozenset(), *names}
    lost: list[object] = [len, (3, len), frozenset({len})]
    state = {"d": {(3, len): 1} | items, "s": elements.union(lost)}
    for _ in range(2):
        found = await client.restore(await save(client, "s", state))
        assert found.state == {"d": items, "s": elements}
        assert len(found.losses) == 4
        assert found.verify_integrity()


@case("S05")
async def a_loss_in_an_append(store: Store) -> None:
    """An append under `drop` keeps what can be kept and reports the rest, warm or cold."""
    first = store.client(on_unserializable="drop")
    async with first.run("s", initial={"l": ["x" * 100] * 100}) as run:
        warm = await first.restore(await run.append("l", len, "y" * 100_000))
    second = store.client(on_unserializable="drop", cache_bytes=0)
    async with second.run("s") as run:
        cold = await second.restore(await run.append("l", len, "z"))
    assert warm.state["l"][100:] == ["y" * 100_000]
    assert cold.state["l"][100:] == ["y" * 100_000, "z"]
    assert len(warm.losses) == len(cold.losses) == 1


@case("S05")
async def many_losses_of_one_sort(store: Store) -> None:
    """Some are listed, and the last one says that there are more: a report has its length."""
    client = store.client(on_unserializable="drop")
    steps = [{"n": number, "call": len} for number in range(300)]
    found = await client.restore(await save(client, "s", {"steps": steps, "call": len}))
    assert [loss.path for loss in found.losses[:2]] == [
        "state.steps[0].call",
        "state.steps[1].call",
    ]
    assert found.losses[-2].reason.endswith("More like it were left out.")
    assert found.losses[-1].path == "state.call"
    assert len(found.losses) < 30
    assert found.state["steps"] == [{"n": number} for number in range(300)]
    assert found.verify_integrity()
    await client.delete("s")
    assert (await client.restore(await client.put(found))).losses == found.losses


@case("S05", each={"named": {"kept": 2}, "made by a function": lambda state: {**state, "kept": 2}})
async def a_fork_with_edits_lacks_what_its_source_lacks(store: Store, edits: Any) -> None:
    """Its report says so too, but for what was edited."""
    client = store.client(on_unserializable="drop")
    state = {"kept": 1, "call": len, "steps": [{"call": len}], "late": len}
    source = await save(client, "s", state)
    given = {**edits, "late": 3} if isinstance(edits, dict) else edits
    fork = await client.restore(await client.fork(source, edits=given, remove=["steps"]))
    lost = {loss.path for loss in fork.losses}
    assert {"state.call", "state.late"} - lost == ({"state.late"} if given is not edits else set())
    assert "state.steps[0].call" not in lost
    assert fork.verify_integrity()


@case("S05")
async def a_result_is_kept_whole(store: Store) -> None:
    """The result of a run has no loss report, so nothing is dropped from it."""
    client = store.client(on_unserializable="drop")
    async with client.run("s", initial={}) as run:
        with pytest.raises(SerializationError, match="does not apply here") as caught:
            await run.finish({"total": 12, "callback": len})
        assert caught.value.path == "result.callback"
        await run.finish({"total": 12})


@case()
async def before_save_compacts_the_state(store: Store) -> None:
    """The function runs on the caller's thread, and what it gives back is stored."""
    seen: list[int] = []

    def compact(state: dict[str, Any]) -> dict[str, Any]:
        seen.append(threading.get_ident())
        return {**state, "messages": state["messages"][-2:]}

    client = store.client(before_save=compact)
    saved = await save(client, "s", {"messages": [1, 2, 3, 4]})
    async with client.run("s", agent_id="a") as run:
        await run.save({"messages": [5, 6, 7]})
    assert (await client.restore(saved)).state == {"messages": [3, 4]}
    assert (await client.timeline("a", "s"))[0].state == {"messages": [6, 7]}
    assert set(seen) == {threading.get_ident()}


@case()
async def before_save_must_return_the_state(store: Store) -> None:
    """One that only changes it would have None stored in its place: TypeError, nothing written."""
    client = store.client(before_save=lambda state: state.pop("scratch", None))
    with pytest.raises(TypeError, match="before_save returned None"):
        await save(client, "s", {"n": 1})
    assert len(await client.threads()) == 0


@case("S05")
async def a_state_that_is_too_large(store: Store) -> None:
    """Refused with both numbers, nothing written."""
    client = store.client(max_state_bytes=10_000)
    with pytest.raises(SerializationError, match="10,000"):
        await save(client, "s", {"x": "y" * 20_000})
    assert len(await client.threads()) == 0
