"""What the methods of a checkpointer on a store share: the client's core, and its writers.

They check what they are given, encode it before anything suspends, and turn what was stored into
values again; the work between is in `operations`, run by a driver.
"""

from __future__ import annotations

from typing import Any, TypeVar

from lastgood.checkpointers.base import ALL, BaseCheckpointer, StateT
from lastgood.checkpointers.config import Config, Where, read_config
from lastgood.checkpointers.writers import Writers
from lastgood.client import BlockingClient, Client
from lastgood.driver import Direct, Driver, Operation, is_blocking, needs_a_loop, run_blocking
from lastgood.errors import StaleWriterError, ThreadDeletedError, an
from lastgood.model import seconds

T = TypeVar("T")

DAY = 86400.0
READ_AGAIN = (
    "Read it again (aget_state; aget_messages, if states are not read here), then put what should "
    "be there now."
)


class Stored(BaseCheckpointer[StateT]):
    """A checkpointer on a client."""

    def __init__(
        self, client: Client, *, cache_ttl: float = DAY, enforce_user_isolation: bool = True
    ) -> None:
        if not isinstance(client, Client | BlockingClient):
            raise TypeError(
                f"{type(self).__name__} stands on a Client, not on {an(type(client).__name__)}: "
                f"{type(self).__name__}(Client.open(address))"
            )
        self.client = client
        self._core = client._core
        self._direct = Direct()
        self._writers = Writers()
        self._cache_ttl = seconds(cache_ttl, "cache_ttl", "Leave it out for a day.") or DAY
        self._isolates = enforce_user_isolation

    @property
    def _driver(self) -> Driver:
        """That of the caller's colour."""
        return self._direct if is_blocking() else self._core.driver

    def _blocked(self, name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return run_blocking(getattr(self, name)(*args, **kwargs))
        except RuntimeError as error:
            if needs_a_loop(error):
                raise _awaits_too_much(f"{type(self).__name__}.{name}") from error
            raise

    async def asetup(self) -> None:
        await self._driver.run(self._core.backend.census(self._core.tenant))

    async def arelease(self) -> None:
        await self._driver.close(self._core.backend.close)
        self._core.driver.rest()

    def _where(self, config: Config) -> Where:
        where = read_config(config)
        if where.owner is None:
            where = where._replace(owner=self._core.options.user)
        return where if self._isolates else where._replace(user=None)

    async def _written(self, operation: Operation[T]) -> T:
        """Run a write; one that was refused is told what to do in the words of this door."""
        try:
            return await self._driver.run(operation)
        except (StaleWriterError, ThreadDeletedError) as error:
            error.hint = READ_AGAIN
            raise


def _awaits_too_much(name: str) -> RuntimeError:
    blocking = name.rpartition(".")[2].removeprefix("a")
    return RuntimeError(
        f"{name} awaits something that needs an event loop, and {blocking} runs it without one. "
        f"Await {name} from async code, or define {blocking} in that class too. To have blocking "
        "methods with a loop of their own, derive from BaseCheckpointer."
    )


def offset_of(offset: int | None) -> int:
    """How many to leave out at the front."""
    if offset is None:
        return 0
    if type(offset) is not int or offset < 0:
        raise ValueError(f"offset must be an int from 0 on, not {offset!r}")
    return min(offset, ALL)
