"""A value that is changed while it is packed: by another thread, or by code of a class in it.

What is packed can be read, and nothing ends the process. `Sly` changes what holds it at the worst
moment: the native call has begun to go through it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pydantic
import pytest

from lastgood import BlockingClient, SerializationError
from lastgood.codec import Codec, Registry

LONG = 500


class Sly:
    """Does something as soon as somebody wants to store it."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self.act = act

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sly)

    __hash__ = None  # type: ignore[assignment]


def taken(sly: Sly) -> list[int]:
    sly.act()
    return []


@dataclass
class Holder:
    parts: list[Any] = field(default_factory=list)


class Model(pydantic.BaseModel):
    parts: list[Any] = []


@pytest.fixture
def codec() -> Codec:
    registry = Registry()
    registry.register(Sly, encode=taken, decode=lambda _: Sly())
    return Codec(registry)


def swollen(held: dict[str, Any]) -> None:
    held.update({f"more {number}": number for number in range(LONG)})


HOLDERS: dict[str, Callable[[list[Any]], Any]] = {
    "itself": lambda parts: parts,
    "in a dict": lambda parts: {"parts": parts},
    "in a list": lambda parts: [[parts], 1],
    "in a tuple": lambda parts: (parts, parts),
    "in many": lambda parts: [{"parts": parts}] * LONG,
    "in an ordered dict": lambda parts: OrderedDict(parts=parts),
    "in a dataclass": Holder,
    "in a model": lambda parts: Model.model_construct(parts=parts),
    "in a list of models": lambda parts: [Model.model_construct(parts=parts)] * 3,
}


@pytest.mark.parametrize("length", [2, 40, LONG])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_list_that_is_emptied(codec: Codec, holder: str, length: int) -> None:
    parts: list[Any] = [*range(length)]
    value = HOLDERS[holder](parts)
    parts.insert(1, Sly(parts.clear))
    found = codec.unpack(codec.pack(value))
    assert type(found) is type(value)


@pytest.mark.parametrize("change", [dict.clear, swollen, dict.popitem])
@pytest.mark.parametrize("count", [2, LONG])
def test_a_dict_that_gets_other_keys(
    codec: Codec, change: Callable[[dict[str, Any]], object], count: int
) -> None:
    held: dict[str, Any] = {f"key {number}": number for number in range(count)}
    held["sly"] = Sly(lambda: change(held))
    held["last"] = [1, 2]
    before = dict(held)
    assert codec.unpack(codec.pack({"held": held, "behind": 1})) == {"held": before, "behind": 1}


def test_a_list_is_kept_as_it_was_when_it_was_begun(codec: Codec) -> None:
    parts: list[Any] = [1, 2, 3]
    parts.insert(1, Sly(parts.clear))
    assert codec.unpack(codec.pack({"parts": parts})) == {"parts": [1, Sly(), 2, 3]}


def test_what_leads_back_to_itself_is_still_refused_with_its_place(codec: Codec) -> None:
    value: list[Any] = [Sly()]
    value.append({"again": value})
    with pytest.raises(SerializationError, match=r"state\[1\]\.again contains itself"):
        codec.pack(value)


def test_another_thread_changes_what_is_saved() -> None:
    """Every save that returns can be restored, and the next ones are right."""
    state: dict[str, Any] = {
        "list": [{"n": number, "text": "x" * 50} for number in range(3000)],
        "dict": {f"key {number}": ["y" * 40] for number in range(2000)},
        "sets": [{number} for number in range(100)],
    }
    ended = threading.Event()
    changing = threading.Thread(target=changed_until, args=(state, ended))
    with BlockingClient.memory() as client:
        changing.start()
        try:
            until = time.monotonic() + 0.7
            while time.monotonic() < until:
                saved = client.save("a", session_id="t", execution_state=state)
                assert client.restore(saved).state.keys() == state.keys()
        finally:
            ended.set()
            changing.join()
        saved = client.save("a", session_id="t", execution_state=state)
        assert client.restore(saved).state == state


def changed_until(state: dict[str, Any], ended: threading.Event) -> None:
    number = 0
    while not ended.is_set():
        number += 1
        del state["list"][-20:], state["sets"][-5:]
        state["list"].extend({"n": number, "text": "z" * 50} for _ in range(20))
        state["sets"].extend({number, each} for each in range(5))
        state["dict"].pop(f"key {number % 4000}", None)
        state["dict"][f"key {number * 7 % 4000}"] = ["q" * (number % 60)]
