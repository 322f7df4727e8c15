"""What the log of a lane costs the server where others have saved most of the thread."""

from collections.abc import Callable

import pytest
import redis

from lastgood import BlockingClient
from lastgood.testing.servers import ValkeyServer

pytestmark = [pytest.mark.server("valkey"), pytest.mark.slow]


def commands(server: "redis.Redis", work: Callable[[], object]) -> int:
    """How many commands the server carries out for a piece of work, those in scripts too."""
    server.config_resetstat()
    work()
    return sum(int(each["calls"]) for each in server.info("commandstats").values())


def test_a_lane_of_few_costs_the_same_however_many_others_have() -> None:
    """On a server of its own: it counts for all who use it."""
    with (
        ValkeyServer() as place,
        redis.Redis.from_url(place.url) as server,
        BlockingClient.redis(place.url) as client,
    ):
        for number in range(10):
            client.save("own", session_id="s", execution_state={"n": number})

        def fill(count: int) -> None:
            with client.run("s", agent_id="other", initial={}) as run:
                for number in range(count):
                    run.save({"n": number})

        def log() -> None:
            assert len(client.log("s", agent_id="own", limit=20)) == 10

        fill(2_000)
        before = commands(server, log)
        fill(4_000)
        assert commands(server, log) <= before * 1.2
