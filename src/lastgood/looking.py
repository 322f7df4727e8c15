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
        """Return the head of the current branch with its state, or None if there is none.

        The head is the last by the order of commits, whatever the clocks say. Without `agent_id`,
        it is the head of the thread's only agent; ValueError is raised if there are several.
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
        """List the headers of a thread's checkpoints, newest first, without loading any state.

        `metadata` keeps only the checkpoints whose metadata has all the given items. A time without
        a zone is local time. For the next page, pass `after=page.next`.
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
        """List a checkpoint and those that it follows, newest first, across branches and agents.

        Where a checkpoint was removed or has expired, a `Gap` stands in its place.
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
        """Return the header of the checkpoint that a ref names.

        Raises CheckpointNotFoundError if there is none.
        """
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
        """List threads with title, status and counts; by default the last touched comes first.

        `status` is `running`, `stale`, `failed`, `idle`, `done` or `damaged`; a graph that waits
        for an answer is idle. `user` keeps the threads of one user, `search` those with a text in
        their id or title. `metadata` looks at a thread's newest checkpoint, and `since` at its last
        change. With `sort="updated"`, the order is exact within a page, and exact to about a minute
        across pages.
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
        """List the branches of a thread, or of one agent in it, each with its head."""
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        found = await self._driver.run(listing.branches(self._core, thread, agent))
        return [listing.branch_info(self._core, thread, each) for each in found]

    async def tags(self, session_id: str) -> dict[str, str]:
        """Return the tags of a thread, each with the id of the checkpoint that it names."""
        thread = check_name(session_id, "session_id")
        return await self._driver.run(listing.tags(self._core, thread))

    async def tag(self, ref: str, name: str) -> str | None:
        """Give a checkpoint a name in its thread, so that `thread@tag:NAME` finds it.

        If the thread has a tag of that name already, the tag moves, and the id of the checkpoint
        that it named before is returned; otherwise None.
        """
        return await self._driver.run(moving.tag(self._core, ref, check_name(name, "name")))

    async def untag(self, session_id: str, name: str) -> bool:
        """Remove a tag, but not its checkpoint; return False if the tag is not there."""
        thread, tag = check_name(session_id, "session_id"), check_name(name, "name")
        return await self._driver.run(moving.untag(self._core, thread, tag))

    async def blame(self, ref: str, path: str) -> Blame:
        """Find the step that brought in the value at a path, going back from a ref.

        A path is written like `messages[3].text`. A list element is followed when others are
        inserted or removed before it. Raises KeyError for a path that is not there.
        """
        return await searching.blame(self._core, self._driver, ref, path)

    async def bisect(
        self, session_id: str, predicate: Predicate, *, agent_id: str | None = None
    ) -> Bisection:
        """Find the first checkpoint of the current line at which `predicate(checkpoint)` holds.

        Only a few states are looked at: their number grows with the logarithm of the line's length.
        The search assumes that the predicate flips once. It tries some more places, and the result
        says so if the predicate was seen to flip more often. Raises CheckpointNotFoundError for a
        thread that is not there, or that has no such agent.
        """
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        arguments.function(predicate, "predicate")
        return await searching.bisect(self._core, self._driver, thread, agent, predicate)

    def watch(
        self, session_id: str, *, agent_id: str | None = None, after: int | None = None
    ) -> AsyncGenerator[Header, None]:
        """Yield the new checkpoints of a thread as they come, in the order of `seq`; never ends.

        It begins with what comes after the first checkpoint was asked for, or, given `after`, with
        everything after that seq. It waits for a thread that is not there yet. A thread that is
        deleted and begins anew is watched from its beginning, even if `after` is greater than any
        seq that it has.
        """
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        seen = arguments.place(after)
        return watching.watch(self._core, self._driver, thread, agent, seen)
