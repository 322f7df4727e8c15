"""`@checkpoint`: an object is saved after every so many calls of a function that works on it.

Owns the counting and which argument is meant. Must not know how a save is done. Invariant: the
function's result, awaited or not, and its exceptions reach the caller unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from functools import partial, wraps
from itertools import count
from typing import Any, TypeVar

from lastgood.errors import an
from lastgood.ids import check_name
from lastgood.objects.checkpointable import Checkpointable
from lastgood.objects.manager import CheckpointManager

F = TypeVar("F", bound=Callable[..., Any])
KeyOf = Callable[..., str]
AWAITED = "key= is asked before each call and cannot be awaited: make it a def."


def checkpoint(
    manager: CheckpointManager,
    key: str | KeyOf,
    every: int = 1,
    *,
    on_exception: bool = False,
) -> Callable[[F], F]:
    """Decorate a function so that an object is saved after every `every`-th call.

    The object is the first Checkpointable among the arguments, `self` included. Functions, methods
    and coroutine functions can be decorated. If a call returns something awaitable, that is awaited
    before the save. `key` may be a function of the arguments. Calls are counted for each key, and
    only those that return. With `on_exception=True` the object is also saved, as it is then,
    whenever a call raises. The exception goes on; if that save fails, a note on it says so.
    """
    if type(every) is not int or every < 1:
        raise ValueError(f"every= must be a number of calls from 1 on, not {every!r}")
    if not isinstance(manager, CheckpointManager):
        raise TypeError(
            f"@checkpoint saves with a CheckpointManager, not with {an(type(manager).__name__)}: "
            "@checkpoint(CheckpointManager(...), key=...)"
        )
    if _is_awaited(key):
        raise TypeError(AWAITED)
    plan = _Plan(manager, key if callable(key) else check_name(key, "key"), every, on_exception)

    def decorate(function: F) -> F:
        _check(function)
        make = plan.coroutine if inspect.iscoroutinefunction(function) else plan.function
        return make(function)  # type: ignore[return-value]

    return decorate


def _is_awaited(key: object) -> bool:
    """Whether a call gives a coroutine, of a function or of an object with such a `__call__`."""
    while isinstance(key, partial):
        key = key.func
    return inspect.iscoroutinefunction(key) or inspect.iscoroutinefunction(type(key).__call__)


def _check(function: object) -> None:
    """Raise TypeError for what cannot be called as a function that works on its arguments."""
    kind = type(function).__name__
    if isinstance(function, classmethod | staticmethod):
        raise TypeError(f"@checkpoint was put on a {kind}. Write it below @{kind}, not above.")
    if isinstance(function, type):
        name = function.__name__
        raise TypeError(f"@checkpoint was put on the class {name}. Put it on one of its methods.")
    if not callable(function) or not hasattr(function, "__qualname__"):
        raise TypeError(f"@checkpoint is for functions, not for a {kind}. Put it on one with def.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _unfinished(function.__qualname__)


def _unfinished(name: str) -> TypeError:
    return TypeError(
        f"{name} is a generator: its call returns before its work is done. Call manager.save() "
        "inside it."
    )


class _Plan:
    """When to save what, for one decorated function."""

    def __init__(
        self, manager: CheckpointManager, key: str | KeyOf, every: int, on_exception: bool
    ) -> None:
        self.manager = manager
        self.key = key
        self.every = every
        self.caught: tuple[type[BaseException], ...] = (BaseException,) if on_exception else ()
        self.calls: dict[str, Iterator[int]] = {}

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            key, agent = self._meant(function, args, kwargs)
            try:
                result = function(*args, **kwargs)
            except self.caught as error:
                self._save_after(error, key, agent)
                raise
            if inspect.isawaitable(result):  # a wrapper may hide what it wraps
                return self._awaited(result, key, agent)
            if inspect.isgenerator(result) or inspect.isasyncgen(result):
                raise _unfinished(function.__qualname__)
            if self._is_due(key):
                self.manager.save(key, agent)
            return result

        return call

    def coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        called = self.function(function)

        @wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await called(*args, **kwargs)

        return call

    async def _awaited(self, result: Awaitable[Any], key: str, agent: Checkpointable) -> Any:
        try:
            found = await result
        except self.caught as error:
            self._save_after(error, key, agent)
            raise
        if self._is_due(key):
            await self.manager._keeper.save_async(key, agent)
        return found

    def _save_after(self, error: BaseException, key: str, agent: Checkpointable) -> None:
        """Save at once, as a cancelled task may not get to await anything; the error goes on."""
        try:
            self.manager.save(key, agent)
        except Exception as failure:
            told = f"{type(failure).__name__}: {failure}"
            error.add_note(f"@checkpoint could not save it under {key!r}: {told}")

    def _is_due(self, key: str) -> bool:
        if self.every == 1:
            return True
        # Each of the two calls is one step of the interpreter: threads lose no count.
        return next(self.calls.setdefault(key, count(1))) % self.every == 0

    def _meant(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, Checkpointable]:
        for value in (*args, *kwargs.values()):
            if isinstance(value, Checkpointable):
                key: object = self.key if isinstance(self.key, str) else self.key(*args, **kwargs)
                if inspect.iscoroutine(key):
                    key.close()
                    raise TypeError(AWAITED)
                return check_name(key, "key"), value
        raise TypeError(
            f"{function.__qualname__} was called without a Checkpointable, so there is nothing to "
            "save. Pass one, or leave @checkpoint away."
        )
