"""Notes beside the states of a thread: results of tool calls, and requests to stop."""

from __future__ import annotations

from typing import Any

from lastgood.checkpointers import operations
from lastgood.checkpointers.base import StateT
from lastgood.checkpointers.config import Config
from lastgood.checkpointers.rules import STOP, TOOLS
from lastgood.checkpointers.stored import Stored
from lastgood.item_rules import ItemDraft
from lastgood.messages import as_text

STOP_SECONDS = 3600.0
"""A request to stop that nobody saw is over after this time."""


class StoredNotes(Stored[StateT]):
    """The methods about tool results and requests to stop."""

    async def aput_tool_result(self, config: Config, tool_call_id: str, result: Any) -> Any:
        """Note what came of a tool call; gives back the result that stands: the first one."""
        where = self._where(config)
        key = as_text(tool_call_id, "tool_call_id").encode()
        draft = ItemDraft(
            TOOLS, key, self._core.codec.pack_whole(result, "result"), first_wins=True
        )
        holder = self._writers.expects(config, where).thread
        changes = operations.change(self._core, where, puts=(draft,), holder=holder)
        before = (await self._written(changes)).before.get(draft.place)
        return result if before is None else self._core.codec.unpack(before.value)

    async def aget_tool_result(self, config: Config, tool_call_id: str) -> Any:
        where = self._where(config)
        place = TOOLS, as_text(tool_call_id, "tool_call_id").encode()
        found = await self._driver.run(operations.item(self._core, where, place))
        self._writers.met(config, where, found.thread)
        return self._core.codec.unpack(found.values[0]) if found.values else None

    async def arequest_stop(self, config: Config) -> bool:
        """Ask whoever runs the thread to stop; False if there is no such thread."""
        where, draft = self._where(config), ItemDraft(*STOP, b"\x01", ttl=STOP_SECONDS)
        holder = self._writers.expects(config, where).thread
        changes = operations.change(self._core, where, puts=(draft,), opens=False, holder=holder)
        return (await self._written(changes)).done

    async def ais_stop_requested(self, config: Config) -> bool:
        where = self._where(config)
        return bool((await self._driver.run(operations.item(self._core, where, STOP))).values)

    async def aclear_stop_request(self, config: Config) -> bool:
        """Take the request back; whether there was one."""
        where = self._where(config)
        holder = self._writers.expects(config, where).thread
        changes = operations.change(self._core, where, drops=(STOP,), opens=False, holder=holder)
        return STOP in (await self._written(changes)).before
