"""A change that the server refuses in part is not carried out at all: for want of rights, because
something else has a key.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from lastgood import (
    BlockingClient,
    CheckpointIntegrityError,
    LastgoodError,
    TransientStorageError,
)
from lastgood.backends.redis.keys import SUFFIXES, Keys, tag_of
from lastgood.backends.remote.queries import ThreadName
from lastgood.testing.servers import Redis62Server, ValkeyServer

pytestmark = pytest.mark.server

KEYS = Keys("lastgood")
THREAD = KEYS.thread(tag_of(ThreadName("default", "order")))
LARGE = {"items": [f"{n} " * 100 for n in range(60)], "image": bytes(200_000)}
VAST = {"image": bytes(range(256)) * 8192}
"""So large that it is sent in pieces first."""
COMMANDS = ("hset", "zadd", "sadd", "hincrby", "rename", "persist", "pexpireat", "hdel", "zrem")
COMMANDS += ("unlink", "@sortedset")


@pytest.fixture(params=[ValkeyServer, Redis62Server], scope="module")
def one(request: pytest.FixtureRequest) -> Iterator[ValkeyServer]:
    with request.param(tcp=True) as server:
        yield server


@pytest.fixture
def server(one: ValkeyServer) -> Iterator[ValkeyServer]:
    yield one
    one.ask("FLUSHALL")


@pytest.fixture
def raw(server: ValkeyServer) -> Iterator[Any]:
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def owner(server: ValkeyServer) -> Iterator[BlockingClient]:
    with BlockingClient.redis(server.url) as client:
        yield client


def limited(server: ValkeyServer, *rules: str) -> BlockingClient:
    """The client of a user who may do everything but that."""
    server.ask("ACL", "SETUSER", "app", "reset", "on", ">pw", "~lastgood:*", "+@all", *rules)
    return BlockingClient.redis(f"redis://app:pw@127.0.0.1:{server.port}")


def stored(raw: Any) -> dict[bytes, Any]:
    """What is in every key but in counters and in parts on their way, and whether it has an end."""
    keys = (key for key in raw.scan_iter("lastgood:*") if b":last:" not in key)
    return {key: (content(raw, key), raw.pttl(key) > 0) for key in keys if b":w:" not in key}


def content(raw: Any, key: bytes) -> Any:
    match raw.type(key):
        case b"hash":
            return raw.hgetall(key)
        case b"zset":
            return raw.zrange(key, 0, -1, withscores=True)
        case b"set":
            return raw.smembers(key)
        case _:
            return raw.get(key)


def save(client: BlockingClient, state: dict[str, Any], **options: Any) -> str:
    return client.save("a", session_id="order", execution_state=state, **options)


def failure(
    change: Callable[[BlockingClient], object], client: BlockingClient
) -> LastgoodError | None:
    try:
        change(client)
    except LastgoodError as error:
        return error
    return None


def first(client: BlockingClient) -> None:
    """A thread with all that there is to remove."""
    for number in range(3):
        save(client, {**LARGE, "n": number}, ttl_seconds=900)
    save(client, {"n": 3}, ttl_seconds=900)
    client.tag(client.log("order")[1].checkpoint_id, "tagged")


SAVES: dict[str, Callable[[BlockingClient], object]] = {
    "small": lambda client: save(client, {"n": 1}),
    "large": lambda client: save(client, LARGE),
    "vast": lambda client: save(client, VAST),
    "expiring": lambda client: save(client, LARGE, ttl_seconds=900),
}
CHANGES: dict[str, Callable[[BlockingClient], object]] = {
    **SAVES,
    "removal": lambda client: client.expire(client.log("order")[-1].checkpoint_id),
    "tag": lambda client: client.tag(client.log("order")[0].checkpoint_id, "new"),
    "deletion": lambda client: client.delete("order"),
}


@pytest.mark.parametrize(
    ("change", "begun"),
    [*((name, True) for name in CHANGES), *((name, False) for name in SAVES)],
)
def test_a_change_for_which_a_right_is_missing_leaves_nothing(
    change: str, begun: bool, server: ValkeyServer, owner: BlockingClient, raw: Any
) -> None:
    owner.stats()
    if begun:
        first(owner)
    refused = set()
    before = stored(raw)
    for command in COMMANDS:
        with limited(server, f"-{command}") as client:
            error = failure(CHANGES[change], client)
        if error is not None:
            refused.add(command)
            assert "rights" in str(error)
            assert stored(raw) == before, command
            continue
        raw.flushall()
        owner.stats()
        if begun:
            first(owner)
        before = stored(raw)
    assert refused
    save(owner, {"n": 9})
    assert owner.latest(agent_id="a", session_id="order").state == {"n": 9}
    assert owner.verify(data=True).clean


FOREIGN = {
    "a list by time": KEYS.list("default", "updated"),
    "a list by name": KEYS.list("default", "name"),
    "keys": KEYS.key_hint(1).key,
    **{f"thread{suffix}": THREAD + suffix for suffix in SUFFIXES},
}


@pytest.mark.parametrize("change", SAVES)
@pytest.mark.parametrize("place", FOREIGN)
def test_a_change_that_meets_a_key_of_something_else_leaves_nothing(
    place: str, change: str, server: ValkeyServer, owner: BlockingClient, raw: Any
) -> None:
    """The thread is as it was before when that key is gone again."""
    owner.stats()
    before = stored(raw)
    raw.set(FOREIGN[place], "mine")
    error = failure(CHANGES[change], owner)
    raw.unlink(FOREIGN[place])
    if error is None:
        raw.flushall()
    else:
        assert isinstance(error, CheckpointIntegrityError)
        assert stored(raw) == before
    save(owner, {"n": 9})
    with BlockingClient.redis(server.url) as other:
        assert other.latest(agent_id="a", session_id="order").state == {"n": 9}
        assert other.verify(data=True).clean


def no_replicas(server: ValkeyServer) -> str:
    server.ask("CONFIG", "SET", "min-replicas-to-write", "1")
    return server.url


def no_primary(server: ValkeyServer) -> str:
    server.ask("REPLICAOF", "127.0.0.1", "1")
    return server.url


def no_rights(server: ValkeyServer) -> str:
    rights = ("~lastgood:*", "+@all", "-@write", "+eval", "+evalsha")
    server.ask("ACL", "SETUSER", "reader", "reset", "on", ">pw", *rights)
    return f"redis://reader:pw@127.0.0.1:{server.port}"


def and_again(server: ValkeyServer) -> None:
    server.ask("CONFIG", "SET", "min-replicas-to-write", "0")
    server.ask("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("refused", [no_replicas, no_primary, no_rights])
@pytest.mark.parametrize("sort", ["updated", "created", "name"])
def test_lists_are_read_where_nothing_is_written(
    sort: Any,
    refused: Callable[[ValkeyServer], str],
    server: ValkeyServer,
    owner: BlockingClient,
    raw: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hint of a thread that has ended by itself stays where it is."""
    monkeypatch.setattr("lastgood.backends.remote.attempts.PATIENCE", 0.5)
    save(owner, {"n": 1}, ttl_seconds=900)
    owner.save("a", session_id="other", execution_state={})
    raw.unlink(*(THREAD + suffix for suffix in SUFFIXES))
    by_time = KEYS.list("default", "updated")
    raw.zadd(by_time, dict.fromkeys(raw.zrange(by_time, 0, -1), 1))
    try:
        with BlockingClient.redis(refused(server)) as reader:
            assert [each.thread_id for each in reader.threads(sort=sort)] == ["other"]
    finally:
        and_again(server)
    assert raw.zcard(KEYS.list("default", sort)) == 2
    assert [each.thread_id for each in owner.threads(sort=sort)] == ["other"]
    assert raw.zcard(KEYS.list("default", sort)) == 1


@pytest.mark.parametrize(
    ("refused", "why"),
    [(no_replicas, "min-replicas-to-write"), (no_primary, "use the address of its primary")],
)
def test_who_may_not_write_is_told_why(
    refused: Callable[[ValkeyServer], str],
    why: str,
    server: ValkeyServer,
    owner: BlockingClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lastgood.backends.remote.attempts.PATIENCE", 0.3)
    save(owner, {"n": 1})
    try:
        refused(server)
        with pytest.raises(TransientStorageError, match=why):
            save(owner, {"n": 2})
        with (
            BlockingClient.redis(server.url, prefix="lastgood:new") as first,
            pytest.raises(TransientStorageError, match=why),
        ):
            first.threads()
    finally:
        and_again(server)
    assert owner.latest(agent_id="a", session_id="order").state == {"n": 1}
