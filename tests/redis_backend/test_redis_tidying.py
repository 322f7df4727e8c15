"""Threads that have ended by themselves: a sweep frees what led to them, and nothing else."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from lastgood import BlockingClient, CheckpointNotFoundError, Client
from lastgood.backends.redis import changes
from lastgood.backends.redis.backend import RedisBackend
from lastgood.backends.redis.keys import Keys, tag_of
from lastgood.backends.redis.tidying import Tidying
from lastgood.backends.remote.queries import ThreadName
from tests.redis_backend.raw_place import RawPlace

pytestmark = pytest.mark.server("valkey", "cluster")

HOUR = 3600 * 1_000_000
SORTS = ("updated", "created", "name")


class Place(RawPlace):
    """With clocks that can be ahead, and threads that end at once."""

    def client(self, tenant: str = "default", hours: int = 0) -> BlockingClient:
        backend = RedisBackend(self.url, prefix=self.prefix, shift=lambda: hours * HOUR)
        return BlockingClient.on(backend, tenant=tenant)

    def hints(self, *, lists: str = "*") -> tuple[int, int, int]:
        """How many there are: of checkpoints, of numbers, in lists."""
        return (
            sum(self.raw.hlen(table) for table in self.stored("i:*")),
            sum(self.raw.hlen(table) for table in self.stored("t:*")),
            sum(self.raw.zcard(each) for each in self.stored(f"{{@*:{lists}")),
        )

    def end(self, thread: str, tenant: str = "default", *, but: str = "") -> None:
        """As if all its keys were over their time; or a full server had thrown away all but one."""
        key = Keys(self.prefix).thread(tag_of(ThreadName(tenant, thread)))
        own = [each for each in self.stored() if each.startswith(key)]
        for each in own:
            if not but or not each.endswith(but):
                self.raw.unlink(each)


def filled(client: BlockingClient, *threads: str) -> list[str]:
    return [
        client.save("a", session_id=thread, execution_state={"n": number}, ttl_seconds=900)
        for thread in threads
        for number in range(3)
    ]


def test_a_sweep_frees_what_led_to_threads_that_have_ended(place: Place) -> None:
    with place.client() as client, place.client("other") as other:
        ended = filled(client, "s", "t")
        kept = filled(client, "stays")
        filled(other, "s")
        for thread in ("s", "t"):
            place.end(thread)
        place.end("s", "other")
        assert place.hints() == (12, 4, 12)
    with place.client(hours=2) as later:
        later.sweep(dry_run=True)
        assert place.hints() == (12, 4, 12)
        later.sweep()
        assert place.hints() == (6, 4, 6), "those of one thread, and of another tenant"
    with place.client() as client:
        assert [client.restore(id).session_id for id in kept] == ["stays"] * 3
        with pytest.raises(CheckpointNotFoundError):
            client.restore(ended[0])
        for sort in SORTS:
            assert [each.thread_id for each in client.threads(sort=sort)] == ["stays"]
        again = filled(client, "s")
        assert client.restore(again[0]).session_id == "s"
        assert client.verify(data=True).clean


def test_what_leads_to_the_rest_of_a_damaged_thread_stays(place: Place) -> None:
    with place.client() as client:
        filled(client, "s")
        place.end("s", but=":s")
    with place.client(hours=2) as later:
        later.sweep()
        assert place.hints(lists="name")[::2] == (3, 1)
        assert [problem.kind for problem in later.verify().problems] == ["orphan"]


def test_a_thread_that_is_opened_again_meanwhile_is_found(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same id: it was seen that the thread is gone, and then it is not."""
    with place.client() as client, place.client(hours=2) as later:
        (id, *_) = filled(client, "s")
        place.end("s")
        drop, again = Tidying._drop, list[str]()

        async def late(self: Tidying, stale: dict[str, dict[bytes, bytes]]) -> None:
            if any(UUID(id).bytes in field for pairs in stale.values() for field in pairs):
                again.append(save(client, id))
            await drop(self, stale)

        monkeypatch.setattr(Tidying, "_drop", late)
        later.sweep()
        assert again == [id]
        assert client.restore(id).state == {"again": 1}
        assert client.verify().clean


def save(client: BlockingClient, id: str) -> str:
    return client.save("a", session_id="s", execution_state={"again": 1}, checkpoint_id=id)


def test_and_so_is_one_whose_hint_is_dropped_while_it_is_opened(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.client() as client:
        (id, *_) = filled(client, "s")
        place.end("s")
        hints = client._core.backend._hints
        claim, hint = hints.claim, Keys(place.prefix).id_hint("default", UUID(id).bytes)

        async def late(*args: Any) -> Any:
            told = await claim(*args)
            place.raw.hdel(*hint)
            return told

        monkeypatch.setattr(hints, "claim", late)
        save(client, id)
        assert client.restore(id).state == {"again": 1}
        assert client.verify().clean


def test_a_new_thread_is_found_though_its_writer_dies_during_a_sweep(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a Cluster its hint is there first."""
    with place.client() as client, place.client() as other:
        other.stats()
        hints = client._core.backend._hints
        claim = hints.claim

        async def met(*args: Any) -> Any:
            told = await claim(*args)
            other.sweep()
            return told

        async def dies(*_: Any) -> None: ...

        monkeypatch.setattr(hints, "claim", met)
        monkeypatch.setattr(hints, "settle", dies)
        id = client.save("a", session_id="new", execution_state={"n": 1})
        assert other.restore(id).state == {"n": 1}


def test_async_too_and_by_themselves(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "GRACE_MS", 0)

    async def play() -> None:
        async with Client.on(RedisBackend(place.url, prefix=place.prefix)) as client:
            for number in range(20):
                await client.save("a", session_id=f"s{number}", execution_state={}, ttl_seconds=0.3)
            await asyncio.sleep(0.8)
            await client.sweep()

    asyncio.run(play())
    assert place.hints(lists="name")[2] == 0
    with place.client(hours=2) as later:
        later.sweep()
        assert place.hints() == (0, 20, 0)
