"""Sweeps and surveys of streams of thousands of parts: what they cost, and what they find."""

from collections.abc import Callable
from typing import Any

import pytest
import redis

from lastgood import BlockingClient
from lastgood.testing.servers import ValkeyServer

pytestmark = [pytest.mark.server, pytest.mark.slow]


def long(count: int) -> list[str]:
    """Each of them is a page of its own."""
    return [f"{number:06} " * 160 for number in range(count)]


def whole_reads(server: Any, work: Callable[[], object]) -> int:
    """How often all names of a table are read for a piece of work."""
    server.config_resetstat()
    work()
    return int(server.info("commandstats").get("cmdstat_hkeys", {"calls": 0})["calls"])


def test_a_page_of_a_long_stream_does_not_take_all_of_it() -> None:
    with (
        ValkeyServer() as place,
        redis.Redis.from_url(place.url) as server,
        BlockingClient.redis(place.url) as client,
    ):
        taken = []
        for count in (5_000, 25_000):
            thread = f"s{count}"
            gone = client.save("a", session_id=thread, execution_state={"x": long(count)})
            client.save("a", session_id=thread, execution_state={"x": long(count)[:-3]})
            client.expire(gone)
            taken.append(whole_reads(server, lambda name=thread: client.sweep(name)))
            assert client.verify(thread, data=True).clean
        assert taken[1] <= taken[0] + 2


def test_parts_behind_a_gap_are_found() -> None:
    with ValkeyServer() as place, BlockingClient.redis(place.url) as client:
        first = {"x": long(10_000), "y": long(5_000)}
        gone = client.save("a", session_id="s", execution_state=first)
        left = {"x": first["x"][-10:], "y": first["y"]}
        client.save("a", session_id="s", execution_state=left)
        client.expire(gone)
        assert client.sweep("s").parts > 9_900
        again = client.save("a", session_id="s", execution_state={"x": left["x"][:5], "y": ["-"]})
        client.expire(client.log("s")[1].checkpoint_id)
        assert client.sweep("s").parts > 4_900
        assert client.verify("s", data=True).clean
        assert client.restore(again).state == {"x": left["x"][:5], "y": ["-"]}
        assert client.sweep("s").parts == 0
