"""What a store on Redis has twice: an index that was lost is told, and nobody believes it."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import ormsgpack
import pytest

from lastgood import BlockingClient, CheckpointIntegrityError
from lastgood.backends.redis.backend import RedisBackend
from lastgood.backends.redis.keys import Keys, tag_of
from lastgood.backends.remote.queries import ThreadName
from lastgood.driver import run_blocking
from lastgood.item_rules import ChangeItems, ItemDraft
from lastgood.shelving import change_items
from lastgood.testing.harness import FIELDS
from tests.redis_backend.raw_place import RawPlace

pytestmark = pytest.mark.server("valkey", "cluster")

HOUR = 3600 * 1_000_000


class Place(RawPlace):
    """With clocks that can be ahead, and keys that can be lost."""

    def client(self, hours: int = 0) -> BlockingClient:
        return BlockingClient.on(
            RedisBackend(self.url, prefix=self.prefix, shift=lambda: hours * HOUR)
        )

    def thread(self, name: str) -> str:
        return Keys(self.prefix).thread(tag_of(ThreadName("default", name)))


def fill(client: BlockingClient) -> list[str]:
    """A thread with a fork, a removed parent, and checkpoints of which some expire."""
    ids = [client.save("a", session_id="s", execution_state={"n": 0})]
    for number in range(1, 6):
        options: dict[str, Any] = {"ttl_seconds": 60} if number % 2 else {}
        state = {"n": number, "x": ["y" * 90] * 99}
        ids.append(client.save("a", session_id="s", execution_state=state, **options))
    client.save("a", session_id="s", execution_state={"fork": 1}, parent_id=ids[1])
    client.expire(ids[2])
    client.save("b", session_id="whole", execution_state={}, ttl_seconds=60)
    client.save("b", session_id="gone", execution_state={})
    client.delete("gone")
    return ids


def seen(client: BlockingClient) -> list[Any]:
    shown = [(each.thread_id, each.checkpoints) for each in client.threads(sort="name")]
    return [[each.checkpoint_id for each in client.log("s")], shown]


def test_an_index_of_expiry_that_is_lost_brings_nothing_back(place: Place) -> None:
    with place.client() as client:
        fill(client)
        assert client.verify(data=True).clean
    with place.client(hours=1) as later:
        before = seen(later)
        for name in ("s", "whole"):
            place.raw.unlink(f"{place.thread(name)}:x")
        assert seen(later) == before
        report = later.verify()
        assert [problem.kind for problem in report.problems] == ["index", "index"]
        assert "when checkpoints expire" in str(report)
        assert report.exit_code == 1


@pytest.mark.parametrize("index", ["s", "o"])
def test_rows_that_an_index_does_not_lead_to_are_not_lost(place: Place, index: str) -> None:
    """Each key may go alone, as a server does it that is full: `verify` said that all was lost."""
    with place.client() as client, BlockingClient.memory() as target:
        ids = fill(client)
        drafts = [ItemDraft("shelf", b"%d" % number, b"x") for number in range(9)]
        run_blocking(change_items(client._core, ChangeItems("default", "s", puts=drafts)))
        states = {each.checkpoint_id: each.state for each in client.timeline("a", "s", 100)}
        place.raw.unlink(f"{place.thread('s')}:{index}")
        report = client.verify(data=True)
        assert {problem.kind for problem in report.problems} == {"index"}
        assert report.exit_code == 1
        assert client.restore(ids[0]).state == {"n": 0}
        copied = client.copy_to(target, salvage=True)
        assert (copied.threads, copied.items, copied.problems) == (2, 9, ())
        found = target.timeline("a", "s", 100)
        assert {each.checkpoint_id: each.state for each in found} == states
        assert target.verify(data=True).clean


@pytest.mark.parametrize("seq", [None, b"x", -1, 1, 9])
def test_a_row_whose_number_was_changed_is_lost_alone(place: Place, seq: object) -> None:
    """By its own name: `verify` ended in a TypeError, or named one that is whole."""
    with place.client() as client, BlockingClient.memory() as target:
        for number in range(5):
            client.save("a", session_id="s", execution_state={"n": number})
        key = f"{place.thread('s')}:c"
        columns = ormsgpack.unpackb(place.raw.hget(key, "4"))
        columns[FIELDS["checkpoint"].index("seq")] = seq
        place.raw.hset(key, "4", ormsgpack.packb(columns))
        named = [problem.checkpoints for problem in client.verify(data=True).problems]
        assert [names for names in named if names] == [("s@4",)]
        report = client.copy_to(target, salvage=True)
        assert [each.lost for each in report.salvaged] == [("s@4",)]
        assert [each.seq for each in target.log("s")] == [5, 3, 2, 1]


def lose_id(place: Place, ref: str) -> None:
    """Have the index of ids lack one, as where a part of it was evicted."""
    for table in place.stored("i:*"):
        for field in place.raw.hkeys(table):
            if field.endswith(UUID(ref).bytes):
                place.raw.hdel(table, field)


LOOKS: dict[str, Callable[[BlockingClient], object]] = {
    "walk": lambda client: client.walk("s@"),
    "back": lambda client: client.resolve("s@~299"),
    "step": lambda client: client.resolve("s@step:1"),
    "blame": lambda client: client.blame("s@", "same"),
    "bisect": lambda client: client.bisect("s", lambda found: found.state["n"] >= 2),
}


@pytest.mark.parametrize(
    ("look", "seq"),
    [*((look, 300) for look in LOOKS), ("back", 293), ("step", 293), ("blame", 45), ("bisect", 45)],
)
def test_a_line_does_not_end_where_an_id_leads_nowhere(place: Place, look: str, seq: int) -> None:
    """No answer is made of a half, and nobody is told that the rest was removed."""
    with place.client() as client:
        ids = [
            client.save("a", session_id="s", execution_state={"n": number, "same": 1})
            for number in range(300)
        ]
        LOOKS[look](client)
        lose_id(place, ids[seq - 1])
    with place.client() as client:
        with pytest.raises(CheckpointIntegrityError, match=f"s@{seq} is there, and its id"):
            LOOKS[look](client)
        assert [each.kind for each in client.verify().problems] == ["index"]


BUT_INDEXES = ("", ":c", ":p", ":z")
LOST: dict[str, tuple[Callable[[Place], object], str, str]] = {
    "what follows what": (
        lambda place: place.raw.unlink(f"{place.thread('s')}:k"),
        "index",
        "what follows what",
    ),
    "one link": (
        lambda place: place.raw.zremrangebyrank(f"{place.thread('s')}:k", 1, 1),
        "index",
        "what follows what",
    ),
    "ids": (lambda place: place.raw.unlink(f"{place.thread('s')}:i"), "index", "ids"),
    "all but what is no row": (
        lambda place: [place.raw.unlink(place.thread("s") + each) for each in BUT_INDEXES],
        "orphan",
        "the row of the thread is missing, its index rows are there",
    ),
    "nothing, but an index has more": (
        lambda place: place.raw.zadd(f"{place.thread('s')}:s", {"99": 99}),
        "index",
        "seqs",
    ),
    "key": (lambda place: lose_keys(place), "index", "no key leads to it"),
    "row and key": (
        lambda place: (lose_keys(place), place.raw.unlink(place.thread("s"))),
        "orphan",
        "the row of the thread is missing",
    ),
    "row": (
        lambda place: place.raw.hdel(place.thread("s"), "t"),
        "orphan",
        "the row of the thread is missing",
    ),
    "key of another": (
        lambda place: lose_keys(place, tag_of(ThreadName("default", "other"))),
        "row",
        "another thread has its key",
    ),
}


def lose_keys(place: Place, instead: str | None = None) -> None:
    """Have the hint of a thread's key be gone, or be another's."""
    tag = tag_of(ThreadName("default", "s"))
    for table in place.stored("t:*"):
        for key, owner in place.raw.hgetall(table).items():
            if owner == tag.encode():
                place.raw.hset(table, key, instead) if instead else place.raw.hdel(table, key)


@pytest.mark.parametrize("what", LOST)
def test_verify_names_what_is_lost(place: Place, what: str) -> None:
    lose, kind, message = LOST[what]
    with place.client() as client:
        fill(client)
        assert client.verify(data=True).clean
    lose(place)
    with place.client() as client:
        report = client.verify()
        assert kind in {problem.kind for problem in report.problems}
        assert message in str(report)
