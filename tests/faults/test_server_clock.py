"""A host that was stopped, or a server whose clock was set: what this process believes the server's
time to be is wrong, and nothing is stored by it.
"""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from lastgood import BlockingClient
from lastgood.backends.remote import backend as remote
from lastgood.backends.remote import clock

HOUR = 3600
PLACES = ("postgres", "valkey", "redis62", "cluster")


class Host:
    """A clock of ours that can be stopped for a while."""

    def __init__(self) -> None:
        self.stopped = 0
        self._ticks = clock.ticks

    def __call__(self) -> int:
        return self._ticks() - self.stopped * 1_000_000


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    one = Host()
    monkeypatch.setattr(remote, "ticks", one)
    monkeypatch.setattr(clock, "ticks", one)
    return one


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.server(kind)) for kind in PLACES])
def opened(request: pytest.FixtureRequest) -> Callable[[], BlockingClient]:
    url, name = request.getfixturevalue(f"{request.param}_url"), f"clock_{uuid4().hex[:12]}"
    if request.param == "postgres":
        return lambda: BlockingClient.postgres(url, schema=name, heartbeat_seconds=600)
    return lambda: BlockingClient.redis(url, prefix=name, heartbeat_seconds=600)


def save(client: BlockingClient, thread: str, **options: Any) -> str:
    return client.save("a", session_id=thread, execution_state={"n": 1}, **options)


@pytest.mark.parametrize("stopped", [HOUR, -HOUR], ids=["behind", "ahead"])
def test_a_save_lives_as_long_as_it_is_to(
    opened: Callable[[], BlockingClient], host: Host, stopped: int
) -> None:
    with opened() as client, opened() as other:
        save(client, "s")
        assert client.latest(agent_id="a", session_id="new") is None
        host.stopped += stopped
        for thread in ("s", "new", "s", "s", "s", "s"):
            found = other.restore(save(client, thread, ttl_seconds=600))
            left = (found.expires_at - found.created_at).total_seconds()
            assert 590 < left < 610
        assert other.verify(data=True).clean


def test_a_run_is_alive_and_what_it_saves_is_there(
    opened: Callable[[], BlockingClient], host: Host
) -> None:
    with opened() as client, opened() as other:
        save(client, "before")
        host.stopped += HOUR
        with client.run("s", initial={"n": 0}, ttl_seconds=600) as run:
            for number in range(5):
                assert other.latest(agent_id="agent", session_id="s").state == {"n": number}
                run.save({"n": number + 1})
            assert other.threads(status="running")[0].thread_id == "s"
