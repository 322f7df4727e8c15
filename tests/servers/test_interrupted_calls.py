"""Who is interrupted in any step of a call to a server takes nothing along that others wait for."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lastgood import BlockingClient
from lastgood.backends.postgres import pools
from lastgood.backends.remote import crowd, turns
from lastgood.backends.remote.crowd import Crowd, Guest
from lastgood.backends.remote.room import Room
from lastgood.backends.remote.turns import Turns
from lastgood.driver import run_blocking

# An interrupt may hit between making a coroutine and starting it, or inside of a finalizer.
pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PLACES = ("/remote/", "/threading.py", "/contextlib.py")
POOLS = ("/postgres/pools.py", "/psycopg_pool/pool.py", "/redis/connection.py", "/queue.py")


def is_interrupted(step: int, places: tuple[str, ...], work: Callable[[], object]) -> bool:
    """Do it, with a KeyboardInterrupt in that step of the code of these places; False if it is done
    in fewer. Python looks for signals where a function begins, and after one in C.
    """
    left = step

    def interrupt(frame: Any, event: str, _: object) -> None:
        nonlocal left
        if event in ("call", "c_return") and any(p in frame.f_code.co_filename for p in places):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return left <= 0


def each_step(places: tuple[str, ...], work: Callable[[], object]) -> Iterator[int]:
    """Do it again and again, interrupted one step later each time."""
    step = 1
    while is_interrupted(step, places, work):
        yield step
        step += 1
    assert step > 10, "nothing was interrupted"


def in_another_thread(work: Callable[[], object]) -> None:
    """Do it there, without waiting for what nobody gives back."""
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(5)
    assert done, "another thread waits for what is lost"


def test_no_place_is_lost() -> None:
    room = Room(1, 0.3, lambda: RuntimeError("full"))

    def call() -> None:
        with room.blocking():
            pass

    for _ in each_step(PLACES, call):
        in_another_thread(call)


def test_who_comes_where_another_one_went_without_a_word_stands_in_the_row() -> None:
    row = Crowd(1)
    gone = Guest()
    assert row.enter(gone, 0)
    address = id(gone)
    del gone
    kept = [Guest()]
    while id(kept[-1]) != address and len(kept) < 100:
        kept.append(Guest())
    assert row.enter(kept[-1], 0)
    assert list(row) == [kept[-1]]


def test_no_turn_is_lost_that_others_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 60.0)
    monkeypatch.setattr(crowd, "LOOK_SECONDS", 0.02)
    both = Turns()
    others: list[threading.Thread] = []

    async def done() -> None:
        pass

    async def while_another_waits() -> None:
        profile = sys.getprofile()
        sys.setprofile(None)
        count = len(both.inside("t"))
        others.append(threading.Thread(target=lambda: run_blocking(both.take("t", done))))
        others[-1].daemon = True
        others[-1].start()
        while len(both.inside("t")) == count:
            pass
        sys.setprofile(profile)

    for _ in each_step(PLACES, lambda: run_blocking(both.take("t", while_another_waits))):
        while others:
            other = others.pop()
            other.join(5)
            assert not other.is_alive(), "it waits for a turn that nobody has"


@pytest.mark.server("postgres", "valkey")
@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_no_connection_is_lost(
    kind: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(pools, "CONNECT_SECONDS", 3)
    url = request.getfixturevalue(f"{'valkey' if kind == 'redis' else kind}_url")
    with getattr(BlockingClient, kind)(url, pool_size=1) as client:
        client.threads()
        for _ in each_step(POOLS, client.threads):
            in_another_thread(client.threads)
