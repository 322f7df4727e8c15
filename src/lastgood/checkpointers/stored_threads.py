"""What is known of threads: their names, owners and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import NoneType

from lastgood import arguments, listing
from lastgood.backend import ThreadEntry, ThreadListing
from lastgood.checkpointers import operations
from lastgood.checkpointers.base import StateT, twin
from lastgood.checkpointers.config import Config, read_config, read_user
from lastgood.checkpointers.rules import Describe
from lastgood.checkpointers.stored import Stored, offset_of
from lastgood.checkpoints import read_mapping
from lastgood.errors import ThreadOwnerError
from lastgood.ids import check_name
from lastgood.messages import as_text
from lastgood.model import ThreadInfo, micros
from lastgood.rows import MINUTE


class StoredThreads(Stored[StateT]):
    """The methods about threads."""

    async def aget_threads(
        self,
        config: Config | None = None,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[ThreadInfo]:
        """The threads of the user, or of everybody, the last touched first.

        One that is damaged takes no other off the list.
        """
        user = read_user(config or {}) if self._isolates else None
        text, first = arguments.piece(search), offset_of(offset)
        last = None if limit is None else first + arguments.limit(limit)

        def keep(info: ThreadInfo, _: ThreadEntry) -> bool:
            found = text in info.thread_id.casefold() or text in info.title.casefold()
            return found and user in (None, info.user)

        infos: list[ThreadInfo] = []
        wanted = ThreadListing(limit=min(last or 500, 500), owner=user)
        while not _has_all(infos, last):
            page = await listing.threads(self._core, self._driver, wanted, keep)
            infos += page
            if page.next is None:
                break
            wanted = wanted._replace(after=arguments.thread_cursor(page.next, "updated"))
        infos.sort(key=lambda info: info.updated_at, reverse=True)
        return await self._with_metadata(infos[first:last])

    async def _with_metadata(self, infos: list[ThreadInfo]) -> list[ThreadInfo]:
        codec, names = self._core.codec, [info.thread_id for info in infos]
        found = await self._driver.run(operations.metadata(self._core, names)) if infos else []
        return [
            info if packed is None else replace(info, metadata=read_mapping(codec, packed))
            for info, packed in zip(infos, found, strict=True)
        ]

    async def aget_thread(self, config: Config) -> ThreadInfo | None:
        where = self._where(config)
        entry = await self._driver.run(operations.entry(self._core, where))
        self._writers.looked(config, where, None if entry is None else entry.row.thread)
        if entry is None:
            return None
        return (await self._with_metadata([listing.info_of(self._core, entry)]))[0]

    async def aput_thread(self, config: Config, thread_info: ThreadInfo) -> bool:
        """Name a thread, keep metadata of it, say whose it is; whether it is new.

        What is None in the info stays as it is. ValueError if the info is about another thread than
        the config. On behalf of a user, a thread cannot be given to another one.
        """
        where = self._where(config)
        if isinstance(thread_info, NoneType | str | Mapping):
            raise TypeError(
                f"thread_info must be a ThreadInfo, not {type(thread_info).__name__}: "
                "ThreadInfo(thread_id, thread_name=..., metadata={...})"
            )
        _check_thread(where.thread, thread_info)
        named = getattr(thread_info, "thread_name", None)
        owner = getattr(thread_info, "user_id", None)
        owner = None if owner is None else as_text(owner, "user_id")
        if where.user is not None and owner not in (None, where.user):
            raise ThreadOwnerError(
                f"{where.user!r} cannot give thread {where.thread!r} to {owner!r}.",
                hint="Leave user_id out of the config to do so.",
            )
        metadata = getattr(thread_info, "metadata", None)
        intent = Describe(
            tenant=self._core.tenant,
            thread=where.thread,
            title=check_name(named, "thread_name") if named else None,
            owner=owner,
            metadata=None
            if metadata is None
            else self._core.codec.pack_whole(arguments.items(metadata), "metadata"),
            holder=self._writers.expects(config, where).thread,
            opener=where.owner,
        )
        return bool((await self._written(operations.commit(self._core, where, intent))).answer)

    async def aget_thread_owner(self, thread_id: str) -> str | None:
        """Return the user whose thread it is, or None if it is nobody's or not there."""
        where = read_config({"thread_id": thread_id})
        found = await self._driver.run(operations.look(self._core, where))
        return found.live.owner if found.live else None

    get_thread_owner = twin(aget_thread_owner)

    async def adelete_thread(self, config: Config) -> bool:
        """Remove the thread and everything in it; whether it was there.

        Other writers that know it get ThreadDeletedError, until they have read again.
        """
        where = self._where(config)
        life = self._writers.expects(config, where).thread
        done = await self._written(operations.delete_thread(self._core, where, life))
        self._writers.forget(config, where)
        return done


def _check_thread(thread: str, info: ThreadInfo) -> None:
    """Refuse what is known of one thread for another; an info may leave open which it is about."""
    about = getattr(info, "thread_id", None)
    if about not in (None, "") and str(about) != thread:
        raise ValueError(
            f"thread_info is about thread {str(about)!r}, and config about {thread!r}. "
            f"Give both the same thread_id, as in ThreadInfo({thread!r}, thread_name=...)."
        )


def _has_all(infos: list[ThreadInfo], last: int | None) -> bool:
    """Whether so many of those touched last have been read.

    A store lists by the minute, so the whole minute of the last one has to be there: else what
    stands on a page would depend on how much was read for it.
    """
    if last is None or len(infos) < last:
        return False
    return _minute(infos[last - 1]) > _minute(infos[-1])


def _minute(info: ThreadInfo) -> int:
    return micros(info.updated_at) >> MINUTE
