"""A server that cannot be used says so at once, and shows no secret; one that can tells truthfully
what it keeps.
"""

import asyncio
import socket
import time
import traceback
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
import redis

from lastgood import (
    BackendConnectionError,
    BlockingClient,
    Client,
    IncompatibleCheckpointError,
    LastgoodError,
    StorageFullError,
)
from lastgood.backends.redis.durability import judged
from lastgood.cli import main
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.servers import Redis62Server, ValkeyCluster, ValkeyServer
from lastgood.testing.store import COLOURS, Colour

SECRET = "hunter2@the/gate#1"
PIECES = (SECRET, quote(SECRET, safe=""), "hunter2")

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def guarded() -> Iterator[ValkeyServer]:
    with ValkeyServer(password="right", tcp=True) as server:
        yield server


@pytest.fixture
def silent() -> Iterator[int]:
    """A port on which somebody listens and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield listener.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def tried(url: str, colour: Colour) -> LastgoodError:
    """The error of the first call."""
    if colour == "blocking":
        with pytest.raises(LastgoodError) as caught:
            BlockingClient.redis(url).threads()
        return caught.value

    async def call() -> None:
        await Client.redis(url).threads()

    with pytest.raises(LastgoodError) as caught:
        asyncio.run(call())
    return caught.value


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("wrong", ["password", "user", "none", "port", "name", "silent", "socket"])
def test_a_wrong_address_is_told_at_once_and_without_a_secret(
    wrong: str,
    colour: Colour,
    guarded: ValkeyServer,
    silent: int,
    closed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lastgood.backends.redis.clients.REPLY_SECONDS", 1)
    password = quote(SECRET, safe="")
    url, says = {
        "password": (f"redis://:{password}@127.0.0.1:{guarded.port}", "invalid username-password"),
        "user": (f"redis://nobody:{password}@127.0.0.1:{guarded.port}", "username-password"),
        "none": (f"redis://127.0.0.1:{guarded.port}", "Authentication required"),
        "port": (f"redis://:{password}@127.0.0.1:{closed}/0", "111 connecting"),
        "name": (f"redis://:{password}@no.such.host.invalid", "no.such.host.invalid"),
        "silent": (f"redis://:{password}@127.0.0.1:{silent}", "imeout"),
        "socket": (f"unix://:{password}@/nowhere/socket", "/nowhere/socket"),
    }[wrong]
    began = time.monotonic()
    error = tried(url, colour)
    assert time.monotonic() - began < 6
    assert isinstance(error, BackendConnectionError)
    assert says in str(error)
    told = "".join(traceback.format_exception(error)) + repr(error)
    assert [piece for piece in PIECES if piece in told] == []


def test_an_address_of_another_kind_is_refused() -> None:
    for url in ("http://localhost", "localhost:6379", f"redis://:{SECRET}@localhost:6379"):
        with pytest.raises(ValueError, match="redis://") as caught:
            BlockingClient.redis(url)
        told = "".join(traceback.format_exception(caught.value))
        assert "the/gate" not in told
    with pytest.raises(ValueError, match="durability"):
        BlockingClient.redis(durability="relaxed")
    with pytest.raises(ValueError, match='write "strict"'):
        BlockingClient.open("redis://localhost", durability="relaxed")
    with pytest.raises(TypeError, match=r"takes an address .* not redis\.client\.Redis"):
        BlockingClient.redis(redis.Redis())
    with pytest.raises(ValueError, match="pool_size must be 1 or more"):
        BlockingClient.redis(pool_size=0)


@pytest.mark.parametrize("secret", ["hunter@2?x#y", "hunter@2?x", "hunt@er#2", "h?u=n@ter2"])
def test_no_piece_of_a_password_becomes_a_host(secret: str) -> None:
    """It was not written as it should be, and is cut at the wrong place."""
    for make in (
        BlockingClient.redis,
        BlockingClient.open,
        lambda url: BlockingClient.postgres("postgresql://h/db", cache=url),
    ):
        with pytest.raises(ValueError, match="not the address of a Redis server") as caught:
            make(f"redis://:{secret}@localhost:6379/0")
        assert not any(piece in str(caught.value) for piece in ("hunt", "er2", "h?u", "2?x"))


@pytest.mark.parametrize("host", ["a..b", f"{'x' * 64}.example"])
def test_a_host_that_cannot_be_one_is_told_at_once(host: str) -> None:
    for make in (
        BlockingClient.redis,
        lambda url: BlockingClient.postgres("postgresql://h/db", cache=url),
    ):
        with pytest.raises(ValueError, match="not the address of a Redis server"):
            make(f"redis://{host}:6379/0")


def test_an_address_of_ipv6_is_shown_as_one() -> None:
    with BlockingClient.redis("redis://:secret@[::1]:6379/0") as client:
        assert client.url == "redis://[::1]:6379/0"


def test_an_option_that_does_not_exist_is_told_at_once() -> None:
    for ours in ("prefix", "pool_size"):
        words = rf"Pass {ours}=\.\.\. beside it, or use Client\.open, which takes \?{ours}="
        with pytest.raises(ValueError, match=words):
            BlockingClient.redis(f"redis://localhost?{ours}=2")
    with pytest.raises(ValueError, match="'sockettimeout'"):
        BlockingClient.open("redis://localhost?sockettimeout=3")
    for ours in ("decode_responses=True", "timeout=5", "protocol=3", "encoding=utf-16"):
        for url in (f"redis://localhost?{ours}", f"unix:///run/valkey.sock?{ours}"):
            with pytest.raises(ValueError, match=f"Leave '{ours.partition('=')[0]}' out"):
                BlockingClient.redis(url)
        with pytest.raises(ValueError, match="sets it by itself"):
            BlockingClient.postgres("postgresql://h/db", cache=f"redis://localhost?{ours}")
    options = "socket_timeout=3&health_check_interval=9&max_connections=4"
    for scheme in ("redis://localhost", "rediss://localhost", "unix:///run/valkey.sock"):
        BlockingClient.open(f"{scheme}?{options}").close()
    BlockingClient.open("rediss://localhost?ssl_cert_reqs=none").close()


@pytest.mark.parametrize("colour", COLOURS)
def test_a_database_that_is_not_there(
    guarded: ValkeyServer, cluster_url: str, colour: Colour
) -> None:
    for url in (f"{guarded.url[:-1]}99", f"{cluster_url}/1"):
        error = tried(url, colour)
        assert isinstance(error, BackendConnectionError)
        assert "A Cluster has 0 only" in error.hint


LEVELS = {
    "strict": ({"appendonly": "yes", "appendfsync": "always"}, "strict"),
    "every second": ({"appendonly": "yes", "appendfsync": "everysec"}, "window"),
    "not always": (
        {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "yes"},
        "window",
    ),
    "snapshots": ({"save": "900 1"}, "window"),
    "nothing": ({}, "cache"),
    "evicting": (
        {
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory": "100mb",
            "maxmemory-policy": "allkeys-lru",
        },
        "cache",
    ),
}


@pytest.mark.parametrize("make", [ValkeyServer, Redis62Server])
@pytest.mark.parametrize("level", LEVELS)
def test_durability_is_read_from_the_server(level: str, make: type[ValkeyServer]) -> None:
    settings, expected = LEVELS[level]
    with make() as server:
        for name, value in settings.items():
            server.ask("CONFIG", "SET", name, value)
        with BlockingClient.redis(server.url) as client:
            assert client.durability == "unknown", "nobody has asked yet"
            client.threads()
            assert client.durability == expected
        with BlockingClient.redis(server.url, durability="strict") as strict:
            if expected == "strict":
                strict.threads()
            else:
                with pytest.raises(BackendConnectionError, match=f"'{expected}'.*appendfsync"):
                    strict.save("a", session_id="s", execution_state={})
        with BlockingClient.redis(server.url) as client:
            assert len(client.threads()) == 0
        server.kill()  # one that has just begun an append-only file takes long to end by itself


def test_a_server_that_keeps_its_settings_to_itself(guarded: ValkeyServer) -> None:
    """As managed ones do: nothing is assumed, and nothing else is missing."""
    rules = ["on", ">pass", "~*", "+@all", "-config"]
    with redis.Redis.from_url(guarded.url) as admin:
        admin.execute_command("ACL", "SETUSER", "worker", *rules)
    url = f"redis://worker:pass@127.0.0.1:{guarded.port}"
    with BlockingClient.redis(url) as client:
        saved = client.save("a", session_id="s", execution_state={"n": 1})
        assert client.durability == "unknown"
        assert client.restore(saved).state == {"n": 1}
    with (
        BlockingClient.redis(url, durability="strict") as strict,
        pytest.raises(BackendConnectionError, match="unknown"),
    ):
        strict.threads()


@pytest.mark.parametrize("colour", COLOURS)
def test_a_connection_that_is_lost_says_nothing_about_settings(colour: Colour) -> None:
    with ValkeyServer(fsync=True, tcp=True) as server, Proxy(server.url) as proxy:
        proxy.cut_before(match=b"CONFIG")
        error = tried(proxy.url, colour)
        assert isinstance(error, BackendConnectionError)
        assert "that a server runs" in str(error)
        with BlockingClient.redis(proxy.url, durability="strict") as client:
            client.threads()
            assert client.durability == "strict"


def test_a_cluster_is_as_durable_as_its_weakest_node() -> None:
    with ValkeyCluster(fsync=True) as cluster:
        with BlockingClient.redis(cluster.url, durability="strict") as client:
            client.threads()
            assert client.durability == "strict"
        cluster.nodes[2].ask("CONFIG", "SET", "appendfsync", "everysec")
        with BlockingClient.redis(cluster.url) as client:
            client.threads()
            assert client.durability == "window"


def test_eviction_needs_a_limit() -> None:
    assert judged({"maxmemory": "0", "maxmemory-policy": "allkeys-lru", "save": "1 1"}) == "window"


@pytest.mark.parametrize(
    ("number", "advice"), [(99, "Upgrade lastgood"), (1, "the version that wrote it")]
)
def test_a_store_of_another_format_is_refused(valkey_url: str, number: int, advice: str) -> None:
    """An older one has no lists of users' threads: who asked for one would get it without them."""
    prefix = f"f-{uuid4().hex[:12]}"
    with redis.Redis.from_url(valkey_url) as raw:
        raw.hset(f"{prefix}:meta", mapping={"format": number})
        try:
            for call in (
                lambda client: client.threads(user="ada"),
                lambda client: client.save("a", session_id="s", execution_state={}),
            ):
                with (
                    BlockingClient.redis(valkey_url, prefix=prefix) as client,
                    pytest.raises(
                        IncompatibleCheckpointError, match=f"has format {number}.*{advice}"
                    ),
                ):
                    call(client)
            (key,) = raw.scan_iter(f"{prefix}:*")
            assert raw.hget(key, "format") == b"%d" % number
        finally:
            raw.unlink(f"{prefix}:meta")


