"""What you restore equals what you saved, type for type, and nothing stored is ever run."""

from __future__ import annotations

import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from ipaddress import IPv4Network, IPv6Address
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from lastgood import LastgoodError, Opaque, SerializationError
from lastgood.codec import Codec
from lastgood.codec.kinds import Number
from lastgood.codec.msgpack import ext
from lastgood.core import About, Captured
from lastgood.rules import Save
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store, committed, core_of, headers
from lastgood.tree import Leaf


class Shade(StrEnum):
    """A text enum."""

    LIGHT = "light"


class Outer:
    """Holds an enum, as classes in the wild do."""

    class Phase(Enum):
        """A nested enum."""

        PLAN = 1
        ACT = 2


@dataclass
class Note:
    """A plain data class."""

    text: str
    tags: list[str] = field(default_factory=list)


def exactly(found: object, wanted: object) -> None:
    """The same value, the same types all the way down."""
    assert type(found) is type(wanted)
    assert Codec().pack(found) == Codec().pack(wanted)


DEEP: Any = "bottom"
for _ in range(150):
    DEEP = [DEEP]

VALUES: dict[str, Any] = {
    "None": None,
    "bool": True,
    "int": 7,
    "huge int": 10**400,
    "negative huge int": -(2**70),
    "float": 1.5,
    "infinity": float("inf"),
    "text": "a",
    "NUL": "a\x00b",
    "lone surrogate": "x\ud800y",
    "emoji": "\U0001f600",
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"abc"),
    "tuple": (1, (2, [3])),
    "set": {1, 2, 3},
    "frozenset": frozenset({"a"}),
    "deque": deque([1, 2, 3], maxlen=3),
    "counter": Counter("abca"),
    "ordered": OrderedDict(b=1, a=2),
    "range": range(1, 10, 3),
    "path": PurePosixPath("/a/b"),
    "decimal": Decimal("1.10"),
    "uuid": UUID(int=5),
    "IP address": IPv6Address("::1"),
    "IP network": IPv4Network("10.0.0.0/8"),
    "aware datetime": datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2))),
    "naive datetime": datetime(2024, 1, 2, fold=1),  # noqa: DTZ001
    "date": date(2024, 2, 29),
    "time": time(1, 2, tzinfo=UTC),
    "timedelta": timedelta(days=-1, microseconds=3),
    "complex": 1 + 2j,
    "str enum": Shade.LIGHT,
    "nested enum": Outer.Phase.ACT,
    "dataclass": Note("n", ["a"]),
    "int keys": {1: "a", 2: "b"},
    "odd keys": {(1, 2): "a", None: "b", 1.5: "c", Shade.LIGHT: "d", date(2024, 1, 1): "e"},
    "deep": DEEP,
}


@case("S03", "S11", each=VALUES)
async def a_value_comes_back_as_it_was(store: Store, value: Any) -> None:
    """Small and inline, and inside a large state; in a client that never saw it."""
    large = {"value": value, "pad": ["x" * 100] * 100, "list": [value, *"abc"]}
    client = store.client()
    small_id, large_id = await save(client, "s", {"v": value}), await save(client, "s", large)
    client = await store.reopen()
    exactly((await client.restore(small_id)).state, {"v": value})
    found = await client.restore(large_id)
    exactly(found.state, large)
    assert found.verify_integrity()


@case("S03")
async def restored_containers_behave(store: Store) -> None:
    """maxlen holds, default factories work, order is kept, NaN stays NaN."""
    state = {
        "deque": deque([1, 2, 3], maxlen=3),
        "dd": defaultdict(list, a=[1]),
        "nan": float("nan"),
    }
    client = store.client()
    saved = await save(client, "s", state)
    found = (await (await store.reopen()).restore(saved)).state
    found["deque"].append(4)
    found["dd"]["new"].append(1)
    assert list(found["deque"]) == [2, 3, 4]
    assert found["dd"] == {"a": [1], "new": [1]}
    assert found["nan"] != found["nan"]
    assert list(found) == ["deque", "dd", "nan"]


