"""Which live object a state is of, for as long as a rollback or a clone needs to know.

A mark is a number in a state, under a word of ours. Owns the numbers; must not know where states
lie. They are not arguments because they have to reach through the `state_dict` and
`load_state_dict` that classes bring, which call ours. Invariant: a mark is made, and means an
object, only inside one of these blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from lastgood.objects.fields import Stateful, ours_alone
from lastgood.objects.states import OBJECT, State, is_state
from lastgood.objects.walking import inside_graph, levels, reserved_in


class _Marks:
    """Objects, and the number of each."""

    def __init__(self) -> None:
        self.objects: list[Stateful] = []
        self.numbers: dict[int, int] = {}

    def number(self, value: Stateful) -> int:
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return self.numbers[id(value)]


_MADE: ContextVar[_Marks | None] = ContextVar("made", default=None)
_MEANT: ContextVar[Sequence[Stateful]] = ContextVar("meant", default=())


@contextmanager
def marking() -> Iterator[list[Stateful]]:
    """States that are made meanwhile say of which object they are; gives these, by number."""
    marks = _Marks()
    token = _MADE.set(marks)
    try:
        yield marks.objects
    finally:
        _MADE.reset(token)


@contextmanager
def meaning(objects: Sequence[Stateful]) -> Iterator[None]:
    """Marks in states that are loaded meanwhile mean these objects."""
    token = _MEANT.set(objects)
    try:
        yield
    finally:
        _MEANT.reset(token)


def mark(state: State, value: Stateful) -> None:
    """Note in a state of which object it is, if somebody needs to know."""
    marks = _MADE.get()
    if marks is not None:
        state[OBJECT] = marks.number(value)
    elif OBJECT in state:
        raise ours_alone(value, OBJECT)


def meant() -> Sequence[Stateful]:
    """The objects that marks mean now, by number."""
    return _MEANT.get()


def without_marks(graph: State) -> State:
    """A state that was read, for those who know nothing of the objects that it was of."""
    if OBJECT in graph:  # the outermost state is marked if there is any mark
        del graph[OBJECT]
        for level in levels([graph], inside_graph):
            for state in filter(is_state, reserved_in(level)):
                state.pop(OBJECT, None)
    return graph
