"""A server that lost data under clients that go on: by a snapshot, by hand, by a failover.

What was lost is lost. But what is saved from then on is saved: it is on every list, nobody else has
its key or its streams, and everybody can read it.
"""

import threading
import time
from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest

from lastgood import BlockingClient, CheckpointIntegrityError, CheckpointNotFoundError
from lastgood.backends.redis.backend import RedisBackend
from lastgood.backends.redis.keys import Keys, tag_of
from lastgood.backends.remote import attempts
from lastgood.backends.remote.queries import ThreadName
from lastgood.testing.servers import Redis62Server, ValkeyServer
from tests.redis_backend.raw_place import RawPlace

pytestmark = pytest.mark.server("valkey", "cluster")

SORTS = ("updated", "created", "name")


class Place(RawPlace):
    """A store of which pieces are lost."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.keys = Keys(self.prefix)

    def client(self) -> BlockingClient:
        return BlockingClient.redis(self.url, prefix=self.prefix)

    def lose(self, *keys: str) -> None:
        """As `DEL`, or `FLUSHALL` where none is named."""
        for key in keys or self.stored():
            self.raw.unlink(key)


@pytest.fixture(params=[ValkeyServer, Redis62Server])
def server(request: pytest.FixtureRequest) -> Iterator[ValkeyServer]:
    """One that keeps snapshots alone, and is ours to kill."""
    with request.param(settings={"save": "3600 1"}) as one:
        yield one


def state(number: object) -> dict[str, Any]:
    return {"messages": [f"{number} " * 300] * 20}


def save(client: BlockingClient, name: str) -> str:
    return client.save("a", session_id=name, execution_state=state(name))


def check(client: BlockingClient, ids: dict[str, str], others: int = 0) -> None:
    """That somebody finds all of these threads, and so many others."""
    for sort in SORTS:
        found = [each.thread_id for each in client.threads(sort=sort, limit=500)]
        assert sorted(set(found)) == sorted(found)
        assert set(ids) <= set(found), sort
        assert len(found) == len(ids) + others
    for name, id in ids.items():
        assert client.restore(id).state == state(name)
    assert client.verify(data=True).clean


def test_what_is_saved_after_a_restart_that_lost_data_is_there(server: ValkeyServer) -> None:
    with BlockingClient.redis(server.url) as client, BlockingClient.redis(server.url) as late:
        save(client, "first")
        server.ask("SAVE")
        for number in range(40):
            save(client, f"lost {number}")
            late.restore(save(client, f"lost {number}"))
        server.kill()
        server.start()
        ids = {f"new {number}": save(client, f"new {number}") for number in range(60)}
        with BlockingClient.redis(server.url) as other:
            check(other, ids, others=1)
        check(late, ids, others=1)
        check(client, ids, others=1)


def test_everybody_goes_on_after_everything_was_lost(place: Place) -> None:
    """Two that have numbers in reserve, and one that begins."""
    with place.client() as one, place.client() as two:
        for client in (one, two):
            for number in range(20):
                save(client, f"lost {number}")
        place.lose()
        ids = {}
        with place.client() as three:
            for number in range(40):
                for client in (three, one, two):
                    name = f"{number} {id(client)}"
                    ids[name] = save(client, name)
            for client in (one, two, three):
                check(client, ids)


def test_a_store_that_was_emptied_is_described_again(place: Place) -> None:
    with place.client() as client:
        save(client, "gone")
        place.lose()
        with pytest.raises(CheckpointNotFoundError, match="0 threads"):
            client.restore("gone@")
        place.lose()
        assert client.stats().threads == 0
        place.lose()
        for number in range(40):
            save(client, f"{number}")
        assert place.raw.hget(place.keys.meta, "format") == b"2"
        assert client.stats().threads == 40


def test_the_same_thread_in_the_same_minute_goes_to_the_top_again(server: ValkeyServer) -> None:
    """That this process put it there is of no use when the server forgot it."""
    minute = 60_000_000
    with BlockingClient.redis(server.url) as client:
        save(client, "s")
        server.ask("SAVE")
        client._core.backend._shift = lambda: 5 * minute
        save(client, "s")
        server.kill()
        server.start()
        save(client, "s")
        assert client.verify().clean


@pytest.mark.parametrize("kind", ["thread", "stream"])
def test_a_counter_that_went_back_is_passed(
    place: Place, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "PATIENCE", 5.0)
    ids, many = {}, {}
    with place.client() as one:
        for number in range(70):  # each of them has a stream of its own
            many[number] = one.save(f"{number}", session_id="many", execution_state=state(number))
        for number in range(100):
            ids[f"{number}"] = save(one, f"{number}")
        place.lose(place.keys.counter(kind))
        with place.client() as two:
            many[70] = two.save("70", session_id="many", execution_state=state(70))
            for number in range(100, 140):
                ids[f"{number}"] = save(two, f"{number}")
            ids["one"] = save(one, "one")
            check(two, ids, others=1)
            for number, id in many.items():
                assert two.restore(id).state == state(number)
    last = int(place.raw.get(place.keys.counter(kind)))
    assert last < 1000


def test_two_that_have_the_same_streams_in_reserve(place: Place) -> None:
    """Neither writes over what the other one has in the same thread."""
    with place.client() as one, place.client() as two:
        save(one, "s")
        place.lose(place.keys.counter("stream"))
        ids = {}
        for number in range(30):
            for client in (one, two):
                name = f"{number} {id(client)}"
                ids[name] = client.save(name, session_id="s", execution_state=state(name))
    with place.client() as three:
        for name, checkpoint in ids.items():
            assert three.restore(checkpoint).state == state(name)
        assert three.verify(data=True).clean


def test_no_key_is_used_again_for_a_thread_of_the_same_name(place: Place) -> None:
    """Whoever is late would take the new one for the one that it knew."""
    with place.client() as one:
        save(one, "s")
        one.delete("s")
        place.lose(place.keys.counter("thread"))
    with place.client() as two:
        save(two, "s")
        (key,) = place.stored("t:*")
        assert len(place.raw.hgetall(key)) == 2
        assert two.verify().clean


def test_a_thread_with_the_key_of_another_is_damage(place: Place) -> None:
    """An earlier version could let that happen."""
    with place.client() as one:
        for name in ("s", "other"):
            save(one, name)
    (key,) = place.stored("t:*")
    tag = tag_of(ThreadName("default", "other"))
    place.raw.hset(key, mapping=dict.fromkeys(place.raw.hkeys(key), tag))
    with place.client() as two:
        with pytest.raises(CheckpointIntegrityError, match=r"'s' has the key #. of another thread"):
            save(two, "s")
        save(two, "other")


def test_a_thread_that_stays_while_another_server_loses_the_lists(cluster_url: str) -> None:
    """In a Cluster each goes back by itself."""
    place, shift = Place(cluster_url), 0
    backend = RedisBackend(place.url, prefix=place.prefix, shift=lambda: shift)
    with BlockingClient.on(backend) as client, place.client() as other:
        ids = {name: save(client, name) for name in ("s", "t")}
        place.lose(*(place.keys.list("default", sort) for sort in SORTS))
        shift = 120 * 1_000_000
        for name in ids:
            save(client, name)
        check(other, ids)
    place.close()


def test_a_thread_without_its_row_can_be_deleted_and_begun_anew(place: Place) -> None:
    """As a server that evicts keys leaves it."""
    with place.client() as client, place.client() as other:
        lost = [save(client, "s") for _ in range(3)]
        ids = {"t": save(client, "t")}
        place.lose(place.keys.thread(tag_of(ThreadName("default", "s"))))
        for each in (client, other):
            with pytest.raises(CheckpointIntegrityError, match="delete the thread"):
                save(each, "s")
        client.sweep()
        with pytest.raises(CheckpointIntegrityError):
            other.restore(lost[0])
        assert client.delete("s")
        assert not other.delete("s")
        for id in lost:
            with pytest.raises(CheckpointNotFoundError):
                other.restore(id)
        check(client, ids)
        check(other, ids | {"s": save(client, "s")})


def test_a_deletion_clears_nothing_where_the_row_is_damaged(place: Place) -> None:
    with place.client() as client:
        id = save(client, "s")
        place.raw.hset(place.keys.thread(tag_of(ThreadName("default", "s"))), "t", b"?")
        before = place.stored()
        with pytest.raises(CheckpointIntegrityError):
            client.delete("s")
        assert place.stored() == before
        with pytest.raises(CheckpointIntegrityError):
            client.restore(id)


def test_who_watches_sees_what_is_saved_after_everything_was_lost(place: Place) -> None:
    with place.client() as client, place.client() as watcher:
        lost = [save(client, "s") for _ in range(3)]
        watch = watcher.watch("s", after=0)
        assert [next(watch).checkpoint_id for _ in lost] == lost
        place.lose()
        with place.client() as other:
            ids = [save(other, "s") for _ in range(2)]
        assert [next(watch).checkpoint_id for _ in ids] == ids
        watch.close()


def test_who_watches_sees_what_is_saved_after_the_last_moments_were_lost(
    server: ValkeyServer,
) -> None:
    """Each once: neither what was there before nor what is new comes twice."""
    with BlockingClient.redis(server.url) as client, BlockingClient.redis(server.url) as watcher:
        kept = [save(client, "s") for _ in range(2)]
        server.ask("SAVE")
        lost = [save(client, "s") for _ in range(3)]
        seen: Queue[str] = Queue()

        def watch() -> None:
            headers = watcher.watch("s", after=0)
            for _, header in zip(range(7), headers, strict=False):
                seen.put(header.checkpoint_id)
            headers.close()

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        assert [seen.get(timeout=20) for _ in range(5)] == kept + lost
        server.kill()
        server.start()
        time.sleep(2)  # long enough for a look
        with BlockingClient.redis(server.url) as other:
            ids = [save(other, "s") for _ in range(2)]
        assert [seen.get(timeout=20) for _ in ids] == ids
        watching.join(20)
