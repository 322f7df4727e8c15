"""Fields as deep copies, in which something else stands for each object.

Owns what can be copied, and what is said if it cannot. Must not know what stands for an object.
Invariant: what two places share is one thing in their copies too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from lastgood.errors import SerializationError
from lastgood.objects.culprits import culprit
from lastgood.objects.fields import Stateful
from lastgood.objects.states import State
from lastgood.objects.walking import leaves_in
from lastgood.paths import shortened

LEAVE_OUT = "Begin the name of the field with an underscore, or name it in _checkpoint_skip()."
FLATTEN = "Let the objects be reached by an id, through a dict, instead of through each other."

Memo = dict[int, Any]
"""What became of each value, by its id, as `copy.deepcopy` notes it."""


class Copier:
    """Copies the fields of some objects, given what is known to stand for which value."""

    def __init__(
        self, known: Mapping[int, Any], work: Callable[[Any, Memo], Any] = copy.deepcopy
    ) -> None:
        self.known = known
        self.memo = dict(known)
        self.work = work

    def fields(self, owner: Stateful, fields: State) -> State:
        """The fields of one of the objects, copied; raises SerializationError with the path."""
        return {name: self._field(owner, name, part) for name, part in fields.items()}

    def _field(self, owner: Stateful, name: str, part: Any) -> Any:
        try:
            return self.work(part, self.memo)
        except Exception as error:  # whatever the code of a class in there raises
            steps = culprit(part, lambda inner: self.work(inner, dict(self.known)))
            where = shortened((name, *steps), type(owner).__name__)
            raise SerializationError(
                f"{where}: it cannot be copied ({error}).", path=where, hint=LEAVE_OUT
            ) from error


def of_leaves(objects: Mapping[int, Stateful]) -> Copier:
    """Copies of what is not looked into alone; it is refused if it holds one of the objects.

    A dict that stands for an object would come into its place there, and nobody could ever put the
    object back: a method bound to a dict, a row of dicts.
    """

    def work(part: Any, memo: Memo) -> None:
        for leaf in leaves_in(part):
            before = len(memo)
            try:
                copy.deepcopy(leaf, memo)
            finally:  # a lock in the object is not the reason that helps
                _check(islice(reversed(memo), len(memo) - before), objects)

    return Copier({}, work)


def _check(copied: Iterable[int], objects: Mapping[int, Stateful]) -> None:
    for key in copied:
        if key in objects:
            name = type(objects[key]).__name__
            raise TypeError(f"it holds a {name}, which has a state of its own")
