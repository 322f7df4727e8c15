"""What lies where: one slot for a thread, hints that lie, key expiry, faults that others had."""

import os
import re
import time
from typing import Any
from uuid import uuid4

import pytest
import redis
from redis.connection import AbstractConnection
from redis.crc import key_slot

from lastgood import BlockingClient, CheckpointConflictError, StorageFullError
from lastgood.backends.redis import changes, parts
from lastgood.backends.redis.keys import Keys, member, name_member, read_member, tag_of
from lastgood.backends.remote.queries import ThreadName
from lastgood.testing.servers import Redis62Server, ValkeyServer
from tests.redis_backend.raw_place import RawPlace

pytestmark = pytest.mark.server("valkey", "cluster")

LARGE = {"items": [f"{n} " * 100 for n in range(60)], "image": bytes(200_000)}


class Place(RawPlace):
    """With ordinary clients."""

    def client(self, **options: Any) -> BlockingClient:
        return BlockingClient.redis(self.url, prefix=self.prefix, **options)

    def thread(self, name: str, tenant: str = "default") -> str:
        return Keys(self.prefix).thread(tag_of(ThreadName(tenant, name)))


def test_a_prefix_that_would_take_the_hash_tag_away_is_refused() -> None:
    """In a key only the first pair of braces counts, and none does if that is empty."""
    for prefix in ("x{}", "{}", "x{}y{z}"):
        with pytest.raises(ValueError, match="Use a prefix without braces"):
            BlockingClient.redis("redis://localhost", prefix=prefix)
        with pytest.raises(ValueError, match="Use a prefix without braces"):
            BlockingClient.open(f"redis://localhost?prefix={prefix}")
    for prefix in ("a{b", "a}b{", "x}{", "a{b}", "{a{}"):
        slots = {
            key_slot(f"{Keys(prefix).thread('tag')}{end}".encode()) for end in ("", ":c", ":p")
        }
        assert len(slots) == 1
        BlockingClient.redis("redis://localhost", prefix=prefix).close()


def test_everything_of_a_thread_is_in_one_slot(place: Place) -> None:
    names = ["s", "{", "}", "a{b}c", "{}", "x:y", "é", "\U0001f600"]
    with place.client() as client:
        for name in names:
            with client.run(name, agent_id="a{1}", initial=LARGE) as run:
                run.append("items", "more")
            client.tag(f"{client.log(name)[0].checkpoint_id}", "t")
            client.save("b", session_id=name, execution_state={}, ttl_seconds=50)
    for name in names:
        keys = place.stored(f"{{{tag_of(ThreadName('default', name))}}}*")
        assert len(keys) >= 9
        assert len({key_slot(key.encode()) for key in keys}) == 1
        assert all(name not in key for key in keys if len(name) > 1)


def test_no_two_names_share_a_key() -> None:
    """Fault C14 of another library: agent "a:b" with "c" was readable as agent "a" with "b:c"."""
    places = [ThreadName(*pair) for pair in (("a", "b:c"), ("a:b", "c"), ("ab", "c"), ("a", "bc"))]
    assert len({tag_of(place) for place in places}) == 4
    assert all(re.fullmatch(r"[\w-]{16}", tag_of(place)) for place in places)


# key expiry


def ttls(place: Place, thread: str) -> set[bool]:
    """Whether the keys of a thread have an end."""
    return {
        place.raw.pttl(key) > 0 for key in place.stored(place.thread(thread).split(":", 1)[1] + "*")
    }


def ends(place: Place, thread: str) -> list[int]:
    keys = place.stored(place.thread(thread).split(":", 1)[1] + "*")
    return [place.raw.execute_command("PEXPIRETIME", key) for key in keys]


def test_a_thread_of_which_everything_expires_ends_as_a_whole(place: Place) -> None:
    """All keys at one moment, after the last checkpoint; a save that stays keeps all (C11)."""
    with place.client() as client:
        client.save("a", session_id="s", execution_state=LARGE, ttl_seconds=100)
        client.save("a", session_id="s", execution_state={**LARGE, "n": 1}, ttl_seconds=5000)
        client.save("b", session_id="s", execution_state={"b": 1}, ttl_seconds=10)
        assert ttls(place, "s") == {True}
        assert len(set(ends(place, "s"))) == 1
        left = ends(place, "s")[0] / 1000 - time.time()
        assert abs(left - 5000 - changes.GRACE_MS / 1000) < 60
        kept = client.save("a", session_id="s", execution_state={"stays": 1})
        assert ttls(place, "s") == {False}
        assert client.restore(kept).state == {"stays": 1}
        client.save("a", session_id="tagged", execution_state={}, ttl_seconds=100)
        client.tag("tagged@1", "good")
        client.save("a", session_id="forever", execution_state={})
        assert ttls(place, "tagged") == ttls(place, "forever") == {False}