def test_a_full_server_says_so_and_loses_nothing() -> None:
    """With `noeviction`, which is the default: the save raises, removing still works."""
    with ValkeyServer() as server, BlockingClient.redis(server.url) as client:
        first = client.save("a", session_id="s", execution_state={"n": 1})
        other = client.save("a", session_id="other", execution_state={"n": 1})
        server.ask("CONFIG", "SET", "maxmemory", "1mb")
        for state in ({"n": 2}, {"image": bytes(3_000_000)}):
            with pytest.raises(StorageFullError):
                client.save("a", session_id="s", execution_state=state)
        assert client.latest(agent_id="a", session_id="s").checkpoint_id == first
        assert client.expire(other)
        assert client.delete("other")
        server.ask("CONFIG", "SET", "maxmemory", "0")
        client.save("a", session_id="s", execution_state={"n": 2})
        assert [c.state["n"] for c in client.timeline("a", "s")] == [2, 1]
        assert client.verify(data=True).clean


@pytest.mark.parametrize("make", [ValkeyServer, Redis62Server])
def test_who_comes_new_to_a_full_server_can_read_and_remove(make: type[ValkeyServer]) -> None:
    large = {"items": [f"{n} " * 100 for n in range(60)]}
    vast = {"image": bytes(range(256)) * 8192}
    with make() as server, BlockingClient.redis(server.url) as owner:
        saved = owner.save("a", session_id="s", execution_state=large)
        owner.save("a", session_id="s", execution_state={})
        server.ask("CONFIG", "SET", "maxmemory", "100kb")
        with BlockingClient.redis(server.url) as client:
            assert client.restore(saved).state == large
            for state, thread in product(({"n": 1}, large, vast), ("s", "new")):
                with pytest.raises(StorageFullError):
                    client.save("a", session_id=thread, execution_state=state)
            assert client.verify(data=True).clean
            assert client.expire(saved)
            assert client.delete("s")
            assert len(client.threads()) == 0
        server.ask("CONFIG", "SET", "maxmemory", "0")
        owner.save("a", session_id="s", execution_state=large)
        assert owner.verify(data=True).clean


