"""What a case about checkpointers holds: some in the colour under test, over one set of data.

In the colour "blocking" a checkpointer is a facade whose async methods call the blocking twins
inside the running loop: that they work there is part of what is tested.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from lastgood.checkpointers import BaseCheckpointer, ClientCheckpointer
from lastgood.client import Client
from lastgood.testing.colours import awaitable
from lastgood.testing.harness import BackendHarness
from lastgood.testing.store import Colour, Store

T = TypeVar("T", bound=Callable[..., Any])
Make = Callable[..., BaseCheckpointer[Any]]
Body = Callable[["CheckpointerStore"], Coroutine[Any, Any, None]]


class AwaitableTwin:
    """Looks like the async half of a checkpointer, is its blocking one."""

    def __init__(self, checkpointer: BaseCheckpointer[Any]) -> None:
        self.twin = checkpointer

    def __getattr__(self, name: str) -> Any:
        blocking = getattr(self.twin, name.removeprefix("a"), None)
        is_method = name.startswith("a") and hasattr(self.twin, name) and callable(blocking)
        return awaitable(blocking) if is_method else getattr(self.twin, name)  # type: ignore[arg-type]


class CheckpointerStore:
    """One set of data, and the checkpointers that a case opened on it."""

    def __init__(self, make: Make, colour: Colour, store: Store | None = None) -> None:
        self.colour = colour
        self._make = make
        self._store = store
        self._opened: list[Any] = []

    @property
    def store(self) -> Store:
        """The store under the built-in ones: its clock, its disk, clients on it."""
        assert self._store is not None, "for the cases of the built-in checkpointers"
        return self._store

    async def open(self, **options: Any) -> Any:
        """Another checkpointer on the same data, as another process would have one."""
        made = self._make(**options)
        opened: Any = made if self.colour == "async" else AwaitableTwin(made)
        await opened.asetup()
        self._opened.append(opened)
        return opened

    async def together(self, calls: Sequence[Callable[[], Coroutine[Any, Any, Any]]]) -> list[Any]:
        """Outcomes of calls made at once, by tasks or by threads; errors are given back."""
        if self.colour == "async":
            return list(await asyncio.gather(*(call() for call in calls), return_exceptions=True))
        jobs = [asyncio.to_thread(asyncio.run, call()) for call in calls]
        return list(await asyncio.gather(*jobs, return_exceptions=True))

    async def verify(self) -> None:
        """See that nothing of the store under the built-in ones is damaged or miscounted."""
        client = self.store.client()
        assert (await client.verify(data=True)).clean
        await self.store.close()

    async def close(self) -> None:
        """Close every checkpointer."""
        while self._opened:
            await self._opened.pop().arelease()


def on_backend(harness: BackendHarness, colour: Colour) -> CheckpointerStore:
    """The built-in checkpointer on a registered backend."""

    def make(
        *, on_unserializable: Literal["raise", "drop"] = "raise", **options: Any
    ) -> ClientCheckpointer[Any]:
        client = Client.on(harness.backend(), on_unserializable=on_unserializable)
        return ClientCheckpointer(client, **options)

    return CheckpointerStore(make, colour, Store(harness, colour))


@dataclass(frozen=True, slots=True)
class CheckpointerCase:
    """One promise that checkpointers keep, as a function that runs on any of them."""

    name: str
    body: Body
    builtin: bool
    """Whether it is about more than the thirteen methods."""


CASES: dict[str, CheckpointerCase] = {}


def case(*, builtin: bool) -> Callable[[T], T]:
    """Make a body a case."""

    def register(body: T) -> T:
        assert body.__name__ not in CASES, body.__name__
        CASES[body.__name__] = CheckpointerCase(body.__name__, cast(Body, body), builtin)
        return body

    return register
