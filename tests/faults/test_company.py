"""On a server, writes take the checkpoint behind them along: one change, all or nothing of it."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from network_bench import Play, Server

from lastgood import StorageFullError, TransientStorageError
from lastgood.backends.remote import backend as remote
from lastgood.backends.remote import company, turns
from lastgood.backends.remote.backend import RemoteBackend
from lastgood.backends.remote.changes import Change
from lastgood.backends.remote.crowd import Crowd, Guest
from lastgood.driver import pause
from lastgood.testing.alias_cases import put as put_under
from lastgood.testing.alias_cases import row_id
from lastgood.testing.company import beside, child
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.items_cases import item, keys, put
from lastgood.testing.store import Store, core_of, headers


class Meeting:
    """A thread with one checkpoint, a change to it that is held, and what comes behind that."""

    def __init__(self, store: Store, client: Any, id: bytes) -> None:
        self.store, self.client, self.id = store, client, id
        self.changes: list[Change] = []
        self.calls: list[Callable[[], Any]] = []
        self.then: Callable[[], Any] = lambda: None
        """Done once all have come, before the first goes on."""
        backend = core_of(client).backend
        assert isinstance(backend, RemoteBackend)
        self.backend, self._apply = backend, backend.apply

    @classmethod
    async def of(cls, store: Store) -> "Meeting":
        client = store.client()
        return cls(store, client, row_id(await put_under(client, "0", {"name": "0"})))

    @property
    def inside(self) -> int:
        return sum(len(queue.inside()) for queue in list(self.backend._turns._queues.values()))

    def writes(self, key: bytes) -> Callable[[], Any]:
        return partial(beside, self.client, item(key))

    def checkpoint(self, name: str = "1") -> Callable[[], Any]:
        return child(self.client, name, "0", self.id)

    async def play(self, *calls: Callable[[], Any]) -> list[Any]:
        """What becomes of those behind the first, which come one after the other."""
        self.calls = [partial(put, self.client, "s", item(b"first")), *calls]
        self.backend.apply = self._held  # type: ignore[method-assign]
        try:
            ordered = [partial(self._after, n, call) for n, call in enumerate(self.calls)]
            return (await self.store.together(ordered))[1:]
        finally:
            self.backend.apply = self._apply  # type: ignore[method-assign]

    async def _after(self, others: int, call: Callable[[], Any]) -> Any:
        while self.inside < others:
            await pause(0.001)
        return await call()

    async def _held(self, change: Change) -> Any:
        self.changes.append(change)
        if len(self.changes) == 1:
            while self.inside < len(self.calls):
                await pause(0.001)
            self.then()
        return await self._apply(change)

    async def seen(self) -> tuple[list[bytes], int]:
        """The items that are there, and how many checkpoints; nothing may be wrong with them."""
        assert (await self.client.verify(data=True)).clean
        return await keys(self.client, "s"), len(await headers(self.client, "s"))


BOTH = ([b"first", b"one"], 2)


def test_writes_and_their_checkpoint_are_one_change(play: Play) -> None:
    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)
        writes, saved = await meeting.play(meeting.writes(b"one"), meeting.checkpoint())
        assert writes.answer.done
        assert row_id(saved)
        assert len(meeting.changes) == 2
        assert await meeting.seen() == BOTH
        meeting.backend.ask = None  # type: ignore[method-assign, assignment]
        assert (await meeting.writes(b"two")()).answer.done, "without asking: it is remembered"

    play(body)


def test_a_checkpoint_takes_nobody_along(play: Play) -> None:
    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)
        await meeting.play(meeting.checkpoint(), meeting.writes(b"one"), meeting.writes(b"two"))
        assert len(meeting.changes) == 3, "the first, the checkpoint, and the writes together"
        assert await meeting.seen() == ([b"first", b"one", b"two"], 2)

    play(body)


def test_there_is_an_end_to_it(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "MOST", 3)

    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)
        names = [b"%d" % number for number in range(7)]
        await meeting.play(*map(meeting.writes, names))
        assert [len(change.rows) for change in meeting.changes] == [1, 3, 3, 1]
        assert await meeting.seen() == ([*names, b"first"], 1)

    play(body)


class NewestFirst:
    """A lock that goes to the one who came last."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[object] = []
        self._held = False

    def acquire(self, timeout: float) -> bool:
        me = object()
        with self._changed:
            self._waiting.append(me)
            mine = lambda: not self._held and self._waiting[-1] is me  # noqa: E731
            self._held |= (got := self._changed.wait_for(mine, timeout))
            self._waiting.remove(me)
            return got

    def release(self) -> None:
        with self._changed:
            self._held = False
            self._changed.notify_all()


