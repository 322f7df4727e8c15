"""Lists of one user's threads: hints that lie, threads that change hands, writers that die."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from redis.crc import key_slot

from lastgood import BlockingClient
from lastgood.backend import ThreadListing
from lastgood.backends.redis import changes
from lastgood.backends.redis.backend import RedisBackend
from lastgood.backends.redis.keys import Keys, member, tag_of
from lastgood.backends.remote.queries import ThreadName
from lastgood.checkpointers.rules import Describe
from lastgood.driver import run_blocking
from lastgood.rows import MINUTE
from tests.redis_backend.raw_place import RawPlace

pytestmark = pytest.mark.server("valkey", "cluster")

HOUR = 3600 * 1_000_000


class Place(RawPlace):
    """With clocks that can be ahead."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.keys = Keys(self.prefix)
        self.hours = 0
        """How far the clocks of all clients are ahead."""

    def client(self, user: str | None = None, hours: int = 0) -> BlockingClient:
        """One whose clock is ahead of the others'."""
        ahead = lambda: (self.hours + hours) * HOUR  # noqa: E731
        return BlockingClient.on(RedisBackend(self.url, prefix=self.prefix, shift=ahead), user=user)

    def users(self, user: str) -> int:
        """How many threads are on the list of a user, rightly or not."""
        return self.raw.zcard(self.keys.list("default", "updated", user))

    def put(self, user: str, name: str, key: int, hours_ago: int) -> None:
        """Have a thread on the list of a user, as a writer leaves it that died then."""
        score = (time.time_ns() // 1000 - hours_ago * HOUR) >> MINUTE
        tag = tag_of(ThreadName("default", name))
        self.raw.zadd(self.keys.list("default", "updated", user), {member(key, tag): score})


def save(client: BlockingClient, *threads: str, **options: Any) -> None:
    for thread in threads:
        client.save("a", session_id=thread, execution_state={}, **options)


def give(client: BlockingClient, thread: str, user: str) -> None:
    run_blocking(client._core.backend.commit(Describe("default", thread, owner=user)))


def listed(client: BlockingClient, user: str, limit: int = 50) -> list[str]:
    """What the store lists, before anybody leaves something out."""
    found, listing = [], ThreadListing(owner=user, limit=limit)
    for _ in range(20):
        entries = run_blocking(client._core.backend.threads("default", listing))
        found += [entry.row.name for entry in entries]
        if len(entries) < limit:
            return sorted(found)
        row = entries[-1].row
        listing = listing._replace(after=(row.active, row.thread))
    raise AssertionError(f"a list that never ends: {found}")


def key_of(client: BlockingClient, thread: str) -> int:
    entries = run_blocking(client._core.backend.threads("default", ThreadListing()))
    return next(entry.row.thread for entry in entries if entry.row.name == thread)


def dies(monkeypatch: pytest.MonkeyPatch, client: BlockingClient) -> None:
    """Have every commit of a client be the last thing that it does."""

    async def killed(*_: object) -> None: ...

    monkeypatch.setattr(client._core.backend._hints, "settle", killed)


def met(
    monkeypatch: pytest.MonkeyPatch, client: BlockingClient, meet: Callable[[], object]
) -> None:
    """Have others look between the hints of a change and the change: there is such a time."""
    hints = client._core.backend._hints
    claim = hints.claim

    async def seen(*args: Any) -> bytes:
        found = await claim(*args)
        meet()
        return found

    monkeypatch.setattr(hints, "claim", seen)


def test_a_list_of_a_user_lies_where_all_lists_of_the_tenant_do(place: Place) -> None:
    users = ["ada", "Ada", "a:b", "{x}", "}", "é", "\U0001f600", "u" * 255, "v" * 255]
    for user in users:
        with place.client(user) as client:
            save(client, f"of {user}"[:100], user.encode().hex()[:100])
    keys = {place.keys.list("default", "updated", user) for user in users}
    assert len(keys) == len(users)
    assert len({len(key) for key in keys}) == 1
    slots = {key_slot(key.encode()) for key in (*keys, place.keys.list("default", "name"))}
    assert len(slots) == 1
    assert [place.users(user) for user in users] == [2] * len(users)
    other = place.keys.list("other", "updated", "ada")
    assert other.rpartition(":")[0] == place.keys.list("other", "updated")


def test_hints_on_the_list_of_a_user_are_not_believed(place: Place) -> None:
    """What leads to nothing or to another's thread is not listed; if it is old, it goes."""
    with place.client("ada") as ada, place.client("bob") as bob:
        save(ada, "1", "2", "3")
        save(bob, "bob's")
        for hours in (0, 2):
            place.put("ada", f"ghost {hours}", 1000 + hours, hours)
            place.put("ada", "1", 2000 + hours, hours)
        place.put("ada", "bob's", key_of(bob, "bob's"), 2)
        assert place.users("ada") == 3 + 5
        for limit in (1, 2, 50):
            assert listed(bob, "ada", limit) == ["1", "2", "3"]
        assert place.users("ada") == 3 + 2, "a writer may be about to commit those"
        with place.client(hours=2) as later:
            assert listed(later, "ada") == ["1", "2", "3"]
        assert place.users("ada") == 3
        assert listed(ada, "bob") == ["bob's"]
        assert ada.verify(data=True).clean


def test_the_list_of_a_user_is_in_the_order_of_last_touch(place: Place) -> None:
    """Whether or not the process that touches a thread has put it on the list before."""
    with place.client("ada") as ada, place.client() as other:
        save(ada, "1", "2", "3")
        for client, thread, order in ((ada, "1", "132"), (other, "2", "213"), (ada, "2", "213")):
            place.hours += 1
            save(client, thread)
            found, after = "", None
            for _ in order:
                page = client.threads(user="ada", limit=1, after=after)
                found, after = found + page[0].thread_id, page.next
            assert found == order
            assert not client.threads(user="ada", after=after)
            assert client.verify().clean


def test_a_thread_changes_hands_in_several_processes(place: Place) -> None:
    """None of which knows what the others put on lists."""
    with place.client("ada") as first, place.client() as second, place.client() as third:
        save(first, "t", "stays")
        for client, user in ((second, "bob"), (third, "ada"), (second, "eve"), (first, "bob")):
            give(client, "t", user)
            expected = {name: ["stays"] if name == "ada" else [] for name in ("ada", "bob", "eve")}
            expected[user] = sorted([*expected[user], "t"])
            for writer in (first, second, third):
                save(writer, "t")
                assert {name: listed(writer, name) for name in expected} == expected
                assert writer.verify().clean
        on = [place.users(user) for user in ("ada", "bob", "eve")]
        assert on == ([2, 1, 1] if place.cluster else [1, 1, 0])
        with place.client(hours=2) as later:
            assert [len(listed(later, user)) for user in ("ada", "bob", "eve")] == [1, 1, 0]
        assert [place.users(user) for user in ("ada", "bob", "eve")] == [1, 1, 0]


def test_a_first_owner_later(place: Place) -> None:
    with place.client() as first, place.client() as second:
        save(first, "t")
        give(second, "t", "ada")
        save(first, "t")
        assert (listed(first, "ada"), listed(second, "ada")) == (["t"], ["t"])
        assert first.verify().clean


def test_a_thread_that_is_given_back_while_it_is_taken_off_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who lists has seen that it is another's; before that is cleared up, it is not any more."""
    with place.client("bob") as bob, place.client() as reader:
        save(bob, "t")
        place.put("ada", "t", key_of(bob, "t"), 2)
        hints = reader._core.backend._hints
        unlist = hints.unlist

        async def late(*args: Any) -> None:
            give(bob, "t", "ada")
            await unlist(*args)

        monkeypatch.setattr(hints, "unlist", late)
        assert listed(reader, "ada") == []
        assert listed(bob, "ada") == ["t"]
        assert bob.verify().clean


# writers that are killed


def test_a_writer_that_dies_after_its_commit_leaves_nothing_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if somebody met the hints before the threads, and took them for stale."""
    with place.client("ada") as ada, place.client() as reader:
        save(ada, "before")
        dies(monkeypatch, ada)
        met(monkeypatch, ada, lambda: [listed(reader, user) for user in ("ada", "bob")])
        save(ada, "new")
        give(ada, "before", "bob")
        with place.client() as other:
            assert (listed(other, "ada"), listed(other, "bob")) == (["new"], ["before"])
            assert other.verify().clean


def test_a_writer_that_dies_before_its_commit_takes_nothing_off(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.client("ada") as ada:
        save(ada, "t")
        with monkeypatch.context() as patch:
            patch.setattr("lastgood.backends.redis.parts.staged", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                give(ada, "t", "bob")
        assert (listed(ada, "ada"), listed(ada, "bob")) == (["t"], [])
        assert ada.verify().clean
        with place.client(hours=2) as later:
            assert (listed(later, "ada"), listed(later, "bob")) == (["t"], [])
        assert (place.users("ada"), place.users("bob")) == (1, 0)


def test_a_thread_that_arrives_is_on_the_list_of_its_user(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times are old, and a writer of the copy dies as soon as it is there."""
    with (
        BlockingClient.memory(user="ada") as source,
        place.client() as target,
        place.client(hours=48) as reader,
    ):
        save(source, "1", "2")
        dies(monkeypatch, target)
        met(monkeypatch, target, lambda: listed(reader, "ada"))
        assert source.copy_to(target).complete
        assert (listed(target, "ada"), listed(reader, "ada")) == (["1", "2"], ["1", "2"])
        assert target.verify(data=True).clean


def test_a_writer_that_dies_after_a_removal_leaves_a_hint_that_goes_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.client("ada") as ada, place.client("bob") as bob:
        save(ada, "1", "2")
        dies(monkeypatch, ada)
        assert ada.delete("1")
        save(bob, "1")
        assert (listed(bob, "ada"), listed(bob, "bob")) == (["2"], ["1"])
        with place.client(hours=2) as later:
            assert (listed(later, "ada"), listed(later, "bob")) == (["2"], ["1"])
        assert (place.users("ada"), place.users("bob")) == (1, 1)


# removal


def test_a_thread_that_goes_is_off_the_list_of_its_user(place: Place) -> None:
    with place.client("ada") as ada, place.client("bob") as bob:
        save(ada, "1", "2", "3")
        assert ada.delete("1")
        assert place.users("ada") == 2
        save(bob, "1")
        assert bob.delete("2")
        assert (place.users("ada"), place.users("bob")) == (1, 1)
        assert (listed(ada, "ada"), listed(ada, "bob")) == (["3"], ["1"])
        assert ada.verify().clean


def test_a_sweep_takes_whole_threads_off_the_list_of_their_user(place: Place) -> None:
    with place.client("ada") as ada:
        save(ada, "over", ttl_seconds=10)
        save(ada, "stays")
        with place.client(hours=48) as later:
            assert later.sweep().threads == 1
        assert place.users("ada") == 1
        assert (listed(ada, "ada"), ada.verify().clean) == (["stays"], True)


def test_a_thread_that_has_ended_by_itself_is_off_the_list_of_its_user(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "GRACE_MS", 0)
    with place.client("ada") as ada:
        save(ada, "over", ttl_seconds=0.3)
        save(ada, "stays")
        time.sleep(0.8)
        assert listed(ada, "ada") == ["stays"]
        with place.client(hours=2) as later:
            assert listed(later, "ada") == ["stays"]
        assert place.users("ada") == 1
        save(ada, "over")
        assert listed(ada, "ada") == ["over", "stays"]


def test_verify_tells_of_a_thread_that_is_missing_from_the_list_of_its_user(place: Place) -> None:
    with place.client("ada") as ada:
        save(ada, "1", "2")
        tag = tag_of(ThreadName("default", "1"))
        key = key_of(ada, "1")
        assert place.raw.zrem(place.keys.list("default", "updated", "ada"), member(key, tag)) == 1
        report = ada.verify()
        (problem,) = report.problems
        assert (problem.kind, problem.where, report.exit_code) == ("index", f"thread #{key}", 1)
        assert problem.message == "it is missing from the list by updated of its user."
        with place.client() as other:
            save(other, "1")
        assert (listed(ada, "ada"), ada.verify().clean) == (["1", "2"], True)
