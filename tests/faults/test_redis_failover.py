"""A planned failover behind one address: the old primary lives on as a replica, and whoever is
connected to it stays connected.
"""

import time

import pytest

from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.redis_harness import RedisHarness
from lastgood.testing.servers import Redis62Server, ValkeyServer
from lastgood.testing.store import COLOURS, Colour, Store
from lastgood.testing.suite import run_body

pytestmark = pytest.mark.server


def follow(replica: ValkeyServer, primary: ValkeyServer) -> None:
    """Have one follow the other, and wait until it has all."""
    replica.ask("REPLICAOF", "127.0.0.1", str(primary.port))
    until = time.monotonic() + 20
    while b"master_link_status:up" not in replica.ask("INFO", "replication"):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("kind", [ValkeyServer, Redis62Server])
@pytest.mark.parametrize("colour", COLOURS)
def test_a_client_goes_on_with_the_new_primary(
    colour: Colour, kind: type[ValkeyServer], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with kind(tcp=True) as old, kind(tcp=True) as new:
        follow(new, old)
        with Proxy(old.url) as proxy:

            async def body(store: Store) -> None:
                client = store.client()
                await client.save("a", session_id="s", execution_state={"n": 1})
                assert old.ask("WAIT", "1", "10000") == 1
                new.ask("REPLICAOF", "NO", "ONE")
                proxy.lead_to(new.url)
                old.ask("REPLICAOF", "127.0.0.1", str(new.port))
                began = time.monotonic()
                await client.save("a", session_id="s", execution_state={"n": 2})
                await client.save("b", session_id="s", execution_state={"n": 3})
                assert time.monotonic() - began < 15
                assert [header.seq for header in await client.log("s")] == [3, 2, 1]

            harness = RedisHarness(tmp_path_factory.mktemp("failover"), proxy.url)
            run_body(body, harness, colour)
