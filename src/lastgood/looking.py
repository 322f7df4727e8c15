"""The half of the client that looks back: histories, lines, threads, branches, tags, refs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any

from lastgood import arguments, listing, moving, operations, resolving, searching, watching
from lastgood.backend import Listing, Sort, ThreadEntry, ThreadListing
from lastgood.checkpoints import Checkpoint
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.errors import CheckpointNotFoundError
from lastgood.ids import check_name, read_id, show_id
from lastgood.model import (
    STATUSES,
    Bisection,
    Blame,
    BranchInfo,
    Gap,
    Header,
    Page,
    ThreadInfo,
    micros,
)
from lastgood.searching import Predicate


class Looking:
    """Methods of `Client` that change nothing, and the tags."""

    _core: Core
    _driver: Driver

    async def latest(self, *, session_id: str, agent_id: str | None = None) -> Checkpoint | None:
        """The head of the current branch with its state, whatever the clocks say; None if empty.

        Without an agent it is that of the only one; ValueError if there are several.
        """
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        found = await self._driver.run(operations.latest(self._core, thread, agent))
        return None if found is None else self._core.built(found)

    async def log(
        self,
        session_id: str,
        *,
        agent_id: str | None = None,
        branch: str | None = None,
        step_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Header]:
        """Headers of a thread's checkpoints, newest first; never loads a state.

        `metadata` keeps those whose metadata has all the given items. A time without a zone is
        local. Pass `after=page.next` for the next page.
        """
        wanted = Listing(
            thread=check_name(session_id, "session_id"),
            agent=arguments.agent(agent_id),
            branch=arguments.name(branch, "branch"),
            step_name=arguments.name(step_name, "step_name"),
            since=arguments.instant(since, "since"),
            until=arguments.instant(until, "until"),
            before=arguments.cursor(after),
            limit=arguments.limit(limit),
        )
        return await listing.log(self._core, self._driver, wanted, arguments.items(metadata))

    async def walk(
        self, ref: str, *, limit: int = 50, after: str | None = None
    ) -> Page[Header | Gap]:
        """A checkpoint and what it follows, newest first, across branches and agents.

        Where something was removed or is over its time, a `Gap` stands in its place.
        """
        count = arguments.limit(limit)
        start = None if after is None else read_id(after)
        if after is not None and start is None:
            raise ValueError(f"after={after!r} is not a cursor. Pass page.next of the page before.")
        rows = await self._driver.run(listing.line(self._core, start or ref, count))
        if not rows:
            first = show_id(start) if start else ref
            raise CheckpointNotFoundError(
                f"checkpoint {first}, where the page begins, was removed.",
                hint="Walk from the beginning again.",
            )
        return listing.walked(self._core, rows, count)

    async def resolve(self, ref: str) -> Header:
        """The header of the checkpoint that a ref names; raises CheckpointNotFoundError."""
        return self._core.header(await self._driver.run(resolving.locate(self._core, ref)))

    async def threads(
        self,
        *,
        agent_id: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        user: str | None = None,
        search: str | None = None,
        since: datetime | None = None,
        sort: Sort = "updated",
        limit: int = 50,
        after: str | None = None,
    ) -> Page[ThreadInfo]:
        """Threads with title, status and counts, the last touched first.

        `status` is `running`, `stale`, `failed`, `idle`, `done` or `damaged`; a graph that waits
        for an answer is idle. `user` is whose threads they are, `search` finds a piece of the id
        or title, `metadata` looks at the newest checkpoint, `since` at the last change.
        `sort="updated"` is exact within a page and to about a minute across pages.
        """
        arguments.one_of(sort, ("updated", "created", "name"), "sort")
        if status is not None:
            arguments.one_of(status, STATUSES, "status")
        wanted = ThreadListing(
            sort=sort,
            after=arguments.thread_cursor(after, sort),
            limit=arguments.limit(limit),
            newest=bool(metadata),
            owner=arguments.name(user, "user"),
        )
        agent, since_at = arguments.agent(agent_id), arguments.instant(since, "since")
        text, items = arguments.piece(search), arguments.items(metadata)

        def keep(info: ThreadInfo, entry: ThreadEntry) -> bool:
            return (
                (agent is None or agent in info.agents)
                and user in (None, info.user)
                and status in (None, info.status)
                and (since_at is None or micros(info.updated_at) >= since_at)
                and (text in info.thread_id.casefold() or text in info.title.casefold())
                and (not items or listing.newest_has_all(self._core, entry, items))
            )

        return await listing.threads(self._core, self._driver, wanted, keep)

    async def branches(self, session_id: str, *, agent_id: str | None = None) -> list[BranchInfo]:
        """The branches of a thread, or of one agent in it, each with its head."""
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        found = await self._driver.run(listing.branches(self._core, thread, agent))
        return [listing.branch_info(self._core, thread, each) for each in found]

    async def tags(self, session_id: str) -> dict[str, str]:
        """The tags of a thread and the checkpoint ids that they name."""
        thread = check_name(session_id, "session_id")
        return await self._driver.run(listing.tags(self._core, thread))

    async def tag(self, ref: str, name: str) -> str | None:
        """Give a checkpoint a name in its thread, found as `thread@tag:NAME`.

        A tag of that name moves; the id that it named before is returned.
        """
        return await self._driver.run(moving.tag(self._core, ref, check_name(name, "name")))

    async def untag(self, session_id: str, name: str) -> bool:
        """Take a tag away; False if it is not there. The checkpoint stays."""
        thread, tag = check_name(session_id, "session_id"), check_name(name, "name")
        return await self._driver.run(moving.untag(self._core, thread, tag))

    async def blame(self, ref: str, path: str) -> Blame:
        """The step that brought in the value at a path (`messages[3].text`), going back from a ref.

        Elements are followed when others are inserted or removed before them. Raises KeyError for
        a path that is not there.
        """
        return await searching.blame(self._core, self._driver, ref, path)

    async def bisect(
        self, session_id: str, predicate: Predicate, *, agent_id: str | None = None
    ) -> Bisection:
        """The first checkpoint of the current line at which `predicate(checkpoint)` holds.

        Looks at few states (their number grows with the logarithm of the line's length). Assumes
        that the predicate flips once; tries some more places, and says so when it did not. Raises
        CheckpointNotFoundError for a thread that is not there, or has no such agent.
        """
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        arguments.function(predicate, "predicate")
        return await searching.bisect(self._core, self._driver, thread, agent, predicate)

    def watch(
        self, session_id: str, *, agent_id: str | None = None, after: int | None = None
    ) -> AsyncGenerator[Header, None]:
        """New checkpoints of a thread as they come, in the order of `seq`; ends never.

        Begins with what comes after the first one was asked for, or with everything after the seq
        `after`. A thread that is not there yet is waited for; one that is deleted and begins anew
        is watched from its beginning, also where `after` is more than it has.
        """
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        seen = arguments.place(after)
        return watching.watch(self._core, self._driver, thread, agent, seen)