class AnyOrder(Crowd):
    """Threads that get their turn in another order than they came, as when some gave up waiting."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._lock = NewestFirst()

    def enter(self, guest: Guest, seconds: float) -> bool:
        super().enter(guest, 0)
        guest.inside = self._lock.acquire(seconds)
        return guest.inside

    def leave(self, guest: Guest) -> None:
        super().leave(guest)
        if guest.inside:
            self._lock.release()


def test_nobody_is_taken_along_twice(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "MOST", 3)
    monkeypatch.setattr(turns, "Crowd", AnyOrder)

    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)
        names = [b"%d" % number for number in range(7)]
        await meeting.play(*map(meeting.writes, names))
        put = [row.key for change in meeting.changes for row in change.rows]  # type: ignore[union-attr]
        assert sorted(put) == [*names, b"first"]

    play(body)


def test_a_thread_waits_for_company_if_it_had_some_last_time(
    play_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(store: Store) -> None:
        meeting, pauses = await Meeting.of(store), list[float]()

        async def paused(seconds: float) -> None:
            pauses.append(seconds)

        async def alone(key: bytes) -> int:
            pauses.clear()
            with monkeypatch.context() as patch:
                patch.setattr(remote, "pause", paused)
                await meeting.writes(key)()
            return len(pauses)

        assert await alone(b"1") == 0
        await meeting.play(meeting.writes(b"2"), meeting.checkpoint())
        assert await alone(b"3") == remote.MOMENTS
        assert await alone(b"4") == 0

    play_in("blocking", body)


@pytest.mark.parametrize("after", [False, True], ids=["before it arrived", "after it was done"])
def test_a_change_of_several_that_was_cut_is_carried_out_once(
    after: bool, play: Play, proxy: Proxy, server: Server
) -> None:
    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)
        cut = proxy.cut_after if after else proxy.cut_before
        meeting.then = partial(cut, 2, match=server.commit)
        writes, saved = await meeting.play(meeting.writes(b"one"), meeting.checkpoint())
        assert proxy.cuts == 1
        assert writes.answer.done
        assert row_id(saved) if saved.checkpoint else saved.answer
        assert await meeting.seen() == BOTH

    play(body)


@pytest.mark.parametrize("outcome", ["moved", "stream", "id"])
def test_what_cannot_be_carried_out_together_is_alone(outcome: str, play: Play) -> None:
    """Another process was faster, or has what one of them wants: each is decided anew."""

    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)
        apply = meeting._apply

        async def not_at_first(change: Change) -> Any:
            return outcome if len(meeting.changes) == 2 else await apply(change)

        meeting._apply = not_at_first  # type: ignore[method-assign, assignment]
        writes, saved = await meeting.play(meeting.writes(b"one"), meeting.checkpoint())
        assert writes.answer.done
        assert row_id(saved)
        first, together, *alone = [bool(change.checkpoint) for change in meeting.changes]
        assert (first, together) == (False, True)
        assert sorted(alone) == [False, True], "in whichever order the two come to their turns"
        assert await meeting.seen() == BOTH

    play(body)


def test_nobody_knows_what_became_of_them(impatient: None, play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)
        apply = meeting._apply

        async def unheard(change: Change) -> Any:
            if change.checkpoint:
                proxy.black_hole("to_client")
            return await apply(change)

        meeting._apply = unheard  # type: ignore[method-assign, assignment]
        errors = await meeting.play(meeting.writes(b"one"), meeting.checkpoint())
        assert [type(error) for error in errors] == [TransientStorageError] * 2
        assert [error.in_doubt for error in errors] == [True, True]
        proxy.heal()
        assert await meeting.seen() == BOTH

    play(body)


def test_what_the_server_refuses_is_told_to_who_asked(play: Play) -> None:
    """The one that leads, and the one that it took along, each by its own attempt."""

    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)

        async def refused(change: Change) -> Any:
            if change.checkpoint is None and b"one" not in [row.key for row in change.rows]:
                return await apply(change)
            raise StorageFullError("no room")

        apply, meeting._apply = meeting._apply, refused
        errors = await meeting.play(meeting.writes(b"one"), meeting.checkpoint())
        assert [str(error) for error in errors] == ["no room", "no room"]
        assert not any(error.in_doubt for error in errors)
        meeting.backend.apply = apply  # type: ignore[method-assign]
        assert await meeting.seen() == ([b"first"], 1)

    play(body)


@pytest.mark.parametrize("cancelled", [0, 1], ids=["who leads", "who was taken along"])
def test_one_of_them_is_cancelled(cancelled: int, play_tasks: Play, proxy: Proxy) -> None:
    """While nobody answers. The other one ends, and what was wanted is there once."""

    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[Any]] = []

        async def in_task(call: Callable[[], Any]) -> Any:
            tasks.append(asyncio.ensure_future(call()))
            return await tasks[-1]

        async def silent(change: Change) -> Any:
            if change.checkpoint is not None and not proxied:
                proxied.append(1)
                proxy.black_hole("to_client")
                loop.call_later(0.1, tasks[cancelled].cancel)
                loop.call_later(0.3, proxy.heal)
            return await apply(change)

        proxied: list[int] = []
        apply, meeting._apply = meeting._apply, silent
        calls = [partial(in_task, call) for call in (meeting.writes(b"one"), meeting.checkpoint())]
        found = await meeting.play(*calls)
        assert isinstance(found[cancelled], asyncio.CancelledError)
        assert not isinstance(found[1 - cancelled], BaseException)
        assert await meeting.seen() == BOTH

    play_tasks(body)


def test_who_is_tired_of_waiting_recognises_what_was_done_for_it(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit is on its way with that of another one, whose answer takes long."""
    monkeypatch.setattr(turns, "PATIENCE", 0.3)

    async def body(store: Store) -> None:
        meeting = await Meeting.of(store)
        whole = meeting._apply

        async def slow(change: Change) -> Any:
            outcome = await whole(change)
            if change.checkpoint is not None and len(meeting.changes) == 2:
                await pause(1)
            return outcome

        meeting._apply = slow  # type: ignore[method-assign]
        parent = str(UUID(bytes=meeting.id))
        save = partial(
            meeting.client.save,
            "a",
            session_id="s",
            execution_state={"n": 1},
            parent_id=parent,
            on_conflict="reject",
        )
        writes, saved = await meeting.play(meeting.writes(b"one"), save)
        assert writes.answer.done
        assert isinstance(saved, str), saved
        assert await meeting.seen() == BOTH

    play(body)
