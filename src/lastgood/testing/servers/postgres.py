"""PostgreSQL on a unix socket in its directory, with a superuser `postgres`.

It refuses to run as root. There it runs as `nobody`, from a copy of its programs: those of a
wheel may lie below a directory that only root may enter.
"""

from __future__ import annotations

import shutil
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from lastgood.testing.servers.process import Server
from lastgood.testing.servers.programs import postgres_programs

PORT = 5432
"""Part of the socket's name; nothing listens on a port."""

UNSAFE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""Without syncs a test run is quicker, and only a power cut would tell."""

SETTINGS = {"listen_addresses": "", "max_connections": "200", "autovacuum": "off"}


class PostgresServer(Server):
    """A PostgreSQL with an empty database. With `fsync` it keeps what it promises by default.

    `programs` is the directory of another version's `initdb` and `postgres`; with a `password`,
    clients must give it.
    """

    name = "PostgreSQL"
    death_signal = signal.SIGQUIT
    stop_signal = signal.SIGINT
    refuses_root = True

    def __init__(
        self,
        *,
        fsync: bool = False,
        password: str | None = None,
        settings: Mapping[str, str] | None = None,
        programs: Path | None = None,
    ) -> None:
        self._programs = programs or postgres_programs()
        super().__init__()
        self.password = password
        self.data = self.directory / "data"
        self.socket = self.directory / f".s.PGSQL.{PORT}"
        self.settings = {**SETTINGS, **({} if fsync else UNSAFE), **(settings or {})}

    @property
    def url(self) -> str:
        secret = f":{quote(self.password, safe='')}" if self.password else ""
        host = quote(str(self.directory), safe="")
        return f"postgresql://postgres{secret}@/postgres?host={host}&port={PORT}"

    def prepare(self) -> None:
        if self.identity():
            self._programs = _copied(self._programs, self.directory)
        secret = self.directory / "secret"
        secret.write_text(f"{self.password}\n")
        self.hand_over()
        method = [f"--pwfile={secret}", "--auth=scram-sha-256"] if self.password else ["-Atrust"]
        options = ["--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]
        self.run([self._programs / "initdb", "-D", self.data, *options, *method])
        secret.unlink()

    def command(self) -> Sequence[str | Path]:
        options = [("-c", f"{name}={value}") for name, value in self.settings.items()]
        return [
            self._programs / "postgres",
            *("-D", self.data, "-k", self.directory, "-p", str(PORT)),
            *(word for option in options for word in option),
        ]

    def answers(self) -> bool:
        return accepts_sessions(self.socket)

    def starts_later(self) -> bool:
        """After kill -9 the sessions of the killed server take a moment to notice."""
        return "pre-existing shared memory block" in self.log_tail()


def accepts_sessions(path: Path) -> bool:
    """Whether the PostgreSQL behind a socket takes a session, or asks for a password."""
    wanted = b"user\0postgres\0database\0postgres\0\0"
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(path))
            connection.sendall(struct.pack("!ii", len(wanted) + 8, 3 << 16) + wanted)
            return connection.recv(1) == b"R"
    except OSError:
        return False


def _copied(programs: Path, directory: Path) -> Path:
    """A copy of an installation that another user can reach; gives its programs.

    The programs of the wheel look for their libraries beside the package, three levels up.
    """
    home = programs.parent
    libraries = home.parent.parent / f"{home.parent.name}.libs"
    if not libraries.exists():
        return programs  # of the system: everybody may run them
    site = directory / "site"
    copy = site / home.parent.name / home.name
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("include", "*.a"), symlinks=True)
    shutil.copytree(libraries, site / libraries.name, symlinks=True)
    return copy / "bin"
