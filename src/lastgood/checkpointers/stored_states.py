"""States in a store: each one that is put is a checkpoint of its thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from lastgood.checkpointers import operations
from lastgood.checkpointers.base import StateT
from lastgood.checkpointers.classes import as_state
from lastgood.checkpointers.config import Config, Where
from lastgood.checkpointers.operations import AGENT, Head
from lastgood.checkpointers.rules import CacheState, PutState
from lastgood.checkpointers.stored_messages import StoredMessages
from lastgood.checkpointers.writers import Seen
from lastgood.core import About, Captured
from lastgood.driver import Operation
from lastgood.messages import Message
from lastgood.model import HEAD
from lastgood.rules import Save

T = TypeVar("T")

CLEARED = "clear_state"
"""The name of the step that stands in the place of states which were removed."""


class StoredStates(StoredMessages[StateT]):
    """The methods about states."""

    async def aput_state(self, config: Config, state: StateT) -> StateT:
        return await self.aput_checkpoint(config, state)

    async def aput_checkpoint(
        self,
        config: Config,
        state: StateT,
        messages: Sequence[Message] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> StateT:
        """Keep a state and messages in one commit; raises StaleWriterError.

        That is: this writer has read the thread, and somebody else put a state since.
        """
        where = self._where(config)
        seen = self._writers.expects(config, where)
        captured = self._core.capture(_checked(state), where.thread, AGENT, seen.version or b"")
        save = self._save(where, seen, captured, _node_of(state))
        intent = PutState(save, self._append(messages or (), metadata), seen.doubts)
        operation = operations.put_state(self._core, where, intent)
        put = await self._put(config, where, save, operation)
        self._writers.wrote(config, where, put.thread, put.version)
        return state

    async def _put(self, config: Config, where: Where, save: Save, operation: Operation[T]) -> T:
        """Run what saves a state; if it fails, it may be saved all the same, or only later."""
        try:
            return await self._written(operation)
        except BaseException:
            self._writers.doubts(config, where, save.draft.id)
            raise

    def _save(self, where: Where, seen: Seen, captured: Captured, step: str | None) -> Save:
        about = About(
            agent=AGENT,
            step_name=step,
            metadata={} if where.run is None else {"run_id": where.run},
        )
        return Save(
            tenant=self._core.tenant,
            thread=where.thread,
            draft=self._core.draft(captured, about),
            parent=HEAD if seen.version is None else seen.version or None,
            on_conflict="reject",
            holder=seen.thread,
            owner=where.owner,
        )

    async def aget_state(self, config: Config) -> StateT | None:
        return await self._read(config)

    async def aget_state_cache(self, config: Config) -> StateT | None:
        """The state that was cached last, or the newest one if that was put since."""
        return await self._read(config, fresh=True)

    async def _read(self, config: Config, *, fresh: bool = False) -> StateT | None:
        where = self._where(config)
        head = await self._driver.run(operations.head(self._core, where, fresh=fresh))
        self._writers.read(config, where, Seen(head.thread, head.version))
        state: StateT | None = as_state(
            self._core.codec, self._value(head), self.state_type, where.thread
        )
        return state

    def _value(self, head: Head) -> object:
        if head.cached is not None:
            return self._core.codec.unpack(head.cached)
        return None if head.loaded is None else self._core.built(head.loaded).state

    async def aput_state_cache(self, config: Config, state: StateT) -> bool:
        """Keep a state for `cache_ttl` seconds beside the newest one, until another is put.

        Gives False, and keeps nothing, if somebody else put a state since this writer read.
        """
        where = self._where(config)
        seen = self._writers.expects(config, where)
        value = self._core.hooked(_checked(state))
        intent = CacheState(
            tenant=self._core.tenant,
            thread=where.thread,
            agent=AGENT,
            root=self._core.encode(value, where.thread, AGENT, seen.version or b"").tree.hash,
            value=self._core.codec.pack(value),
            ttl=self._cache_ttl,
            version=seen.version,
            holder=seen.thread,
            owner=where.owner,
        )
        return bool((await self._written(operations.commit(self._core, where, intent))).answer)

    async def aclear_state(self, config: Config) -> bool:
        """Remove every state of the thread, for all readers at once; whether there was one.

        An empty step stays in their place: a writer that is behind gets StaleWriterError.
        """
        where = self._where(config)
        known = Seen(self._writers.expects(config, where).thread)
        empty = self._core.encode(None, where.thread, AGENT)
        cleared = self._save(where, known, empty, CLEARED)
        operation = operations.clear_state(self._core, where, cleared)
        put = await self._put(config, where, cleared, operation)
        if put is not None:
            self._writers.read(config, where, Seen(put.thread, put.version))
        return put is not None


def _node_of(state: object) -> str | None:
    """The node at which a graph's state stands, for the name of the step."""
    meta = getattr(state, "execution_meta", None)
    node = getattr(meta, "current_node", None)
    return node if isinstance(node, str) and node.isprintable() and 0 < len(node) < 60 else None


def _checked(state: Any) -> Any:
    if state is None:
        raise TypeError("a state cannot be None. To remove the states of a thread: aclear_state")
    return state