def test_the_doctor_tells_what_a_server_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    with ValkeyServer(password=SECRET) as server:
        assert main(["doctor", "--store", server.url]) == 0
        told = capsys.readouterr().out
        assert "warning  durability" in told
        assert "cache: nothing is kept" in told
        assert "(appendonly no, save (empty))" in told
        assert "ok       server      Valkey " in told
        server.ask("CONFIG", "SET", "appendonly", "yes")
        server.ask("CONFIG", "SET", "appendfsync", "always")
        assert main(["doctor", "--store", server.url]) == 0
        told += capsys.readouterr().out
        assert "ok       durability" in told
        assert "(appendonly yes, appendfsync always)" in told
        server.kill()
    assert main(["doctor", "--store", server.url]) == 1
    told += capsys.readouterr().out
    assert "cannot be used" in told
    assert [piece for piece in PIECES if piece in told] == []


def test_verify_tells_of_hints_that_are_lost(valkey_url: str) -> None:
    prefix = f"v-{uuid4().hex[:12]}"
    with (
        redis.Redis.from_url(valkey_url) as raw,
        BlockingClient.redis(valkey_url, prefix=prefix) as client,
    ):
        for name in ("a", "b"):
            client.save("a", session_id=name, execution_state={})
        assert client.verify().clean
        for pattern in ("i:*", "*:name"):
            for key in raw.scan_iter(f"{prefix}:{pattern}"):
                raw.unlink(key)
        report = client.verify()
        assert [problem.kind for problem in report.problems] == ["index", "index"]
        assert report.exit_code == 1
        assert "the list by name, the index of ids (1 checkpoints)" in str(report)
        for key in raw.scan_iter(f"{prefix}:*"):
            raw.unlink(key)


