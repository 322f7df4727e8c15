"""Copies that the `state_dict` of a class got from ours, and what they are copies of.

Owns whether they were changed, and the way back. Must not know who asks. Invariant: what a class
wrote itself stays in its state, around and beside what it took over.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from lastgood.codec import Codec
from lastgood.errors import SerializationError
from lastgood.objects.copying import Memo
from lastgood.objects.differences import same
from lastgood.objects.fields import Stateful
from lastgood.objects.reshaping import reshaped
from lastgood.objects.states import State, fields_in
from lastgood.objects.walking import Level, reaches

_CODEC = Codec()


class Copies:
    """The state of an object as it was handed out."""

    def __init__(self, value: Stateful, memo: Memo, objects: Iterable[Stateful]) -> None:
        """`memo` has what stands for each of the objects, and the copies of what they hold."""
        self.value = value
        self.shell: State = memo[id(value)]
        self.held = [*objects, *memo.get(id(memo), ())]  # where `deepcopy` holds what it copied
        self.copies = memo  # an id means a value only as long as that is there
        self.parts = fields_in(self.shell)
        self.packed = _packed(self.parts)
        # The dict itself may get more fields: that changes nothing of what it had.
        known = {id(self.shell): self.shell}
        self.before = None if self.packed else copy.deepcopy(self.parts, known)
        pairs = [(memo[id(value)], value) for value in self.held if id(value) in memo]
        self.meaning = {id(made): value for made, value in pairs if made is not value}
        del self.meaning[id(self.shell)]

    def meant(self, state: Mapping[str, Any]) -> State | None:
        """The same state with the originals in it; None if a copy was changed."""
        return self._fields(state) if self._is_as_before() else None

    def _is_as_before(self) -> bool:
        if self.packed is None:
            return same(self.parts, self.before)
        return _packed(self.parts) == self.packed

    def _fields(self, state: Mapping[str, Any]) -> State:
        return {name: self._field(name, part, state) for name, part in state.items()}

    def _field(self, name: str, part: Any, state: Mapping[str, Any]) -> Any:
        if part is self.shell and (state is part or self.parts.get(name) is part):
            return self.value  # which holds itself; else the class puts what we gave in its own
        return self._meant(part)

    def _meant(self, part: Any, _step: object = None) -> Any:
        if id(part) in self.meaning:
            return self.meaning[id(part)]
        if not reaches(part, self._has_copies):
            return part
        self.meaning[id(part)] = part  # one of the class's own that leads back to itself stays
        self.meaning[id(part)] = made = reshaped(part, self._meant)
        return made

    def _has_copies(self, level: Level) -> bool:
        return not self.meaning.keys().isdisjoint(map(id, level.fresh))


def _packed(parts: State) -> bytes | None:
    """The encoding, which takes a fraction of the time of a copy; None for what leads to itself."""
    try:
        return _CODEC.pack(parts)
    except SerializationError:
        return None
