"""Stored states, brought to the versions that their classes have now.

Owns when a migration runs and what it may return; which ones there are is registered elsewhere.
Must not know stores. Invariant: a state is changed in place, so that whoever holds it holds the new
one.
"""

from __future__ import annotations

from typing import Any

from lastgood.errors import SchemaMigrationError
from lastgood.migrations import chain
from lastgood.objects.classes import classes_named
from lastgood.objects.fields import Stateful, blank, overrides, version_of
from lastgood.objects.states import CLASS, UNSET, VERSION, State, fields_in, is_state
from lastgood.objects.walking import (
    inside_graph,
    is_settled,
    levels,
    objects_below,
    reserved_in,
)


def migrated(state: State, value: Stateful) -> State:
    """The state, brought in place to the version of an object's class."""
    name, version = state.get(CLASS), state.get(VERSION)
    current = version_of(value)
    if not isinstance(name, str) or version is None or version == current:
        return state
    if not isinstance(version, str):
        raise SchemaMigrationError(
            f"a state of {name} has {version!r:.40} as its {VERSION}, which is no text.",
            hint=f"This class has {current!r}.",
        )
    for hop in chain(name, version, current):
        before = fields_in(state)
        made = _migrated_once(name, state, hop.fn)
        if made is not state:
            state.clear()
            state.update(made)
        state[VERSION] = hop.to_version
        state.setdefault(CLASS, name)
        _count_as_set(state, before)
    return state


def _count_as_set(state: State, before: State) -> None:
    """Fields that a migration gave count as set; of what it may have changed in place, all do."""
    names = state.get(UNSET)
    if isinstance(names, list):
        state[UNSET] = [
            name
            for name in names
            if type(name) is str
            and name in before
            and state.get(name) is before[name]
            and is_settled(before[name])
        ]


def _migrated_once(name: str, state: State, fn: Any) -> State:
    version = state[VERSION]
    try:
        made = fn(state)
    except Exception as error:
        raise SchemaMigrationError(
            f"the migration of {name} from version {version} failed: {error!r}"
        ) from error
    if not isinstance(made, dict):
        raise SchemaMigrationError(
            f"the migration of {name} from version {version} returned {made!r:.40}.",
            hint="Return the new state, a dict.",
        )
    return made


def migrated_throughout(graph: State, value: Stateful) -> State:
    """The same for every state in a graph but those of objects that load themselves."""
    models = {type(each).__name__: each for each in objects_below([value])}
    migrated(graph, value)
    for level in levels([graph], inside_graph):
        for state in filter(is_state, reserved_in(level)):
            if state is not graph:
                _migrate_inner(state, models, value)
    return graph


def _migrate_inner(state: State, models: dict[str, Stateful], near: Stateful) -> None:
    """Bring a state to the version of its class, if there is one class of that name."""
    name = state[CLASS]
    if name not in models:
        found = list(classes_named(name, near).values())
        if len(found) != 1:
            return
        models[name] = blank(found[0])
    if not overrides(models[name], "load_state_dict"):
        migrated(state, models[name])