@pytest.mark.parametrize("make", [ValkeyServer, Redis62Server])
def test_a_user_with_few_rights_can_do_everything(make: type[ValkeyServer]) -> None:
    """Those that the page about Redis names."""
    rules = ["on", ">pass", "~lastgood:*", "+@all", "-@dangerous", "+info", "+config|get"]
    with make(tcp=True) as server:
        server.ask("ACL", "SETUSER", "worker", *rules)
        with BlockingClient.redis(f"redis://worker:pass@127.0.0.1:{server.port}") as client:
            saved = client.save("a", session_id="s", execution_state={"x": ["y" * 90] * 30_000})
            client.save("a", session_id="s", execution_state={}, ttl_seconds=9)
            assert client.durability == "cache"
            assert len(client.restore(saved).state["x"]) == 30_000
            assert client.expire(saved)
            assert client.verify(data=True).clean
            assert [info.thread_id for info in client.threads(sort="name")] == ["s"]
            assert client.delete("s")


def test_the_command_line_makes_no_store_by_looking(
    valkey_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    prefix = f"t-{uuid4().hex}"
    url = f"{valkey_url}{'&' if '?' in valkey_url else '?'}prefix={prefix}"
    copy = ["copy", url, str(tmp_path / "copy.db")]
    for words in (["threads", "--store", url], ["verify", "--store", url], copy):
        assert main(words) == 3
        told = capsys.readouterr().err
        assert f"No store here yet: {url} has no keys of Lastgood with prefix {prefix!r}." in told
    with redis.Redis.from_url(valkey_url) as server:
        assert server.keys(f"{prefix}*") == []
        with BlockingClient.redis(valkey_url, prefix=prefix) as client:
            client.save("a", session_id="s", execution_state={})
        server.delete(f"{prefix}:meta")  # as a server does that evicts
        assert main(["threads", "--store", url]) == 0
        server.delete(*server.keys(f"{prefix}*"))
