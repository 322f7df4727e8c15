"""The blocking twin of `Run`: the same methods without await."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Self

from lastgood import arguments
from lastgood.colours import BlockingOnly
from lastgood.driver import blocking
from lastgood.runs import Run, S


def _mirrored(name: str) -> Any:
    """A read-only attribute of the async twin."""
    return property(lambda self: getattr(self._direct, name))


class BlockingRun(BlockingOnly, Generic[S]):
    """The blocking twin of `Run`: the same attributes, and its methods without `await`."""

    __reduce__ = arguments.not_picklable

    def __init__(self, run: Run[S]) -> None:
        self._direct = run

    def __enter__(self) -> Self:
        _enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _exit(self, kind, error, trace)

    @property
    def state(self) -> S:
        """The working copy: at first the state of the last good step, else `initial`, else None."""
        return self._direct.state

    @state.setter
    def state(self, value: S) -> None:
        self._direct.state = value

    session_id: str = _mirrored("session_id")
    agent_id: str = _mirrored("agent_id")
    run_id: str = _mirrored("run_id")
    branch: str | None = _mirrored("branch")
    base: str | None = _mirrored("base")
    step_index: int | None = _mirrored("step_index")
    attempt: int = _mirrored("attempt")
    is_new: bool = _mirrored("is_new")
    resumed: bool = _mirrored("resumed")

    save = blocking(Run[S].save)
    append = blocking(Run.append)
    finish = blocking(Run.finish)


_enter = blocking(Run.__aenter__)
_exit = blocking(Run.__aexit__)