@case("S01")
async def a_nested_enum_in_a_pydantic_model(store: Store) -> None:
    """Same class, same member, also in a process that did not save it."""
    pytest.importorskip("pydantic")
    from lastgood.testing import models
    from lastgood.testing.processes import in_a_fresh_process, phase_elsewhere

    model = models.Plan(name="n", phase=models.Plan.Phase.ACT, steps=["a"] * 2000)
    saved = await save(store.client(), "s", {"plan": model})
    found = (await store.client().restore(saved)).state["plan"]
    assert type(found) is models.Plan
    assert found == model
    assert found.phase is models.Plan.Phase.ACT
    await store.close()
    if store.harness.address is not None:
        answer = in_a_fresh_process(phase_elsewhere, store.harness.address, saved)
        assert answer == ("Plan", "Plan.Phase", "ACT", 2000)


@case("S04")
async def a_class_that_disappeared(store: Store) -> None:
    """Opaque, loud when touched, saved again without the loss of a byte."""
    module = types.ModuleType("shop_of_yesterday")
    order = make_dataclass("Order", ["number", "items"])
    order.__module__, module.Order = module.__name__, order  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        state = {"order": order(7, ["a" * 100] * 100), "small": order(8, [])}
        first = await save(store.client(), "s", state)
    finally:
        del sys.modules[module.__name__]
    client = store.client()
    found = await client.restore(first)
    assert type(found.state["order"]) is Opaque
    assert type(found.state["small"]) is Opaque
    with pytest.raises(SerializationError, match="shop_of_yesterday"):
        found.state["order"].number  # noqa: B018
    assert found.verify_integrity()
    second = await client.restore(await save(client, "s", found.state))
    sys.modules[module.__name__] = module
    try:
        assert (await store.client().restore(second.checkpoint_id)).state == state
    finally:
        del sys.modules[module.__name__]


@case("S04")
async def an_opaque_value_names_its_module(store: Store) -> None:
    """The sentence that tells what to import."""
    module = types.ModuleType("shop")
    order = make_dataclass("Order", ["number"])
    order.__module__, module.Order = "shop", order  # type: ignore[attr-defined]
    sys.modules["shop"] = module
    try:
        saved = await save(store.client(), "s", {"order": order(7)})
    finally:
        del sys.modules["shop"]
    found = (await store.client().restore(saved)).state["order"]
    with pytest.raises(SerializationError) as caught:
        found.number  # noqa: B018
    assert str(caught.value) == (
        "state.order is a shop.Order, and module 'shop' is not imported here. "
        "Import it before restoring, or use lastgood.register."
    )


@case("S06")
async def numpy_arrays(store: Store) -> None:
    """Equal, of the same dtype and writable; an object array is refused with its path."""
    numpy = pytest.importorskip("numpy")
    arrays = {
        "floats": numpy.arange(5000, dtype="float64"),
        "structured": numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        "times": numpy.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
        "matrix": numpy.ones((3, 4), order="F"),
    }
    client = store.client()
    saved = await save(client, "s", arrays)
    found = (await (await store.reopen()).restore(saved)).state
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].tobytes() == array.tobytes()
        assert found[name].flags.writeable
    with pytest.raises(SerializationError, match=r"state\.o"):
        await save(store.client(), "s", {"o": numpy.array([object()], dtype=object)})


EXT_CODES = [code for name, code in vars(Number).items() if name.isupper()]
HOSTILE: tuple[Any, ...] = tuple(
    body
    for label in ("os:system", "lastgood.testing.trap:Trap", "builtins:eval")
    for body in (
        label,
        [label, "1"],
        [[label], {"text": "x"}],
        [label, {"a": 1}],
        [[label, 1], [1]],
    )
)


@case("S07")
async def a_hostile_payload_runs_nothing(store: Store) -> None:
    """Every stored form with labels of callables: a typed error or Opaque; nothing is imported."""
    client = store.client()
    core = core_of(client)
    for number in (*EXT_CODES, 99, 127):
        for body in HOSTILE:
            data = ext(number, core.codec.pack(body))
            draft = core.draft(Captured(Leaf(data), ()), About("a"))
            writes = await committed(client, Save(core.tenant, "s", draft))
            assert writes.checkpoint is not None
            await _restored_or_refused(client, writes.checkpoint.label)
    assert "lastgood.testing.trap" not in sys.modules


