"""States that change step by step: what is there at first, and what each step does to it.

A step is a delta, a list of operations on the top-level entries of the state. The live state is
changed by applying it, the floor stores nothing but it, and the state that a restore must give is
made by applying all of them again. Values inside a delta are never changed.
"""

import copy
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import ormsgpack

from benchmarks.data import Message, State, conversation, text

Operation = list[Any]
Delta = list[Operation]

WINDOW, SUMMARY_EVERY, SUMMARISED = 200, 50, 50
DICT_KEYS = 10_000


def _set(state: State, key: str, value: object) -> None:
    state[key] = value


def _extend(state: State, key: str, items: list[Any]) -> None:
    state[key].extend(items)


def _put(state: State, key: str, at: Any, value: object) -> None:
    state[key][at] = value


def _fold(state: State, key: str, count: int, items: list[Any]) -> None:
    state[key][:count] = items


_OPERATIONS: dict[str, Callable[..., None]] = {
    "set": _set,
    "extend": _extend,
    "put": _put,
    "fold": _fold,
}


def apply(state: State, delta: Delta) -> None:
    """Change a state by one step."""
    for name, *arguments in delta:
        _OPERATIONS[name](state, *arguments)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A first state and the steps that follow."""

    first: State
    deltas: list[Delta]

    def fresh(self) -> State:
        """The first state, free to be changed by `apply`."""
        return {key: copy.copy(value) for key, value in self.first.items()}

    def after(self, steps: int) -> State:
        """The state after so many steps."""
        state = self.fresh()
        for delta in self.deltas[:steps]:
            apply(state, delta)
        return state

    def new_bytes(self) -> int:
        """Everything that was ever new, once, as compact msgpack: the least there is to keep."""
        values: Iterable[Any] = (operation[-1] for delta in self.deltas for operation in delta)
        return len(ormsgpack.packb(self.first)) + sum(len(ormsgpack.packb(v)) for v in values)


def sized(count: int, scale: float, least: int = 10) -> int:
    """A number of the full workload, scaled."""
    return max(least, round(count * scale))


def growing(scale: float) -> Scenario:
    """W1: each step adds two messages."""
    steps = conversation(sized(1_000, scale))
    return Scenario({"messages": []}, [[["extend", "messages", added]] for added in steps])


def growing_beside(scale: float) -> Scenario:
    """W1b: the same, with a text of 300 bytes that changes and a second list."""
    rng = random.Random(2)
    deltas: list[Delta] = []
    for number, added in enumerate(conversation(sized(1_000, scale))):
        note = {"step": number, "note": text(rng, 100), "score": rng.random()}
        deltas.append(
            [
                ["extend", "messages", added],
                ["set", "plan", _exactly(rng, 300)],
                ["extend", "notes", [note]],
            ]
        )
    return Scenario({"messages": [], "plan": "", "notes": []}, deltas)


def constant(scale: float) -> Scenario:
    """W2: a megabyte of documents that never change, and a counter."""
    rng = random.Random(3)
    count = sized(64, scale, least=4)
    documents = [{"id": n, "text": _exactly(rng, 16_384)} for n in range(count)]
    steps = range(1, sized(200, scale) + 1)
    deltas: list[Delta] = [[["set", "counter", number]] for number in steps]
    return Scenario({"documents": documents, "counter": 0}, deltas)


def agent(scale: float) -> Scenario:
    """W10: an object with a megabyte of messages, of which one field changes."""
    messages = [each for added in conversation(sized(800, scale)) for each in added]
    steps = range(1, sized(100, scale) + 1)
    deltas: list[Delta] = [[["set", "turn", number]] for number in steps]
    return Scenario({"messages": messages, "turn": 0}, deltas)


def window(scale: float) -> Scenario:
    """W6: a sliding window with an edit in its middle; now and then a summary of the oldest."""
    rng = random.Random(4)
    edits = (message for pair in conversation(sized(1_000, scale), seed=5) for message in pair)
    deltas: list[Delta] = []
    length = 0
    for number, added in enumerate(conversation(sized(1_000, scale)), start=1):
        delta: Delta = [["extend", "messages", added]]
        length += len(added)
        if length > WINDOW:
            delta.append(["fold", "messages", length - WINDOW, []])
            length = WINDOW
        delta.append(["put", "messages", length // 2, next(edits)])
        if number % SUMMARY_EVERY == 0:
            summary: Message = {"role": "system", "content": _exactly(rng, 2_000)}
            delta.append(["fold", "messages", SUMMARISED, [summary]])
            length -= SUMMARISED - 1
        deltas.append(delta)
    return Scenario({"messages": []}, deltas)


def dictionary(scale: float) -> Scenario:
    """W7: a dict of many keys, one of which gets another value in each step."""
    rng = random.Random(6)
    keys = [f"fact-{number:05d}" for number in range(sized(DICT_KEYS, scale))]
    memory = {key: _exactly(rng, 300) for key in keys}
    deltas: list[Delta] = [
        [["put", "memory", rng.choice(keys), _exactly(rng, 300)]] for _ in range(sized(500, scale))
    ]
    return Scenario({"memory": memory}, deltas)


def _exactly(rng: random.Random, size: int) -> str:
    return text(rng, size)[:size]
