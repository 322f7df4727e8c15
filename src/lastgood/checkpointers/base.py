"""The interface of checkpointers: thirteen async methods, and a blocking twin for each.

A checkpointer keeps, for every thread, its newest state, its messages and what is known of it. All
calls take a `config`, a dict with a `thread_id`; with a `user_id`, they see and change only that
user's threads. `lastgood.testing` has the cases that every checkpointer must pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, get_args

from lastgood.background import run_in_background
from lastgood.checkpointers.classes import check_state_type, is_state_type
from lastgood.checkpointers.config import Config
from lastgood.messages import Message, with_metadata
from lastgood.model import ThreadInfo

if TYPE_CHECKING:  # who names no class gets any, and need not annotate; TypeVar has it from 3.13 on
    from typing_extensions import TypeVar as WithDefault

    StateT = WithDefault("StateT", default=Any)
else:
    StateT = TypeVar("StateT")
T = TypeVar("T")
P = ParamSpec("P")

ALL = 1 << 31
"""More than there are: a limit for those who gave none."""


def twin(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The blocking twin of an async method, whichever class defines that one."""
    name = method.__name__

    @wraps(method)
    def blocking(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._blocked(name, *args, **kwargs)  # type: ignore[no-any-return]

    blocking.__name__ = name.removeprefix("a")
    blocking.__dict__.pop("__isabstractmethod__", None)
    return blocking


def _page(offset: int | None, limit: int | None) -> tuple[int, int]:
    return offset or 0, ALL if limit is None else limit


class BaseCheckpointer(ABC, Generic[StateT]):
    """Keeps the threads of an agent: their states, their messages and what is known of them.

    A subclass defines the thirteen abstract methods. The blocking twins of all methods, which are
    named without the leading "a", work in scripts, in threads and inside a running event loop.
    """

    _bound: type | None = None

    # the class of states

    @property
    def state_type(self) -> type | None:
        """The class that states come back as; None means the one that they were saved as."""
        if self._bound is not None:
            return self._bound
        declared = get_args(getattr(self, "__orig_class__", None))
        return declared[0] if declared and is_state_type(declared[0]) else None

    def bind_state_type(self, state_type: type) -> None:
        """Set the class that states come back as; a graph does so when it is compiled.

        Raises TypeError for a class that is not a dataclass, a pydantic model or a dict, and
        ValueError if another class is bound already: one checkpointer serves one class.
        """
        bound = self._bound
        if bound not in (None, check_state_type(state_type)):
            assert bound is not None
            raise ValueError(
                f"this {type(self).__name__} is bound to {bound.__qualname__} and cannot serve "
                f"{state_type.__qualname__} too. Make another checkpointer on the same store."
            )
        self._bound = state_type

    # setting up

    @abstractmethod
    async def asetup(self) -> Any:
        """Get ready: open the store and make what is missing; this may be called again."""

    async def arelease(self) -> Any:
        """Release connections."""
        return None

    # states

    @abstractmethod
    async def aput_state(self, config: Config, state: StateT) -> StateT:
        """Save a state as the newest one of the thread and return it."""

    @abstractmethod
    async def aget_state(self, config: Config) -> StateT | None:
        """Return the newest state of the thread, or None if it has none."""

    @abstractmethod
    async def aclear_state(self, config: Config) -> Any:
        """Remove every state of the thread, the cached one included; messages stay."""

    @abstractmethod
    async def aput_state_cache(self, config: Config, state: StateT) -> Any:
        """Cache a state of the thread for a while, at most until the next state is put."""

    @abstractmethod
    async def aget_state_cache(self, config: Config) -> StateT | None:
        """Return the state that was cached last.

        The built-in checkpointers return the newest state if none is cached or one was put since.
        """

    async def aput_checkpoint(
        self,
        config: Config,
        state: StateT,
        messages: Sequence[Message] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> StateT:
        """Save a state and messages, and return the state; `metadata` is added to each message.

        The built-in checkpointers save all in one commit; this method saves the state first.
        """
        await self.aput_state(config, state)
        if messages:
            await self.aput_messages(config, [with_metadata(each, metadata) for each in messages])
        return state

    # messages

    @abstractmethod
    async def aput_messages(self, config: Config, messages: Sequence[Message]) -> Any:
        """Append messages to the thread; one whose id is there already is not added twice."""

    @abstractmethod
    async def aget_messages(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[Message]:
        """Return the messages of the thread in order; with `search`, those that have that text."""

    @abstractmethod
    async def aget_message(self, config: Config, message_id: str) -> Message | None:
        """Return the message with an id, or None if the thread has none."""

    @abstractmethod
    async def adelete_message(self, config: Config, message_id: str) -> Any:
        """Remove the message with an id."""

    # threads

    @abstractmethod
    async def aget_threads(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[ThreadInfo]:
        """Return the threads; with `search`, those that have that text in their id or name."""

    @abstractmethod
    async def aget_thread(self, config: Config) -> ThreadInfo | None:
        """Return what is known of the thread, or None if there is no such thread."""

    @abstractmethod
    async def adelete_thread(self, config: Config) -> Any:
        """Remove the thread, with its states and messages."""

    async def aput_thread(self, config: Config, thread_info: ThreadInfo) -> Any:
        """Give the thread a name, and keep metadata about it."""
        raise NotImplementedError(f"{type(self).__name__} keeps no names of threads")

    # tool results, and requests to stop

    async def aput_tool_result(self, config: Config, tool_call_id: str, result: Any) -> Any:
        """Keep the result of a tool call, so that the call is not made a second time."""
        raise NotImplementedError(f"{type(self).__name__} keeps no tool results")

    async def aget_tool_result(self, config: Config, tool_call_id: str) -> Any:  # noqa: ARG002
        """Return the result that was kept for a tool call, or None if there is none."""
        return None

    async def arequest_stop(self, config: Config) -> Any:
        """Ask whoever runs the thread to stop."""
        raise NotImplementedError(f"{type(self).__name__} keeps no requests to stop")

    async def ais_stop_requested(self, config: Config) -> bool:  # noqa: ARG002
        """Return whether somebody has asked that the thread stop."""
        return False

    async def aclear_stop_request(self, config: Config) -> Any:  # noqa: ARG002
        """Withdraw the request to stop."""
        return None

    # other names for the same

    async def alist_messages(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[Message]:
        """The same as `aget_messages`, to which it always passes numbers as offset and limit."""
        return await self.aget_messages(config, search, *_page(offset, limit))

    async def alist_threads(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[ThreadInfo]:
        """The same as `aget_threads`, to which it always passes numbers as offset and limit."""
        return await self.aget_threads(config, search, *_page(offset, limit))

    async def aclean_thread(self, config: Config) -> Any:
        """The same as `adelete_thread`."""
        return await self.adelete_thread(config)

    # blocking twins

    def _blocked(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """How a twin runs its method: a subclass may know a shorter way."""
        return run_in_background(getattr(self, name)(*args, **kwargs))

    setup = twin(asetup)
    release = twin(arelease)
    put_state = twin(aput_state)
    get_state = twin(aget_state)
    clear_state = twin(aclear_state)
    put_state_cache = twin(aput_state_cache)
    get_state_cache = twin(aget_state_cache)
    put_checkpoint = twin(aput_checkpoint)
    put_messages = twin(aput_messages)
    get_messages = twin(aget_messages)
    get_message = twin(aget_message)
    delete_message = twin(adelete_message)
    get_threads = twin(aget_threads)
    get_thread = twin(aget_thread)
    delete_thread = twin(adelete_thread)
    put_thread = twin(aput_thread)
    put_tool_result = twin(aput_tool_result)
    get_tool_result = twin(aget_tool_result)
    request_stop = twin(arequest_stop)
    is_stop_requested = twin(ais_stop_requested)
    clear_stop_request = twin(aclear_stop_request)
    list_messages = twin(alist_messages)
    list_threads = twin(alist_threads)
    clean_thread = twin(aclean_thread)
