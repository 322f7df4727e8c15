"""Checkpoints of objects, under keys: a key is a thread, every save is a checkpoint of it.

Stands on a blocking client and its backend; a history can be looked at, forked and rewound with
the client and the command line like any other. Owns the words of this door (key, nth, fmt) and
nothing that is stored. Invariant: what `load` leaves in an object is what `save` found there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from lastgood import arguments, registry
from lastgood.client import BlockingClient, Client
from lastgood.errors import IncompatibleCheckpointError
from lastgood.ids import check_name
from lastgood.objects.binding import load
from lastgood.objects.checkpointable import Checkpointable
from lastgood.objects.differences import Differences, differences
from lastgood.objects.keeping import Format, Keeper
from lastgood.objects.keys import given_key
from lastgood.objects.leaving import leaving
from lastgood.objects.migrating import migrated_throughout
from lastgood.objects.rollback import Rollback
from lastgood.objects.states import AGENTS, State

A = TypeVar("A", bound=Checkpointable)
DIRECTORY = "./checkpoints"

_BY_WORD: Mapping[str, Callable[[Any], BlockingClient]] = {
    "memory": lambda _: BlockingClient.memory(),
    "file": lambda path: BlockingClient.on(registry.make("files", directory=path or DIRECTORY)),
    "sqlite": lambda path: BlockingClient.sqlite(path) if path else BlockingClient.sqlite(),
}


class CheckpointManager:
    """Saves objects under keys and loads them back.

    `backend` is "memory" (the default), "file" (readable JSON files below `path`), "sqlite" (one
    file at `path`), the address of a store, or a client, async or blocking. Every save is kept, so
    a key has a history. `fmt="pickle"` is for objects of any class. Pickles are signed with `key`,
    or else with a key that is made once for this user and kept outside of the data. The methods
    block, and may be called inside a running event loop.
    """

    def __init__(
        self,
        backend: str | Client | BlockingClient | None = None,
        path: str | os.PathLike[str] | None = None,
        fmt: Format = "json",
        *,
        key: bytes | str | None = None,
    ) -> None:
        arguments.one_of(fmt, ("json", "pickle"), "fmt")
        if key is not None and fmt != "pickle":
            raise ValueError('key= signs pickles: it goes with fmt="pickle".')
        given = None if key is None else given_key(key)
        self._owns = not isinstance(backend, Client | BlockingClient)
        self._keeper = Keeper(_opened(backend, path), fmt, given)

    @property
    def client(self) -> BlockingClient:
        """The blocking client underneath, for everything else: log, blame, fork, rewind, verify."""
        return self._keeper.client

    def __repr__(self) -> str:
        return f"<CheckpointManager {self.client.url} fmt={self._keeper.fmt!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the store, unless it belongs to a client that was passed in."""
        if self._owns:
            self.client.close()

    def save(self, key: str, agent: Checkpointable) -> str:
        """Save the state of an object as the newest one of a key and return the checkpoint's id.

        A save costs what changed since the last one. Raises SerializationError, with the path, for
        a value that cannot be stored; nothing is written then.
        """
        return self._keeper.save(key, _checked(agent))

    def load(
        self,
        key: str,
        agent: A,
        *,
        checkpoint_id: str | None = None,
        nth: int | None = None,
        strict: bool | None = None,
    ) -> A:
        """Load the newest state of a key, or the state named, into an object; return the object.

        `checkpoint_id` names a state by its id. `nth` counts back as `history` does; 0 is the
        newest. `strict` is that of `load_state_dict`. Raises CheckpointNotFoundError, which is a
        KeyError, if the key has no such state, and SchemaMigrationError if the state does not fit.
        Whatever is raised, the object is as it was.
        """
        target, found = _checked(agent), self._keeper.found(key, checkpoint_id, nth)
        with leaving(found.left):
            load([_of_one(key, found.state)], [target], strict=strict)
        return agent

    def list_keys(self) -> list[str]:
        """Return all keys, sorted."""
        return self._keeper.keys()

    def history(self, key: str, n: int = 50) -> list[dict[str, Any]]:
        """Return the last `n` checkpoints of a key, newest first: `{"id": ..., "ts": seconds}`."""
        arguments.limit(n, "n")
        return [
            {"id": header.checkpoint_id, "ts": header.created_at.timestamp()}
            for header in self._keeper.line(key, n)
        ]

    def diff(
        self,
        key: str,
        *,
        agent: Checkpointable | None = None,
        checkpoint_id_a: str | None = None,
        checkpoint_id_b: str | None = None,
    ) -> Differences:
        """Return what changed, by field: from a checkpoint to an object, or to another checkpoint.

        A checkpoint that is not named is the newest of the key. Before a state is compared with an
        object, it is migrated if it is older, and so are the states of inner objects.
        """
        if agent is None and checkpoint_id_a is None:
            raise TypeError("diff(key, ...) needs agent= or checkpoint_id_a=.")
        if agent is not None and checkpoint_id_b is not None:
            raise TypeError("diff(key, agent=) compares with one checkpoint: checkpoint_id_a=.")
        old = _of_one(key, self._keeper.found(key, checkpoint_id_a).state)
        if agent is not None:
            return differences(migrated_throughout(old, _checked(agent)), agent.state_dict())
        return differences(old, _of_one(key, self._keeper.found(key, checkpoint_id_b).state))

    def rollback_context(self, key: str, *agents: Checkpointable) -> Rollback:
        """Save the objects now, and give them this state back if the block raises an exception.

        The exception then goes on. The block works with `with` and `async with`, can be nested, and
        takes any number of objects, which are kept together. Inner objects are the same ones
        afterwards. The checkpoints stay, and nothing else that happened in the block is undone.
        """
        if not agents:
            raise TypeError("rollback_context(key, agent, ...) needs an object.")
        return Rollback(self._keeper, check_name(key, "key"), tuple(map(_checked, agents)))

    def delete(self, key: str) -> bool:
        """Delete a key with its whole history and its whole thread; return False if there is none.

        A thread in which no object was ever saved is not a key, and stays.
        """
        return self._keeper.has(check_name(key, "key")) and self.client.delete(key)


