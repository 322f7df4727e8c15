"""Between states and checkpoints: how a state of objects lies in the store, and is found there.

Owns the lane, the format and the signing. Must not know which methods users call. Invariant: each
state that is read is a graph of plain values that belongs to nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, TypeVar

from lastgood.checkpoints import Checkpoint, pack_mapping
from lastgood.client import BlockingClient
from lastgood.core import About
from lastgood.driver import Direct, Driver, is_blocking, run_blocking
from lastgood.errors import (
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    IncompatibleCheckpointError,
    SerializationError,
    TransientStorageError,
)
from lastgood.ids import check_name
from lastgood.model import Header
from lastgood.objects.binding import load
from lastgood.objects.copying import FLATTEN, LEAVE_OUT
from lastgood.objects.fields import Stateful
from lastgood.objects.forms import Forms
from lastgood.objects.keys import Key, own_key
from lastgood.objects.leaving import leaving, names_in
from lastgood.objects.marking import marking, meaning, without_marks
from lastgood.objects.models import count_as_set, names_set
from lastgood.objects.numbering import Numbering
from lastgood.objects.overtaking import TRIES, InOrder, Order, save_in_order
from lastgood.objects.pickles import pickled, unpickled
from lastgood.objects.rollback import Kept
from lastgood.objects.states import AGENTS, PICKLE, SHARED, State
from lastgood.objects.unweaving import Graph, graph_of
from lastgood.objects.weaving import woven, woven_together
from lastgood.objects.whereabouts import in_the_objects
from lastgood.refs import Address
from lastgood.rules import Save

T = TypeVar("T")

Format = Literal["json", "pickle"]
LANE = "object"
"""The lane of a thread in which objects are kept; those of runs and saves are others."""
PAGE = 200
KEYS = 64
"""Of so many keys the forms of their states are remembered, and what has which number there."""
_FORMS: Mapping[str, type] = {SHARED: dict, AGENTS: list, PICKLE: dict}


class Keeper:
    """The states of objects in one store."""

    def __init__(self, client: BlockingClient, fmt: Format, key: Key | None) -> None:
        self.client = client
        self.fmt = fmt
        self._given = key
        self._direct = Direct()
        self._order = Order()
        self._before = lru_cache(maxsize=KEYS)(lambda _key: (Forms(), Numbering()))

    # writing, in both colours: the state is taken before anything suspends

    def save(self, key: str, agent: Stateful) -> str:
        """Keep the state of an object."""
        return run_blocking(self.save_async(key, agent))

    async def save_async(self, key: str, agent: Stateful) -> str:
        """The same without blocking the event loop."""
        with _explained() as trees:

            def taken() -> tuple[State, None]:
                trees[:] = [self._woven(key, agent)]
                return self._signed(trees[0]), None

            return (await self._committed(key, taken))[0]

    def keep(self, key: str, agents: Sequence[Stateful]) -> Kept:
        """Save some objects so that the very same ones can be brought back."""
        return run_blocking(self.keep_async(key, agents))

    async def keep_async(self, key: str, agents: Sequence[Stateful]) -> Kept:
        """The same without blocking the event loop."""
        with _explained() as trees:
            taken = partial(self._keeping, key, agents, trees)
            label, kept = await self._committed(key, taken)
            return kept._replace(checkpoint_id=label)

    async def _committed(self, key: str, taken: Callable[[], tuple[State, T]]) -> tuple[str, T]:
        """Commit a state, taken once more whenever a later one was faster; its checkpoint's id."""
        for _ in range(TRIES):
            number = self._order.next()
            state, beside = taken()
            intent = InOrder(self._intent(key, state), self._order, number)
            self._order.note(intent.save.draft.id, number)
            row = await self._driver.run(save_in_order(self.client._core, intent))
            if row.id == intent.save.draft.id:
                return row.label, beside
        raise TransientStorageError(
            f"{key}: other saves of this manager were faster every time.",
            hint="Save in one place, or less often.",
        )

    def _intent(self, key: str, state: State) -> Save:
        core = self.client._core
        draft = core.draft(core.capture(state, key, LANE), About(LANE))
        return Save(core.tenant, key, draft, owner=core.options.user)

    @property
    def _driver(self) -> Driver:
        """That of the caller's colour."""
        return self._direct if is_blocking() else self.client._core.driver

    def _keeping(
        self, key: str, agents: Sequence[Stateful], trees: list[State]
    ) -> tuple[State, Kept]:
        """What is saved, and the same as bytes of its own.

        What went wrong in a block may be that the store is out of reach: rolling it back must not
        need the store.
        """
        with marking() as objects:
            alone = len(agents) == 1
            trees[:] = [self._woven(key, agents[0]) if alone else woven_together(agents)]
            state = self._signed(trees[0])
        data, losses = pack_mapping(self.client._core.codec, state, "state")
        return state, Kept("", objects, data, names_in(losses), list(map(names_set, objects)))

    def _woven(self, key: str, agent: Stateful) -> State:
        return woven(agent, *self._before(check_name(key, "key")))

    def bring_back(self, agents: Sequence[Stateful], kept: Kept) -> None:
        """Give objects the state that `keep` found."""
        stored: Any = self.client._core.codec.unpack(kept.state)
        tree = unpickled(stored, self._key) if PICKLE in stored else stored
        state, left = graph_of(tree, kept.left)
        with meaning(kept.objects), leaving(left):
            load(state.get(AGENTS, [state]), agents)
        for each, names in zip(kept.objects, kept.names_set, strict=True):
            count_as_set(each, names)

    # reading

    def keys(self) -> list[str]:
        """All keys, sorted."""
        found: list[str] = []
        after: str | None = None
        while True:
            page = self.client.threads(agent_id=LANE, sort="name", limit=PAGE, after=after)
            found += [info.thread_id for info in page]
            after = page.next
            if after is None:
                return sorted(found)

    def has(self, key: str) -> bool:
        """Whether objects were saved under a key; of a damaged thread nobody can say no."""
        try:
            return bool(self.client.branches(key, agent_id=LANE))
        except CheckpointNotFoundError:
            return False
        except CheckpointIntegrityError:
            return True

    @cached_property
    def _key(self) -> Key:
        return self._given or own_key()

    def _signed(self, state: State) -> State:
        """What is stored of a state."""
        return pickled(state, self._key) if self.fmt == "pickle" else state

    def found(self, key: str, checkpoint_id: str | None = None, nth: int | None = None) -> Graph:
        """A stored state as a graph of plain values; each call gives one of its own."""
        stored = self._stored(key, checkpoint_id, nth)
        tree = self._read(key, stored.execution_state)
        state, left = graph_of(tree, names_in(stored.losses))
        return Graph(without_marks(state), left)

    def _read(self, key: str, state: State) -> State:
        if not _is_ours(state):
            raise IncompatibleCheckpointError(
                f"the key {key!r} holds what no CheckpointManager has saved in the lane {LANE!r}.",
                hint="Load another checkpoint of the key, or use manager.client.restore().",
            )
        if PICKLE not in state:
            return state
        if self.fmt != "pickle":
            raise IncompatibleCheckpointError(
                f'the key {key!r} was saved with fmt="pickle", which runs code when it is read.',
                hint='If you trust it, open it with CheckpointManager(..., fmt="pickle").',
            )
        return unpickled(state, self._key)

    def _stored(self, key: str, checkpoint_id: str | None, nth: int | None) -> Checkpoint:
        check_name(key, "key")
        if checkpoint_id is not None and nth is not None:
            raise TypeError("give checkpoint_id= or nth=, not both.")
        back = _count(nth)
        ref = str(Address(key, LANE, "back", back))
        if checkpoint_id is not None:
            ref = check_name(checkpoint_id, "checkpoint_id")
        try:
            found = self.client.restore(ref)
        except CheckpointNotFoundError as error:
            raise self._not_found(key, checkpoint_id, back, error) from None
        if (found.session_id, found.agent_id) != (key, LANE):
            raise CheckpointNotFoundError(
                f"checkpoint {checkpoint_id} belongs to {found.session_id!r}, not to the key "
                f"{key!r}."
            )
        return found

    def _not_found(
        self, key: str, checkpoint_id: str | None, back: int, error: CheckpointNotFoundError
    ) -> CheckpointNotFoundError:
        if checkpoint_id is not None:
            return error
        count = len(self.line(key, back + 1))
        if count:
            return CheckpointNotFoundError(
                f"the key {key!r} has {count} checkpoint{'s' * (count != 1)}, and nth={back} was "
                "asked for.",
                hint="nth counts back from 0, the newest.",
            )
        some = ", ".join(map(repr, self.keys()[:10])) or "none"
        return CheckpointNotFoundError(
            f"nothing is saved under the key {key!r} in {self.client.url}.",
            hint=f"Keys that are there: {some}.",
        )

    def line(self, key: str, count: int) -> list[Header]:
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


def _is_ours(state: object) -> bool:
    """Whether a state has the form of ours, as far as others can tell that theirs has not."""
    return isinstance(state, dict) and all(
        isinstance(state[word], form) for word, form in _FORMS.items() if word in state
    )


def _count(nth: int | None) -> int:
    if nth is None:
        return 0
    if type(nth) is not int or nth < 0:
        raise ValueError(f"nth= counts back from 0, the newest; it cannot be {nth!r}.")
    return nth


@contextmanager
def _explained() -> Iterator[list[State]]:
    """Say what to do about a value that cannot be kept, in the words of this door.

    Gives a list for the tree that is saved.
    """
    trees: list[State] = []
    try:
        yield trees
    except SerializationError as error:
        more = ' fmt="pickle" keeps objects of any class that pickle can.'
        hint = LEAVE_OUT + more * (error.hint != LEAVE_OUT)  # else it was pickled, or copied
        path = in_the_objects(error.path, trees[0]) if trees else error.path
        message = error.message.replace(error.path, path, 1) if error.path else error.message
        raise SerializationError(message, path=path, hint=hint) from error.__cause__
    except RecursionError:
        raise SerializationError(
            "the objects nest too deeply to be stored.", path="state", hint=FLATTEN
        ) from None
