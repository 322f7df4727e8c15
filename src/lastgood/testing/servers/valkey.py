"""Valkey, and Redis 6.2, which takes the same settings.

It listens on a unix socket in its directory; with `tcp`, on the loopback interface instead.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from lastgood.testing.servers import resp
from lastgood.testing.servers.ports import free_port
from lastgood.testing.servers.process import Server
from lastgood.testing.servers.programs import redis62_program, valkey_program


class ValkeyServer(Server):
    """A Valkey. With `fsync` it has every write on disk before it answers, else none ever."""

    name = "Valkey"
    death_signal = signal.SIGKILL

    def __init__(
        self,
        *,
        fsync: bool = False,
        tcp: bool = False,
        password: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._program = self.find_program()
        super().__init__()
        self.password = password
        self.socket = self.directory / "socket"
        self.port = free_port() if tcp else 0
        self.settings = {
            **self._network(),
            "dir": str(self.directory),
            "save": "",
            "appendonly": "yes" if fsync else "no",
            "appendfsync": "always" if fsync else "no",
            **({"requirepass": password} if password else {}),
            **(settings or {}),
        }

    def find_program(self) -> Path:
        """The program to start. Raises ServerMissing."""
        return valkey_program()

    @property
    def url(self) -> str:
        secret = f":{quote(self.password, safe='')}@" if self.password else ""
        if self.port:
            return f"redis://{secret}127.0.0.1:{self.port}/0"
        return f"unix://{secret}{self.socket}?db=0"

    def _network(self) -> dict[str, str]:
        if self.port:
            return {"bind": "127.0.0.1", "port": str(self.port)}
        return {"port": "0", "unixsocket": str(self.socket), "unixsocketperm": "700"}

    def command(self) -> Sequence[str | Path]:
        options = [(f"--{name}", value) for name, value in self.settings.items()]
        return [self._program, *(word for option in options for word in option)]

    def answers(self) -> bool:
        try:
            return self.ask("PING") == b"PONG"
        except (OSError, resp.ReplyError):
            return False

    def ask(self, *words: str) -> resp.Reply:
        """The reply to a command. Raises OSError, ReplyError."""
        address = ("127.0.0.1", self.port) if self.port else self.socket
        return resp.ask(address, *words, password=self.password)


class Redis62Server(ValkeyServer):
    """A Redis 6.2, the oldest server that we support."""

    name = "Redis 6.2"

    def find_program(self) -> Path:
        return redis62_program()
