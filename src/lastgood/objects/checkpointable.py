"""The mixin that makes the state of any object readable, loadable and comparable.

Owns the public methods; the work is done by the modules beside it. Must not know stores.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from lastgood.errors import SerializationError
from lastgood.objects.binding import load
from lastgood.objects.cloning import clone
from lastgood.objects.copying import FLATTEN, Memo
from lastgood.objects.culprits import culprit
from lastgood.objects.differences import Differences, differences
from lastgood.objects.fields import Stateful, ours
from lastgood.objects.going import Making
from lastgood.objects.states import State
from lastgood.objects.weaving import snapshot
from lastgood.paths import shortened


class Checkpointable(Stateful):
    """A mixin that gives any class `state_dict`, `load_state_dict`, `clone` and `diff`.

    The state of an object is its public attributes: those in `__dict__` and in slots whose names do
    not begin with an underscore. A class may override three hooks: `_checkpoint_fields()` returns
    exactly the names of the attributes to keep, `_checkpoint_skip()` the names of some to leave
    out, and `_checkpoint_version()` the version of the schema, "1.0" by default, which
    `register_migration` refers to.
    """

    __slots__ = ()

    @ours
    def state_dict(self) -> State:
        """Return the state as a dict of its own: the fields, then `__version__` and `__class__`.

        A Checkpointable inside the object becomes a dict of the same form. What is shared in the
        object, or leads back to itself, does so in the dict too. Raises SerializationError for a
        field that cannot be copied, such as a lock, or a method of an object that is in the state.
        """
        return snapshot(self, own=self)

    @ours
    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool | None = None) -> None:
        """Make the fields of this object exactly those of a state, which is copied.

        Fields that the state does not have are removed; private attributes stay. `strict=True`
        raises an error unless object and state have the same fields. `strict=False` leaves fields
        that the state lacks as they are, and accepts the state of a class of any name. An inner
        Checkpointable that is in its place already is loaded in place. Raises
        SchemaMigrationError if the state does not fit. Whatever is raised, nothing has changed.
        """
        _check_state(state)
        # Not `dict(state)` first: a state may lead back to itself.
        making = Making(state, self)
        copied = _copied(state, making)
        own = copied if type(copied) is dict else dict(copied)
        making.note(load([own], [self], strict=strict, own=self))

    def clone(self) -> Self:
        """Return a copy of this object and of the Checkpointables in it, made from their state.

        If the constructor of a class needs no arguments, it is called. Otherwise the copy shares
        with the original what does not belong to the state, such as locks and clients.
        """
        return clone(self)  # type: ignore[return-value]

    def diff(self, other: Checkpointable | Mapping[str, Any]) -> Differences:
        """Return what turns this object's state into another one, given as an object or a state.

        The answer is by field: `{"added": {...}, "removed": {...}, "changed": {name: (old, new)}}`.
        """
        if not isinstance(other, Checkpointable):
            _check_state(other)
        new = other.state_dict() if isinstance(other, Checkpointable) else dict(other)
        return differences(self.state_dict(), new)


def _check_state(state: object) -> None:
    if not isinstance(state, Mapping):
        raise TypeError(f"a state is a dict, as state_dict() gives it, not {type(state).__name__}")


def _copied(state: Mapping[str, Any], memo: Memo) -> Mapping[str, Any]:
    held = dict(state) if type(state) is MappingProxyType else state  # which nobody can copy
    try:
        return copy.deepcopy(held, memo)
    except RecursionError:
        raise SerializationError(
            "the state nests too deeply to be copied.", path="state", hint=FLATTEN
        ) from None
    except Exception as error:
        where = shortened(culprit(dict(held), copy.deepcopy), "state")
        raise SerializationError(
            f"{where}: it cannot be copied ({error}).",
            path=where,
            hint="Take it out of the state, and set it in the object.",
        ) from error
