"""A checkpointer as somebody would write it: a subclass with the thirteen methods, on dicts."""

import asyncio
import copy
from typing import Any

from lastgood import ThreadOwnerError
from lastgood.checkpointers import BaseCheckpointer, Message, ThreadInfo


class DictCheckpointer(BaseCheckpointer[Any]):
    def __init__(self) -> None:
        self.threads: dict[str, dict[str, Any]] = {}

    def _look(self, config: Any) -> dict[str, Any]:
        if not config.get("thread_id"):
            raise ValueError("thread_id is missing")
        found = self.threads.get(config["thread_id"])
        if found is None or config.get("user_id") not in (None, found["user"]):
            return {"messages": {}}
        return found

    def _write(self, config: Any) -> dict[str, Any]:
        self._look(config)
        new = {"user": config.get("user_id"), "messages": {}}
        found = self.threads.setdefault(config["thread_id"], new)
        if config.get("user_id") not in (None, found["user"]):
            raise ThreadOwnerError("not yours")
        return found

    async def asetup(self) -> Any:
        await asyncio.sleep(0)

    async def aput_state(self, config: Any, state: Any) -> Any:
        thread = self._write(config)
        thread["state"] = copy.deepcopy(state)
        thread.pop("cache", None)
        return state

    async def aget_state(self, config: Any) -> Any:
        await asyncio.sleep(0)  # as one that awaits a server
        return copy.deepcopy(self._look(config).get("state"))

    async def aclear_state(self, config: Any) -> Any:
        if self._look(config).get("user", self) is not self:
            self._write(config).pop("state", None)
            self._write(config).pop("cache", None)

    async def aput_state_cache(self, config: Any, state: Any) -> Any:
        self._write(config)["cache"] = copy.deepcopy(state)

    async def aget_state_cache(self, config: Any) -> Any:
        return copy.deepcopy(self._look(config).get("cache"))

    async def aput_messages(self, config: Any, messages: Any) -> Any:
        await asyncio.sleep(0)
        stored = self._write(config)["messages"]
        stored.update({message.message_id: message for message in messages})

    async def aget_messages(
        self, config: Any, search: str | None = None, offset: Any = 0, limit: Any = 50
    ) -> list[Message]:
        found = list(self._look(config)["messages"].values())
        found = [message for message in found if (search or "") in message.text]
        return found[offset : offset + limit]

    async def aget_message(self, config: Any, message_id: str) -> Message | None:
        found: Message | None = self._look(config)["messages"].get(message_id)
        return found

    async def adelete_message(self, config: Any, message_id: str) -> Any:
        self._look(config)["messages"].pop(message_id, None)

    async def aget_threads(
        self, config: Any, search: str | None = None, offset: Any = 0, limit: Any = 50
    ) -> list[ThreadInfo]:
        user = config.get("user_id")
        found = [
            ThreadInfo(id, user_id=thread["user"])
            for id, thread in self.threads.items()
            if (search or "") in id and user in (None, thread["user"])
        ]
        return found[offset : offset + limit]

    async def aget_thread(self, config: Any) -> ThreadInfo | None:
        found = self._look(config)
        return ThreadInfo(config["thread_id"], user_id=found["user"]) if "user" in found else None

    async def adelete_thread(self, config: Any) -> Any:
        if self._look(config).get("user", self) is not self:
            del self.threads[config["thread_id"]]