def test_when_a_thread_has_ended_it_is_as_if_it_had_never_been(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "GRACE_MS", 0)
    with place.client() as client, place.client() as other:
        chosen = str(uuid4())
        client.save(
            "a", session_id="s", execution_state=LARGE, ttl_seconds=0.5, checkpoint_id=chosen
        )
        client.save("a", session_id="stays", execution_state={"n": 1})
        time.sleep(1)
        assert place.stored(place.thread("s").split(":", 1)[1] + "*") == []
        for reader in (client, other):
            for sort in ("updated", "created", "name"):
                assert [info.thread_id for info in reader.threads(sort=sort)] == ["stays"]
            assert reader.latest(agent_id="a", session_id="s") is None
        assert other.verify(data=True).clean
        assert other.stats().threads == 1
        saved = other.save("a", session_id="t", execution_state={"n": 2}, checkpoint_id=chosen)
        assert (saved, client.restore(chosen).session_id) == (chosen, "t")
        client.save("a", session_id="s", execution_state={"anew": 1})
        assert [c.state for c in other.timeline("a", "s")] == [{"anew": 1}]


def test_expiry_and_removal_leave_the_head_the_index_and_the_siblings(place: Place) -> None:
    """Faults C11 to C13 of another library."""
    with place.client() as client:
        ids = [client.save("a", session_id="s", execution_state={"n": n}) for n in range(3)]
        assert client.expire(ids[1])
        assert client.latest(agent_id="a", session_id="s").checkpoint_id == ids[2]
        assert client.expire(ids[2])
        assert client.latest(agent_id="a", session_id="s").checkpoint_id == ids[0]
        client.save("a", session_id="s", execution_state={"n": 3}, ttl_seconds=0.3)
        assert client.latest(agent_id="a", session_id="s").state == {"n": 3}
        time.sleep(0.6)
        assert client.latest(agent_id="a", session_id="s").checkpoint_id == ids[0]
        assert [c.checkpoint_id for c in client.timeline("a", "s")] == [ids[0]]
        assert ttls(place, "s") == {False}
        assert client.verify(data=True).clean


# hints


def test_hints_that_lead_nowhere_are_not_believed(place: Place) -> None:
    """As a writer leaves them that died between a hint and its commit."""
    keys, id = Keys(place.prefix), uuid4()
    tag = tag_of(ThreadName("default", "ghost"))
    with place.client() as client:
        for name in ("a", "b", "c"):
            client.save("a", session_id=name, execution_state={})
        place.raw.hset(*keys.id_hint("default", id.bytes), tag)
        place.raw.hset(*keys.key_hint(7), tag)
        place.raw.zadd(keys.list("default", "updated"), {member(7, tag): 1e9})
        place.raw.zadd(keys.list("default", "created"), {member(7, tag): 7})
        place.raw.zadd(keys.list("default", "name"), {name_member("ghost", 7): 0})
        for sort in ("updated", "created", "name"):
            for limit in (1, 2, 50):
                page, found = client.threads(sort=sort, limit=limit), []
                while True:
                    found += [info.thread_id for info in page]
                    if page.next is None:
                        break
                    page = client.threads(sort=sort, limit=limit, after=page.next)
                assert sorted(found) == ["a", "b", "c"]
        with pytest.raises(KeyError):
            client.restore(str(id))
        assert client.verify(data=True).clean
        saved = client.save("a", session_id="d", execution_state={}, checkpoint_id=str(id))
        assert client.restore(saved).session_id == "d"
        client.save("a", session_id="ghost", execution_state={})
        assert len(client.threads()) == 5


def test_an_id_belongs_to_one_thread(place: Place) -> None:
    """Also where the index of ids is on another server than the threads."""
    with place.client() as client, place.client() as other:
        chosen = str(uuid4())
        client.save("a", session_id="s", execution_state={"n": 1}, checkpoint_id=chosen)
        with pytest.raises(CheckpointConflictError):
            other.save("a", session_id="t", execution_state={"n": 2}, checkpoint_id=chosen)
        assert client.delete("s")
        other.save("a", session_id="t", execution_state={"n": 2}, checkpoint_id=chosen)
        assert client.restore(chosen).state == {"n": 2}


def test_removal_takes_the_hints_along(place: Place) -> None:
    with place.client() as client:
        ids = [client.save("a", session_id="s", execution_state={"n": n}) for n in range(30)]
        client.save("a", session_id="stays", execution_state={})
        client.expire(ids[3])
        assert sum(place.raw.hlen(key) for key in place.stored("i:*")) == 30
        client.delete("s")
        assert sum(place.raw.hlen(key) for key in place.stored("i:*")) == 1
        lists = [Keys(place.prefix).list("default", s) for s in ("updated", "created", "name")]
        assert [place.raw.zcard(key) for key in lists] == [1, 1, 1]


# large changes


