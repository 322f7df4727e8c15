"""Checkpoints of objects, under keys: a key is a thread, every save is a checkpoint of it.

Stands on a blocking client and its backend; a history can be looked at, forked and rewound with
the client and the command line like any other. Owns the words of this door (key, nth, fmt) and
nothing that is stored. Invariant: what `load` leaves in an object is what `save` found there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, Self, TypeVar

from lastgood import arguments, registry
from lastgood.client import BlockingClient, Client
from lastgood.errors import (
    CheckpointNotFoundError,
    IncompatibleCheckpointError,
    SerializationError,
)
from lastgood.ids import check_name
from lastgood.model import Header
from lastgood.objects.binding import load, migrated
from lastgood.objects.checkpointable import Checkpointable
from lastgood.objects.differences import Differences, differences
from lastgood.objects.fields import Stateful
from lastgood.objects.keys import Key, given_key, own_key
from lastgood.objects.pickles import pickled, unpickled
from lastgood.objects.rollback import Kept, Rollback
from lastgood.objects.states import AGENTS, PICKLE, State
from lastgood.objects.unweaving import graph_of
from lastgood.objects.weaving import LEAVE_OUT, Woven, woven, woven_together
from lastgood.refs import Address

A = TypeVar("A", bound=Checkpointable)
Format = Literal["json", "pickle"]
LANE = "object"
"""The lane of a thread in which objects are kept; those of runs and saves are others."""
DIRECTORY = "./checkpoints"
PAGE = 200

_BY_WORD: Mapping[str, Callable[[Any], BlockingClient]] = {
    "memory": lambda _: BlockingClient.memory(),
    "file": lambda path: BlockingClient.on(registry.make("files", directory=path or DIRECTORY)),
    "sqlite": lambda path: BlockingClient.sqlite(path) if path else BlockingClient.sqlite(),
}


class CheckpointManager:
    """Saves objects under keys and loads them back.

    `backend` is "memory", "file" (readable JSON files below `path`), "sqlite", the address of a
    store, or a client of either colour. Every save is kept: a key has a history. `fmt="pickle"` is
    for objects of any class; it is signed with `key`, or with a key that is made once for this user
    outside of the data. The methods block, and may be called inside a running event loop.
    """

    def __init__(
        self,
        backend: str | Client | BlockingClient = "memory",
        path: str | os.PathLike[str] | None = None,
        fmt: Format = "json",
        *,
        key: bytes | str | None = None,
    ) -> None:
        arguments.one_of(fmt, ("json", "pickle"), "fmt")
        if key is not None and fmt != "pickle":
            raise ValueError('key= signs pickles: it goes with fmt="pickle".')
        self.fmt = fmt
        self._given = None if key is None else given_key(key)
        self._owns = isinstance(backend, str)
        self.client = _opened(backend, path)
        """The client below, for everything else: log, diff, fork, rewind, verify."""

    def __repr__(self) -> str:
        return f"<CheckpointManager {self.client.url} fmt={self.fmt!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store, unless it belongs to the client that was passed in."""
        if self._owns:
            self.client.close()

    def save(self, key: str, agent: Checkpointable) -> str:
        """Keep the state of an object as the newest one of a key; returns the checkpoint's id.

        Costs what changed since the last save. Raises SerializationError with the path of a
        value that cannot be kept; nothing is written then.
        """
        with _explained():
            return self.client.save(LANE, **self._saving(key, woven(_checked(agent))))

    def load(
        self,
        key: str,
        agent: A,
        *,
        checkpoint_id: str | None = None,
        nth: int | None = None,
        strict: bool | None = None,
    ) -> A:
        """Give an object the newest state of a key, or the one named; returns the object.

        `nth` counts back as `history` does, 0 is the newest. `strict` is that of
        `load_state_dict`. Raises CheckpointNotFoundError, which is a KeyError, if the key has
        none, and SchemaMigrationError if it does not fit; whatever is raised, the object is as it
        was.
        """
        state = self._state(key, checkpoint_id, nth)
        load([_of_one(key, state)], [_checked(agent)], strict=strict)
        return agent

    def list_keys(self) -> list[str]:
        """All keys, sorted."""
        found: list[str] = []
        after: str | None = None
        while True:
            page = self.client.threads(agent_id=LANE, sort="name", limit=PAGE, after=after)
            found += [info.thread_id for info in page]
            after = page.next
            if after is None:
                return sorted(found)

    def history(self, key: str, n: int = 50) -> list[dict[str, Any]]:
        """The last `n` checkpoints of a key, newest first, as `{"id": ..., "ts": seconds}`."""
        arguments.limit(n)
        return [
            {"id": header.checkpoint_id, "ts": header.created_at.timestamp()}
            for header in self._line(key, n)
        ]

    def diff(
        self,
        key: str,
        *,
        agent: Checkpointable | None = None,
        checkpoint_id_a: str | None = None,
        checkpoint_id_b: str | None = None,
    ) -> Differences:
        """What changed, by field: from a checkpoint to an object, or from one to another.

        The checkpoint that is not named is the newest of the key. An older state is migrated
        before it is compared with an object.
        """
        if agent is None and checkpoint_id_a is None:
            raise TypeError("diff(key, ...) needs agent= or checkpoint_id_a=.")
        if agent is not None and checkpoint_id_b is not None:
            raise TypeError("diff(key, agent=) compares with one checkpoint: checkpoint_id_a=.")
        old = _of_one(key, self._state(key, checkpoint_id_a, None))
        if agent is not None:
            return differences(migrated(old, _checked(agent)), agent.state_dict())
        return differences(old, _of_one(key, self._state(key, checkpoint_id_b, None)))

    def rollback_context(self, key: str, *agents: Checkpointable) -> Rollback:
        """Save now, and give the objects this state back if the block raises; it goes on raising.

        Works with `with` and `async with`, nests, and takes any number of objects, which are kept
        together. Objects inside them are the same ones afterwards. Checkpoints stay; what else
        happened in the block is not undone.
        """
        if not agents:
            raise TypeError("rollback_context(key, agent, ...) needs an object.")
        return Rollback(self, check_name(key, "key"), tuple(map(_checked, agents)))

    def delete(self, key: str) -> bool:
        """Remove a key with its whole history, all of its thread; False if it is not there."""
        return self.client.delete(check_name(key, "key"))

    # for `Rollback` and the decorator, which come in both colours

    async def save_async(self, key: str, agent: Checkpointable) -> str:
        """`save` without blocking the event loop; the state is that of the moment of the call."""
        with _explained():
            return await self.client.aio.save(LANE, **self._saving(key, woven(_checked(agent))))

    def keep(self, key: str, agents: Sequence[Checkpointable]) -> Kept:
        """Save some objects so that the very same ones can be brought back."""
        with _explained():
            made = _marked(agents)
            return Kept(self.client.save(LANE, **self._saving(key, made)), made.objects)

    async def keep_async(self, key: str, agents: Sequence[Checkpointable]) -> Kept:
        """The same without blocking the event loop."""
        with _explained():
            made = _marked(agents)
            saved = await self.client.aio.save(LANE, **self._saving(key, made))
            return Kept(saved, made.objects)

    def bring_back(self, key: str, agents: Sequence[Checkpointable], kept: Kept) -> None:
        """Give objects the state that `keep` found."""
        state = self._state(key, kept.checkpoint_id, None)
        load(state.get(AGENTS, [state]), agents, marked=kept.objects)

    # between states and checkpoints

    @cached_property
    def _key(self) -> Key:
        return self._given or own_key()

    def _saving(self, key: str, made: Woven) -> dict[str, Any]:
        check_name(key, "key")
        state = pickled(made.state, self._key) if self.fmt == "pickle" else made.state
        return {"session_id": key, "execution_state": state}

    def _state(self, key: str, checkpoint_id: str | None, nth: int | None) -> State:
        """A stored state as a graph of plain values; each call gives one of its own."""
        state = self._stored(key, checkpoint_id, nth)
        if PICKLE not in state:
            return graph_of(state)
        if self.fmt != "pickle":
            raise IncompatibleCheckpointError(
                f'the key {key!r} was saved with fmt="pickle", which runs code when it is read.',
                hint='If you trust it, open it with CheckpointManager(..., fmt="pickle").',
            )
        return graph_of(unpickled(state, self._key))

    def _stored(self, key: str, checkpoint_id: str | None, nth: int | None) -> State:
        check_name(key, "key")
        if checkpoint_id is not None and nth is not None:
            raise TypeError("give checkpoint_id= or nth=, not both.")
        back = _count(nth)
        ref = checkpoint_id or str(Address(key, LANE, "back", back))
        try:
            found = self.client.restore(ref)
        except CheckpointNotFoundError as error:
            raise self._not_found(key, checkpoint_id, back, error) from None
        if (found.session_id, found.agent_id) != (key, LANE):
            raise CheckpointNotFoundError(
                f"checkpoint {checkpoint_id} belongs to {found.session_id!r}, not to the key "
                f"{key!r}."
            )
        state: State = found.execution_state
        return state

    def _not_found(
        self, key: str, checkpoint_id: str | None, back: int, error: CheckpointNotFoundError
    ) -> CheckpointNotFoundError:
        if checkpoint_id is not None:
            return error
        count = len(self._line(key, back + 1))
        if count:
            return CheckpointNotFoundError(
                f"the key {key!r} has {count} checkpoints, and nth={back} was asked for.",
                hint="nth counts back from 0, the newest.",
            )
        some = ", ".join(map(repr, self.list_keys()[:10])) or "none"
        return CheckpointNotFoundError(
            f"nothing is saved under the key {key!r} in {self.client.url}.",
            hint=f"Keys that are there: {some}.",
        )

    def _line(self, key: str, count: int) -> list[Header]:
        """The newest checkpoint of a key and those that it follows."""
        ref = str(Address(check_name(key, "key"), LANE, "head"))
        found: list[Header] = []
        after: str | None = None
        while len(found) < count:
            try:
                page = self.client.walk(ref, limit=min(PAGE, count), after=after)
            except CheckpointNotFoundError:
                return found
            found += [each for each in page if isinstance(each, Header)]
            after = page.next
            if after is None:
                break
        return found[:count]


