"""Kept to the letter: keys that equal nothing, and checkpoints that were built elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from lastgood import Checkpoint, CheckpointBuilder
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store, headers


class Colour(Enum):
    """A key that is a member."""

    RED = "red"


def _odd() -> dict[Any, Any]:
    """Keys that are easily lost: two NaN of each kind, and look-alikes of other types."""
    keys: list[Any] = [
        *(float("nan"), float("nan"), Decimal("NaN"), Decimal("NaN")),
        *(None, True, 0, 2.5, "", "1", b"1", "$lg", "a.b", -0.5, 1 << 70, 3j, float("inf")),
        *((1, "x"), (), frozenset({1}), Decimal(7), UUID(int=1), Colour.RED, range(3)),
        *(datetime(2020, 1, 1, tzinfo=UTC), "\ud800", "\x00"),
    ]
    found = {key: f"value {place}" for place, key in enumerate(keys)}
    assert len(found) == len(keys)
    return found


def _many() -> dict[Any, Any]:
    return {**_odd(), **{number: f"number {number}" * 20 for number in range(10, 200)}}


def _nans() -> dict[Any, Any]:
    return {float("nan"): {"v": 1}, float("nan"): {"v": 2}}


STATES: dict[str, Any] = {
    "two NaN": _nans,
    "top level": _odd,
    "top level, many": _many,
    "inside": lambda: {"inner": _odd(), "list": [_nans()]},
    "inside, many": lambda: {"inner": _many(), "list": [_many()]},
}


def shown(value: Any) -> Any:
    """A value as text, type for type, where NaN equals NaN."""
    if isinstance(value, dict):
        return [(type(key).__name__, repr(key), shown(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [shown(item) for item in value]
    return type(value).__name__, repr(value)


@case(each=STATES)
async def odd_keys(store: Store, make: Any) -> None:
    """Each key is there, in its place, after a save, a second one over it, and an append."""
    client = store.client()
    first = await save(client, "s", make())
    second = await save(client, "s", {**make(), "more": list(range(100))})
    async with client.run("s", agent_id="a") as run:
        third = await run.append("more", 100)
        await run.save()
    for reader in (client, store.client()):
        found = await reader.restore(first)
        assert shown(found.state) == shown(make())
        assert found.verify_integrity()
        for id, length in ((second, 100), (third, 101)):
            expected = {**make(), "more": list(range(length))}
            assert shown((await reader.restore(id)).state) == shown(expected)
        latest = await reader.latest(agent_id="a", session_id="s")
        assert latest is not None
        assert shown(latest.state) == shown({**make(), "more": list(range(101))})


async def _lossy(store: Store) -> Checkpoint:
    client = store.client(tenant="source", on_unserializable="drop")
    state = {"x": 1, "f": lambda: 1, "pad": ["y" * 100] * 100}
    found = await client.restore(await save(client, "s", state, context={"g": len, "kept": 1}))
    assert {loss.path for loss in found.losses} == {"state.f", "context.g"}
    return found


@case()
async def a_built_checkpoint_is_put_as_it_is(store: Store) -> None:
    """No hook changes it; checksum and losses are kept; putting it again changes nothing."""
    built = CheckpointBuilder("a").session("t").execution_state({"x": 1}).build()
    client = store.client(before_save=lambda state: {**state, "hook": 1})
    for made in (await _lossy(store), built):
        for _ in range(2):
            assert await client.put(made) == made.checkpoint_id
            found = await client.restore(made.checkpoint_id)
            assert found.state == made.state
            assert found.checksum == made.checksum
            assert found.losses == made.losses
            assert found.verify_integrity()
        assert len(await headers(client, made.session_id)) == 1
        assert await client.put(found) == made.checkpoint_id
    assert (await client.restore(await save(client, "t", {"x": 2}))).state == {"x": 2, "hook": 1}


ODD_VALUES: dict[str, Any] = {
    "not a number": float("nan"),
    "infinite": float("-inf"),
    "above 64 bits": (1 << 64) + 1,
    "far below": -(1 << 300),
    "NUL": "a\x00b",
    "half a pair": "a\ud800b",
    "bytes": b"\x00\xff",
}


@case("S09", each=ODD_VALUES)
async def odd_values_beside_a_state(store: Store, value: Any) -> None:
    """In context, metadata and filters, a run's result and a run's error: to the letter."""
    client = store.client()
    async with client.run("s", agent_id="a", initial={"n": 0}) as run:
        await run.save({"v": value}, context={"v": [value]}, metadata={"v": value, "n": 1})
        await run.finish({"v": value})
    with pytest.raises(RuntimeError):
        async with client.run("failed", initial={"v": value}):
            raise RuntimeError(f"it broke: {value!r} {value}")
    fresh = await store.reopen()
    found = (await headers(fresh, "s"))[0]
    assert shown(found.metadata) == shown({"v": value, "n": 1})
    assert shown(found.context) == shown({"v": [value]})
    assert shown((await fresh.restore("s/a@")).state) == shown({"v": value})
    matching = await fresh.log("s", metadata={"v": value})
    equal = value == value  # noqa: PLR0124
    assert [header.seq for header in matching] == ([found.seq] if equal else []), "NaN equals none"
    infos = {info.thread_id: info for info in await fresh.threads()}
    assert shown(infos["s"].result) == shown({"v": value})
    assert f"it broke: {value!r}" in (infos["failed"].error or "")