def _opened(backend: object, path: str | os.PathLike[str] | None) -> BlockingClient:
    if backend is None and path is not None:
        raise ValueError(
            f'path={os.fspath(path)!r} needs a backend: backend="sqlite" for one file, "file" for '
            "a directory of JSON files. Without one everything is kept in memory alone."
        )
    backend = "memory" if backend is None else backend
    if isinstance(backend, str) and backend in _BY_WORD:
        return _BY_WORD[backend](path)
    words = ", ".join(map(repr, _BY_WORD))
    if path is not None:
        raise ValueError(f"path= goes with a backend of {words}; an address has its own.")
    if isinstance(backend, Client):
        return backend.blocking
    if isinstance(backend, BlockingClient):
        return backend
    if isinstance(backend, str) and ":" in backend:
        return BlockingClient.open(backend)
    raise ValueError(
        f"backend={backend!r} is not one of {words}, the address of a store such as "
        "'sqlite:///agents.db', or a client."
    )


def _checked(agent: A) -> A:
    if isinstance(agent, type):
        raise TypeError(f"{agent.__name__} is a class. Pass an object of it: {agent.__name__}(...)")
    if not isinstance(agent, Checkpointable):
        raise _no_checkpointable(agent)
    return agent


def _no_checkpointable(found: object) -> TypeError:
    name = type(found).__name__
    hint = f"Write `class {name}(Checkpointable)`."
    if type(found).__module__ == "builtins":  # a key in its place, or plain data
        hint = "Pass the key first, then the object; for plain data use manager.client."
    return TypeError(f"{name} does not derive from Checkpointable. {hint}")


def _of_one(key: str, state: State) -> State:
    if AGENTS in state:
        raise IncompatibleCheckpointError(
            f"the key {key!r} holds {len(state[AGENTS])} objects that a rollback_context kept "
            "together; only that can bring them back.",
            hint="Load another checkpoint of the key: nth=1, or checkpoint_id=.",
        )
    return state
