"""PgBouncer in transaction mode before a PostgreSQL: every transaction may get another session.

The program is the one on the path, or of Debian's package, unpacked for us alone. Where neither can
be had there is none, and no test may depend on it.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from lastgood.testing.servers import postgres
from lastgood.testing.servers.packages import unpacked
from lastgood.testing.servers.process import Server
from lastgood.testing.servers.programs import ServerMissing

PORT = 6432
SETTINGS = """
[databases]
* = host={host} port={port}

[pgbouncer]
unix_socket_dir = {directory}
listen_port = {own_port}
auth_type = trust
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits
logfile = {directory}/pgbouncer.log
"""


class PgBouncer(Server):
    """A pooler with at most `pool_size` sessions on a server that asks for no password."""

    name = "PgBouncer"
    stop_signal = signal.SIGINT
    refuses_root = True

    def __init__(self, server: postgres.PostgresServer, *, pool_size: int = 4) -> None:
        self._program = _program()
        super().__init__()
        self.server = server
        self.pool_size = pool_size
        self.socket = self.directory / f".s.PGSQL.{PORT}"
        self.settings = self.directory / "pgbouncer.ini"

    @property
    def url(self) -> str:
        host = quote(str(self.directory), safe="")
        return f"postgresql://postgres@/postgres?host={host}&port={PORT}"

    def prepare(self) -> None:
        if self.identity() and _unpacked_root(self._program):
            self._program = _copied(self._program, self.directory)
        (self.directory / "users").write_text('"postgres" ""\n')
        self.settings.write_text(
            SETTINGS.format(
                host=self.server.directory,
                port=postgres.PORT,
                directory=self.directory,
                own_port=PORT,
                pool_size=self.pool_size,
            )
        )
        self.hand_over()

    def command(self) -> Sequence[str | Path]:
        return [self._program, self.settings]

    def environment(self) -> dict[str, str]:
        root = _unpacked_root(self._program)
        libraries = {str(path.parent) for path in root.rglob("lib*.so.*")} if root else set()
        return {**super().environment(), "LD_LIBRARY_PATH": ":".join(sorted(libraries))}

    def answers(self) -> bool:
        return postgres.accepts_sessions(self.socket)


def _program() -> Path:
    on_path = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if on_path:
        return Path(on_path)
    root = unpacked("pgbouncer")
    if root is None:
        raise ServerMissing(
            "PgBouncer is not on this machine and cannot be fetched: apt-get install pgbouncer",
            required=False,
        )
    return root / "usr" / "sbin" / "pgbouncer"


def _unpacked_root(program: Path) -> Path | None:
    """The directory that a package was unpacked in; None for a program of the system."""
    root = program.parents[2]
    return None if root == Path("/") else root


def _copied(program: Path, directory: Path) -> Path:
    """A copy of an unpacked package that another user can reach."""
    root = program.parents[2]
    shutil.copytree(root, directory / "site", symlinks=True)
    return directory / "site" / program.relative_to(root)
