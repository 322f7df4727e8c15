"""Messages in a store: items beside the checkpoints of their thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lastgood import arguments
from lastgood.backend import ItemListing
from lastgood.checkpointers import operations
from lastgood.checkpointers.base import ALL, StateT
from lastgood.checkpointers.config import Config
from lastgood.checkpointers.rules import MESSAGES, Append, MessageDraft
from lastgood.checkpointers.stored import Stored, offset_of
from lastgood.item_rules import searchable
from lastgood.messages import Message, as_text, message_id, spoken, with_metadata


class StoredMessages(Stored[StateT]):
    """The methods about messages."""

    async def aput_messages(
        self,
        config: Config,
        messages: Sequence[Message],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append messages; one with the id of a stored message takes its place.

        Costs the same however many there are. `metadata` is added to that of each message.
        """
        where, append = self._where(config), self._append(messages, metadata)
        if not append.messages:
            return
        holder = self._writers.expects(config, where).thread
        put = await self._written(operations.put_messages(self._core, where, append, holder))
        self._writers.wrote(config, where, put.thread, None)

    def _append(self, messages: Sequence[Message], metadata: Mapping[str, Any] | None) -> Append:
        if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
            raise TypeError(f"messages must be a list of messages, not {type(messages).__name__}")
        more = arguments.items(metadata)
        return Append(tuple(self._draft(m, more, i) for i, m in enumerate(messages)))

    def _draft(self, message: Message, metadata: Mapping[str, Any], place: int) -> MessageDraft:
        what = f"messages[{place}]"
        whole = with_metadata(message, metadata)
        packed = self._core.codec.pack_whole(whole, what)
        return MessageDraft(message_id(message, what), packed, searchable(spoken(message)))

    async def aget_messages(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[Message]:
        """The messages of the thread in order, or those that have `search` in their text.

        The text is looked for letter for letter, but for case; there are no wildcards.
        """
        where = self._where(config)
        text = searchable(arguments.piece(search))
        if search and not text:
            return []  # of NUL alone, which no searched text has
        wanted = ItemListing(
            where.thread,
            MESSAGES,
            contains=text or None,
            offset=offset_of(offset),
            limit=ALL if limit is None else arguments.limit(limit),
            every=True,  # no message has a time to live
        )
        found = await self._driver.run(operations.list_messages(self._core, where, wanted))
        self._writers.looked(config, where, found.thread)
        return [self._message(value) for value in found.values]

    def _message(self, value: bytes) -> Message:
        return self._core.codec.unpack(value)  # type: ignore[return-value]

    async def aget_message(self, config: Config, message_id: str) -> Message | None:
        where, id = self._where(config), as_text(message_id, "message_id")
        found = await self._driver.run(operations.get_message(self._core, where, id))
        self._writers.met(config, where, found.thread)
        return self._message(found.values[0]) if found.values else None

    async def adelete_message(self, config: Config, message_id: str) -> bool:
        """Remove a message; whether it was there."""
        where, id = self._where(config), as_text(message_id, "message_id")
        holder = self._writers.expects(config, where).thread
        return await self._written(operations.delete_message(self._core, where, id, holder))
