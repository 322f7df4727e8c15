"""The servers of one test run: each started once, when the first test that needs it was collected.

One process owns the fleet. The others, if any, read in its directory what became of the servers;
they leave there what they need. Invariant: what was asked for has an outcome before a test runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lastgood.testing.servers.addresses import VARIABLES
from lastgood.testing.servers.cluster import ValkeyCluster
from lastgood.testing.servers.pgbouncer import PgBouncer
from lastgood.testing.servers.places import make_place, remove_place
from lastgood.testing.servers.postgres import PostgresServer
from lastgood.testing.servers.process import ServerError
from lastgood.testing.servers.programs import ServerMissing
from lastgood.testing.servers.valkey import Redis62Server, ValkeyServer

OUTCOMES = "outcomes.json"
NEEDS = "needs-"


class Running(Protocol):
    """What the fleet knows of a server."""

    @property
    def url(self) -> str: ...
    def start(self) -> Any: ...
    def close(self) -> None: ...


class Outcome(NamedTuple):
    """What became of a kind of server: an address, or why there is none."""

    url: str = ""
    problem: str = ""
    missing: bool = False
    required: bool = True

    def address(self) -> str:
        """The address. Raises ServerMissing or ServerError."""
        if self.missing:
            raise ServerMissing(self.problem, required=self.required)
        if self.problem:
            raise ServerError(self.problem)
        return self.url


class Fleet:
    """The servers that this process has started for a test run."""

    def __init__(self) -> None:
        self.directory = make_place()
        self.outcomes: dict[str, Outcome] = {}
        self._servers: dict[str, Running] = {}
        self._makers: dict[str, Callable[[], Running]] = {
            "postgres": PostgresServer,
            "pgbouncer": self._pgbouncer,
            "valkey": ValkeyServer,
            "redis62": Redis62Server,
            "cluster": ValkeyCluster,
        }

    def provide(self, kinds: Iterable[str]) -> None:
        """Start what is not there yet, and write down what became of it."""
        for kind in sorted(set(kinds) - self.outcomes.keys()):
            self.outcomes[kind] = self._outcome(kind)
        write_outcomes(self.directory, self.outcomes)

    def needs(self) -> set[str]:
        """What other processes have asked for."""
        asked = [path.read_text().split() for path in self.directory.glob(f"{NEEDS}*")]
        return {kind for kinds in asked for kind in kinds}

    def close(self) -> None:
        """Stop every server, the last one first."""
        for server in reversed(self._servers.values()):
            server.close()
        self._servers.clear()
        remove_place(self.directory)

    def _outcome(self, kind: str) -> Outcome:
        elsewhere = os.environ.get(VARIABLES[kind])
        if elsewhere:
            return Outcome(elsewhere)
        try:
            return Outcome(self._started(kind).url)
        except ServerMissing as missing:
            return Outcome(problem=str(missing), missing=True, required=missing.required)
        except (ServerError, OSError) as error:
            return Outcome(problem=str(error))

    def _started(self, kind: str) -> Running:
        if kind not in self._servers:
            server = self._makers[kind]()
            try:
                server.start()
            except BaseException:
                server.close()
                raise
            self._servers[kind] = server
        return self._servers[kind]

    def _pgbouncer(self) -> PgBouncer:
        """In front of our own PostgreSQL, which is started for it if no test needs it."""
        server = self._started("postgres")
        assert isinstance(server, PostgresServer)
        return PgBouncer(server)


def write_needs(directory: Path, who: str, kinds: Iterable[str]) -> None:
    """Ask the owner of the fleet for servers."""
    (directory / f"{NEEDS}{who}").write_text(" ".join(sorted(kinds)))


def write_outcomes(directory: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Tell the other processes what became of the servers."""
    (directory / OUTCOMES).write_text(json.dumps(outcomes))


def read_outcomes(directory: Path) -> dict[str, Outcome]:
    """What became of the servers that were asked for."""
    told = json.loads((directory / OUTCOMES).read_text())
    return {kind: Outcome(*outcome) for kind, outcome in told.items()}
