"""What a store on Redis says of itself, and checkpoints that its threads do not know."""

from collections.abc import Iterator

import pytest

from lastgood import BlockingClient, CheckpointIntegrityError
from lastgood.backends.redis.backend import RedisBackend
from lastgood.backends.redis.keys import Keys, tag_of
from lastgood.backends.remote.queries import ThreadName
from tests.redis_backend.raw_place import RawPlace

pytestmark = pytest.mark.server("valkey", "cluster")


@pytest.fixture(params=["valkey", "cluster"])
def place(request: pytest.FixtureRequest) -> Iterator[RawPlace]:
    made = RawPlace(request.getfixturevalue(f"{request.param}_url"))
    with opened(made) as client:
        for number in range(3):
            client.save("a", session_id="s", execution_state={"n": number})
        assert client.verify().clean
    yield made
    made.close()


def opened(place: RawPlace) -> BlockingClient:
    return BlockingClient.on(RedisBackend(place.url, prefix=place.prefix))


def test_a_format_that_is_no_number(place: RawPlace) -> None:
    place.raw.hset(f"{place.prefix}:meta", "format", "x")
    with opened(place) as client:
        for ask in (lambda: client.restore("s@1"), client.verify):
            with pytest.raises(CheckpointIntegrityError, match="'format' is b'x'") as caught:
                ask()
            assert "Put back a copy" in caught.value.hint


def test_the_time_of_its_making(place: RawPlace) -> None:
    place.raw.hset(f"{place.prefix}:meta", "created_at", "x")
    with opened(place) as client:
        assert client.restore("s@3").state == {"n": 2}
        with pytest.raises(CheckpointIntegrityError, match="'created_at' is b'x'"):
            client.stats()
        (problem,) = client.verify().problems
    assert (problem.kind, problem.where, problem.repairable) == ("row", "store", True)


def test_a_checkpoint_with_a_number_that_was_never_given_out(place: RawPlace) -> None:
    thread = Keys(place.prefix).thread(tag_of(ThreadName("default", "s")))
    row = place.raw.hget(f"{thread}:c", "3")
    place.raw.hset(f"{thread}:c", "99", row.replace(b"\x03", b"\x63", 1))
    place.raw.zadd(f"{thread}:s", {"99": 99})
    with opened(place) as client:
        found = {(problem.kind, problem.where) for problem in client.verify().problems}
    assert ("seal", "s@99") in found
