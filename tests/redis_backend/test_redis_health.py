"""A server that takes no saves: clients and the doctor say why, until it does again."""

import contextlib
import time
from pathlib import Path

import pytest

from lastgood import BlockingClient, StorageFullError
from lastgood.cli import main
from lastgood.testing.servers import Redis62Server, ValkeyServer
from lastgood.testing.servers.resp import ReplyError

pytestmark = pytest.mark.server

OBSTACLES: dict[str, tuple[tuple[str, ...], str]] = {
    "a replica": (("REPLICAOF", "127.0.0.1", "1"), "it is a replica of 127.0.0.1:1"),
    "no replicas": (("CONFIG", "SET", "min-replicas-to-write", "1"), "no replica follows it"),
    "no memory": (("CONFIG", "SET", "maxmemory", "1"), "its memory is full"),
}


@pytest.mark.parametrize("make", [ValkeyServer, Redis62Server])
@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_the_doctor_tells_why_a_server_takes_no_saves(
    obstacle: str, make: type[ValkeyServer], capsys: pytest.CaptureFixture[str]
) -> None:
    command, text = OBSTACLES[obstacle]
    with make() as server:
        with BlockingClient.redis(server.url) as client:
            client.save("a", session_id="s", execution_state={})
        assert main(["doctor", "--store", server.url]) == 0
        assert "refuses" not in capsys.readouterr().out
        server.ask(*command)
        assert main(["doctor", "--store", server.url]) == 1
        assert f"problem  writes      it refuses saves: {text}" in capsys.readouterr().out


@pytest.mark.parametrize("make", [ValkeyServer, Redis62Server])
def test_a_server_that_cannot_write_to_its_disk(
    make: type[ValkeyServer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It refuses saves until it can; reads go on, and nothing of a refused one is left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with make(settings={"dir": str(disk)}) as server:
        with BlockingClient.redis(server.url) as client:
            client.save("a", session_id="s", execution_state={"n": 1})
            server.ask("CONFIG", "SET", "save", "900 1")
            disk.rmdir()
            snapshot(server, b"err")
            with pytest.raises(StorageFullError, match="Look at the disk"):
                client.save("a", session_id="s", execution_state={"n": 2})
            with pytest.raises(StorageFullError, match="MISCONF"):
                client.delete("s")
            assert client.latest(agent_id="a", session_id="s").state == {"n": 1}
            assert main(["doctor", "--store", server.url]) == 1
            assert "it cannot write to its disk" in capsys.readouterr().out
            disk.mkdir()
            server.ask("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
            client.save("a", session_id="s", execution_state={"n": 2})
            assert [header.seq for header in client.log("s")] == [2, 1]
            assert client.verify(data=True).clean
        server.kill()


def snapshot(server: ValkeyServer, status: bytes) -> None:
    """Have one be made, and wait for how it ends."""
    with contextlib.suppress(ReplyError):  # some say at once that it cannot be
        server.ask("BGSAVE")
    until = time.monotonic() + 20
    while b"rdb_last_bgsave_status:" + status not in server.ask("INFO", "persistence"):
        assert time.monotonic() < until
        time.sleep(0.05)
