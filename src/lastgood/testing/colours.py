"""The blocking client as an awaitable one, so that one body runs in both colours.

A call blocks inside the running loop: that it works there is part of what is tested.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self

from lastgood.blocking_runs import BlockingRun
from lastgood.client import BlockingClient

Call = Callable[..., Coroutine[Any, Any, Any]]


def awaitable(method: Callable[..., Any]) -> Call:
    """The method as a coroutine function."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return call


class AwaitableClient:
    """Looks like `Client`, is a `BlockingClient`."""

    def __init__(self, client: BlockingClient) -> None:
        self.twin = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.twin, name)
        return awaitable(found) if callable(found) else found

    async def __aenter__(self) -> Self:
        self.twin.__enter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.twin.__exit__(*error)

    def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        return _awaited(self.twin.watch(*args, **kwargs))

    def run(self, *args: Any, **kwargs: Any) -> AwaitableRun:
        return AwaitableRun(self.twin.run(*args, **kwargs))


async def _awaited(values: Iterator[Any]) -> AsyncGenerator[Any, None]:
    """A blocking iterator as an async one; closing it closes that one."""
    try:
        for value in values:
            yield value
    finally:
        values.close()  # type: ignore[attr-defined]


class AwaitableRun:
    """Looks like `Run`, is a `BlockingRun`."""

    def __init__(self, run: BlockingRun[Any]) -> None:
        object.__setattr__(self, "twin", run)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.twin, name)
        return awaitable(found) if name in ("save", "append", "finish") else found

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.twin, name, value)

    async def __aenter__(self) -> Self:
        self.twin.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.twin.__exit__(kind, error, trace)