def _opened(backend: object, path: str | os.PathLike[str] | None) -> BlockingClient:
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
    if not isinstance(agent, Checkpointable):
        raise TypeError(
            f"{type(agent).__name__} does not derive from Checkpointable. Write "
            f"`class {type(agent).__name__}(Checkpointable)`."
        )
    return agent


def _count(nth: int | None) -> int:
    if nth is None:
        return 0
    if type(nth) is not int or nth < 0:
        raise ValueError(f"nth= counts back from 0, the newest; it cannot be {nth!r}.")
    return nth


def _of_one(key: str, state: State) -> State:
    if AGENTS in state:
        raise IncompatibleCheckpointError(
            f"the key {key!r} holds {len(state[AGENTS])} objects that a rollback_context kept "
            "together; only that can bring them back.",
            hint="Load another checkpoint of the key: nth=1, or checkpoint_id=.",
        )
    return state


def _marked(agents: Sequence[Stateful]) -> Woven:
    if len(agents) == 1:
        return woven(agents[0], marked=True)
    return woven_together(agents, marked=True)


@contextmanager
def _explained() -> Iterator[None]:
    """Say what to do about a value that cannot be kept, in the words of this door."""
    try:
        yield
    except SerializationError as error:
        if error.hint == LEAVE_OUT:
            raise
        hint = f'{LEAVE_OUT} fmt="pickle" keeps objects of any class that pickle can.'
        raise SerializationError(error.message, path=error.path, hint=hint) from None
    except RecursionError:
        raise SerializationError(
            "the objects nest too deeply to be stored.",
            path="state",
            hint="Let them be reached by an id, through a dict, instead of through each other.",
        ) from None