def test_a_large_save_is_sent_in_pieces_and_leaves_none_of_them(place: Place) -> None:
    with place.client() as client:
        for number in range(3):
            state = {"n": number, "items": [f"{number} {m} " * 60 for m in range(9000)]}
            saved = client.save("a", session_id="s", execution_state=state)
            assert place.client().restore(saved).state == state
        assert place.stored("*:w:*") == []
        assert client.verify(data=True).clean


def test_parts_that_were_sent_and_never_committed_go_by_themselves(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastgood.backends.redis.parts.STAGING_SECONDS", 1)
    with place.client() as client:
        backend = client._direct._core.backend

        async def fail(change: Any, tag: str) -> bytes:
            await parts.staged(backend._wire, backend._keys.thread(tag), change)
            raise ZeroDivisionError

        monkeypatch.setattr(backend, "_committed", fail)
        with pytest.raises(ZeroDivisionError):
            client.save(
                "a", session_id="s", execution_state={"x": [f"{n} " * 60 for n in range(9000)]}
            )
        assert len(place.stored("*:w:*")) == 1
        time.sleep(1.5)
        assert place.stored("*:w:*") == []


def test_parts_that_were_sent_for_a_save_that_came_too_late_are_freed_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer is faster each time; a large state is not on the server many times over."""
    state = {"x": [f"{n} " * 60 for n in range(9000)]}
    with place.client() as client, place.client() as other:
        other.save("b", session_id="s", execution_state={})
        staged, meanwhile = parts.staged, list[int]()

        async def overtaken(*args: Any) -> Any:
            made = await staged(*args)
            meanwhile.append(len(place.stored("*:w:*")))
            if len(meanwhile) < 4:
                other.save("b", session_id="s", execution_state={"n": len(meanwhile)})
            return made

        monkeypatch.setattr(parts, "staged", overtaken)
        saved = client.save("a", session_id="s", execution_state=state)
        assert max(meanwhile) == 1
        assert place.stored("*:w:*") == []
        assert client.restore(saved).state == state


@pytest.mark.parametrize("make", [ValkeyServer, Redis62Server])
@pytest.mark.parametrize("room", [0, 1_500_000, 3_000_000])
def test_a_save_that_does_not_fit_leaves_no_pieces(room: int, make: type[ValkeyServer]) -> None:
    """Of a server that is full, the pieces would keep others from saving for a minute."""
    state = {"x": [os.urandom(100_000) for _ in range(40)]}
    with (
        make() as server,
        redis.Redis.from_url(server.url) as raw,
        BlockingClient.redis(server.url) as client,
    ):
        client.save("a", session_id="s", execution_state={"n": 1})
        raw.config_set("maxmemory", raw.info("memory")["used_memory"] + room)
        for _ in range(3):
            with pytest.raises(StorageFullError):
                client.save("a", session_id="s", execution_state=state)
            assert list(raw.scan_iter("*:w:*")) == []
        raw.config_set("maxmemory", 0)
        client.save("a", session_id="s", execution_state=state)
        assert client.verify(data=True).clean


def test_parts_are_never_there_without_an_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the last bytes of a piece arrive, and then the connection is gone."""
    sent, torn = AbstractConnection.send_packed_command, []

    def tear(connection: AbstractConnection, command: Any, check_health: bool = True) -> None:
        data = b"".join(command)
        if len(data) < 1 << 20 or torn:
            return sent(connection, command, check_health)
        torn.append(sent(connection, [data[:-5]], check_health))
        connection.disconnect()
        raise redis.ConnectionError("torn")

    with place.client() as client:
        client.save("a", session_id="s", execution_state={"n": 1})
        monkeypatch.setattr(AbstractConnection, "send_packed_command", tear)
        state = {"x": [os.urandom(1000).hex() for _ in range(1000)]}
        saved = client.save("a", session_id="s", execution_state=state)
        assert torn
        assert client.restore(saved).state == state
        assert [key for key in place.stored("*:w:*") if place.raw.ttl(key) < 0] == []


def test_a_list_by_age_that_an_older_version_wrote_is_put_right(place: Place) -> None:
    """It sorted by keys, which are given out in batches."""
    with place.client() as client, place.client() as other:
        begun = [f"t{number}" for number in range(9)]
        for number, name in enumerate(begun):
            (client, other)[number % 2].save("a", session_id=name, execution_state={})
        ages = Keys(place.prefix).list("default", "created")
        for name, _ in place.raw.zscan_iter(ages):
            place.raw.zadd(ages, {name: read_member(name)[0]})
        ghost = member(7_000, tag_of(ThreadName("default", "ghost")))
        place.raw.zadd(ages, {ghost: 7_000})
        assert client.verify(data=True).clean
        page, found = client.threads(sort="created", limit=2), []
        while True:
            found += [info.thread_id for info in page]
            if page.next is None:
                break
            page = client.threads(sort="created", limit=2, after=page.next)
        assert found == begun[::-1]
        assert place.raw.zcount(ages, 0, 1 << 40) == 0
