"""How tests find the servers of their run: one environment variable for each kind.

A variable that was set before the run points to a server elsewhere, and none is started. The tests
must not need an empty one: each takes a schema or a key prefix that nobody else has.
"""

from __future__ import annotations

import os

from lastgood.testing.servers.programs import ServerMissing

VARIABLES = {
    "postgres": "LASTGOOD_TEST_POSTGRES_URL",
    "pgbouncer": "LASTGOOD_TEST_PGBOUNCER_URL",
    "valkey": "LASTGOOD_TEST_REDIS_URL",
    "redis62": "LASTGOOD_TEST_REDIS62_URL",
    "cluster": "LASTGOOD_TEST_CLUSTER_URL",
}


def address(kind: str) -> str:
    """The address of a server of this run. Raises ServerMissing."""
    variable = VARIABLES[kind]
    url = os.environ.get(variable)
    if not url:
        raise ServerMissing(
            f"No {kind} server was started for this test: mark it with "
            f"pytest.mark.server({kind!r}), or set {variable}"
        )
    return url
