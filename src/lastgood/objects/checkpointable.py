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
    """Gives any class `state_dict`, `load_state_dict`, `clone` and `diff`.

    The state of an object is its public attributes: those in `__dict__` and in slots whose names do
    not begin with an underscore. Three hooks say otherwise: `_checkpoint_fields()` names exactly
    the attributes to keep, `_checkpoint_skip()` some to leave out, `_checkpoint_version()` the
    version of the schema ("1.0"), for `register_migration`.
    """

    __slots__ = ()

    @ours
    def state_dict(self) -> State:
        """The state as a dict of its own, with `__version__` and `__class__` behind the fields.

        A Checkpointable inside is a dict of the same form. What is shared, or leads back to
        itself, does so in the dict too. Raises SerializationError for a field that cannot be
        copied, such as a lock, or a method of an object that is in the state.
        """
        return snapshot(self, own=self)

    @ours
    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool | None = None) -> None:
        """Make the fields of this object exactly those of a state, which is copied.

        Fields that it does not have are removed; private attributes stay. `strict=True` raises
        if the fields are not the same before, `strict=False` leaves fields that the state lacks as
        they are and takes a class of any name. A Checkpointable that is in its place already is
        loaded in place. Raises SchemaMigrationError, and whatever is raised, nothing has changed.
        """
        _check_state(state)
        # Not `dict(state)` first: a state may lead back to itself.
        making = Making(state, self)
        copied = _copied(state, making)
        own = copied if type(copied) is dict else dict(copied)
        making.note(load([own], [self], strict=strict, own=self))

    def clone(self) -> Self:
        """A copy of this object and of the Checkpointables in it, by way of their state.

        A class whose constructor needs no arguments is constructed; otherwise what is no state,
        such as locks and clients, is shared with the original.
        """
        return clone(self)  # type: ignore[return-value]

    def diff(self, other: Checkpointable | Mapping[str, Any]) -> Differences:
        """What turns this state into another one, given as an object or as its state.

        `{"added": {...}, "removed": {...}, "changed": {name: (old, new)}}`, by field.
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