@case("S07")
async def a_hostile_context_runs_nothing(store: Store) -> None:
    """Context and metadata are read by listings: neither they nor the damage spread."""
    client = store.client()
    core = core_of(client)
    good = await save(client, "other", {"n": 1})
    for body in HOSTILE:
        hostile = ext(int(Number.RECORD), core.codec.pack(body))
        draft = core.draft(Captured(Leaf(b"\x80"), ()), About("a"))._replace(context=hostile)
        writes = await committed(client, Save(core.tenant, "s", draft))
        assert writes.checkpoint is not None
        await _restored_or_refused(client, writes.checkpoint.label)
    assert "lastgood.testing.trap" not in sys.modules
    assert (await client.restore(good)).state == {"n": 1}
    assert len(await client.threads()) == 2


async def _restored_or_refused(client: Any, saved: str) -> None:
    try:
        found = (await client.restore(saved)).state
    except LastgoodError:
        return
    assert not callable(found) or type(found) is Opaque


ODD_TEXT = "a\x00b \ud800 \U0001f600 'quote' \"double\" -- ;"


@case("S09")
async def odd_text_in_every_field(store: Store) -> None:
    """NUL, lone surrogates and emoji in state, context and metadata, as values and keys."""
    client = store.client()
    given = {ODD_TEXT: ODD_TEXT, "list": [ODD_TEXT] * 200}
    saved = await save(
        client, "s", given, context={ODD_TEXT: [ODD_TEXT]}, metadata={ODD_TEXT: ODD_TEXT}
    )
    client = await store.reopen()
    found = await client.restore(saved)
    exactly(found.state, given)
    assert found.context == {ODD_TEXT: [ODD_TEXT]}
    assert found.metadata == {ODD_TEXT: ODD_TEXT}
    assert len(await client.log("s", metadata={ODD_TEXT: ODD_TEXT})) == 1
    async with client.run("s") as run:
        await run.save(metadata={"t": ODD_TEXT}, context={"t": ODD_TEXT})
    assert (await headers(client, "s"))[0].context == {"t": ODD_TEXT}


@case("S10", "S11")
async def nothing_is_shared_with_the_caller(store: Store) -> None:
    """Changing what was saved or restored changes nothing stored, on any backend."""
    client = store.client()
    state: dict[str, Any] = {"items": [1], "pad": ["x" * 100] * 100}
    context = {"c": [1]}
    saved = await save(client, "s", state, context=context, metadata=context)
    state["items"].append(2)
    context["c"].append(2)
    found = await client.restore(saved)
    assert found.state["items"] == [1]
    found.state["items"].append(3)
    found.state["pad"].clear()
    found.context["c"].append(3)  # type: ignore[attr-defined]
    again = await client.restore(saved)
    assert again.state == {"items": [1], "pad": ["x" * 100] * 100}
    assert (again.context, again.metadata) == ({"c": [1]}, {"c": [1]})
    latest = await client.latest(agent_id="a", session_id="s")
    assert latest == again


@case("S10")
async def a_save_keeps_the_moment_it_was_called(store: Store) -> None:
    """A change between the call and the commit is not torn into it."""
    client = store.client()
    state = {"items": list(range(5000)), "n": 0}
    saves = []
    for number in range(10):
        state["n"] = number
        saves.append(await save(client, "s", state, checkpoint_id=None))
        state["items"].append(number)  # type: ignore[attr-defined]
    for number, saved in enumerate(saves):
        found = (await client.restore(saved)).state
        assert (found["n"], len(found["items"])) == (number, 5000 + number)


@case()
async def a_class_that_is_not_accepted_is_told_by_its_place(store: Store) -> None:
    """To a strict client, wherever it stands."""
    notes = [Note(f"{number}" * 300) for number in range(20)]
    saved = await save(store.client(), "s", {"x": [1, {"note": Note("n")}], "long": notes})
    with pytest.raises(SerializationError, match="strict_types is on") as caught:
        await store.client(strict_types=True).restore(saved)
    assert caught.value.path == "state.x[1].note"
    assert caught.value.hint.startswith("Register the class")
    odd = await save(store.client(), "s", {"in a set": {Shade.LIGHT}, "plain": Note("n")})
    with pytest.raises(SerializationError, match="strict_types is on") as caught:
        await store.client(strict_types=True).restore(odd)
    assert caught.value.path == ""
    accepting = store.client(strict_types=True, types=[Note])
    assert (await accepting.restore(saved)).state["long"] == notes
