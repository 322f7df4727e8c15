"""Clock jumps: the order and the head never follow a clock; nothing expires while the clock is
behind; and what had expired does not come back.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood import BlockingClient, CheckpointExpiredError, CheckpointNotFoundError
from lastgood.backends.files.backend import FilesBackend
from lastgood.backends.sqlite.backend import SqliteBackend

SECOND = 10**9
HOUR, YEAR = 3600 * SECOND, 365 * 86400 * SECOND
NOON = 1_800_000_000 * SECOND
JUMPS = {"-1 h": -HOUR, "-10 y": -10 * YEAR, "+10 y": 10 * YEAR}


class Clock:
    """A clock that can be set."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The host's clock: the store's, and the one that stamps ids and checkpoints."""
    one = Clock()
    monkeypatch.setattr("time.time_ns", one)
    return one


Opened = Callable[[], BlockingClient]
STORES = {"sqlite": SqliteBackend, "files": FilesBackend}


@pytest.fixture(params=STORES.values(), ids=STORES)
def open_store(request: pytest.FixtureRequest, place: Path, clock: Clock) -> Opened:
    return lambda: BlockingClient.on(request.param(place / "store", clock=clock))


@pytest.fixture
def client(open_store: Opened) -> BlockingClient:
    return open_store()


def save(client: BlockingClient, number: int, **options: object) -> str:
    return client.save("solo", session_id="t", execution_state={"n": number}, **options)


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_order_and_head_do_not_follow_the_clock(
    jump: int, client: BlockingClient, clock: Clock, open_store: Opened
) -> None:
    ids = []
    for number in range(12):
        clock.now += SECOND + (jump if number % 4 == 2 else 0) - (jump if number % 4 == 3 else 0)
        ids.append(save(client, number))
        assert client.latest(agent_id="solo", session_id="t").checkpoint_id == ids[-1]
    for reader in (client, open_store()):
        assert [c.checkpoint_id for c in reader.timeline("solo", "t")] == ids[::-1]
        assert [header.seq for header in reader.log("t")] == list(range(12, 0, -1))
        assert [header.parent_id for header in reader.log("t")] == [*ids[-2::-1], None]
        reader.close()


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_a_run_goes_on_whatever_the_clock_does(
    jump: int, client: BlockingClient, clock: Clock
) -> None:
    with client.run("t", initial={"items": []}) as run:
        run.append("items", 1)
        clock.now += jump
        run.append("items", 2)
        clock.now -= 2 * jump
        run.append("items", 3)
    with client.run("t") as run:
        assert run.state == {"items": [1, 2, 3]}
    client.close()


@pytest.mark.parametrize("jump", [-HOUR, -10 * YEAR], ids=["-1 h", "-10 y"])
def test_nothing_expires_early_while_the_clock_is_behind(
    jump: int, client: BlockingClient, clock: Clock
) -> None:
    first = save(client, 1, ttl_seconds=100)
    clock.now += jump
    second = save(client, 2, ttl_seconds=100)
    clock.now += 99 * SECOND
    assert {c.checkpoint_id for c in client.timeline("solo", "t")} == {first, second}
    clock.now = NOON + 99 * SECOND
    assert {c.checkpoint_id for c in client.timeline("solo", "t")} == {first, second}
    clock.now = NOON + 101 * SECOND
    assert client.timeline("solo", "t") == []
    client.close()


def test_a_ttl_counts_from_the_newest_time_in_the_file(
    client: BlockingClient, clock: Clock
) -> None:
    """A save after the clock was set back lives its full time once the clock is right again."""
    client.save("solo", session_id="other", execution_state={"n": 0})
    clock.now -= 10 * YEAR
    id = save(client, 1, ttl_seconds=3600)
    clock.now = NOON + 1800 * SECOND
    assert client.restore(id).state == {"n": 1}
    client.close()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same thread", "another thread"])
def test_what_had_expired_does_not_come_back(
    elsewhere: bool, client: BlockingClient, clock: Clock, open_store: Opened
) -> None:
    kept = save(client, 1)
    gone = save(client, 2, ttl_seconds=3600)
    clock.now += 10 * YEAR
    with pytest.raises(CheckpointExpiredError):
        client.restore(gone)
    if elsewhere:
        client.save("solo", session_id="other", execution_state={"n": 0})
    else:
        client.save("other", session_id="t", execution_state={"n": 0})
    clock.now = NOON
    for reader in (client, open_store()):
        with pytest.raises(CheckpointNotFoundError):
            reader.restore(gone)
        assert reader.latest(agent_id="solo", session_id="t").checkpoint_id == kept
        assert [c.checkpoint_id for c in reader.timeline("solo", "t")] == [kept]
        reader.close()


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_what_was_removed_stays_removed(jump: int, client: BlockingClient, clock: Clock) -> None:
    first, second = save(client, 1), save(client, 2)
    client.expire(second)
    clock.now += jump
    assert client.latest(agent_id="solo", session_id="t").checkpoint_id == first
    with pytest.raises(CheckpointNotFoundError):
        client.restore(second)
    client.delete("t")
    clock.now -= jump
    assert client.latest(agent_id="solo", session_id="t") is None
    client.close()


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_a_save_can_follow_a_head_whose_time_is_over(
    jump: int, client: BlockingClient, clock: Clock
) -> None:
    save(client, 1)
    save(client, 2, ttl_seconds=60)
    clock.now += jump
    third = save(client, 3)
    clock.now += HOUR
    assert client.latest(agent_id="solo", session_id="t").checkpoint_id == third
    client.close()
