"""Commits that come together on SQLite share a transaction, and nothing else."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastgood import BlockingClient, CheckpointConflictError
from lastgood.backends.sqlite import group
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.driver import run_blocking
from lastgood.item_rules import ChangeItems, ChangeItemsBeside, ItemDraft


class Meeting:
    """A store in which a second save comes while the transaction of the first one is open."""

    def __init__(self, path: Path) -> None:
        self.backend = SqliteBackend(path)
        self.client = BlockingClient.on(self.backend)
        self.client.save("a", session_id="before", execution_state={})
        self.points: list[str] = []
        self.others: list[threading.Thread] = []
        self.errors: list[Exception] = []

    def play(self, first: Callable[[], object], second: Callable[[], object]) -> None:
        def target() -> None:
            try:
                second()
            except Exception as error:
                self.errors.append(error)

        def failpoint(name: str) -> None:
            self.points.append(name)
            if name == "after-write" and not self.others:
                self.others.append(threading.Thread(target=target))
                self.others[0].start()
                while not self.backend._group._queue:
                    time.sleep(0.001)

        self.backend.failpoint = failpoint
        try:
            first()
        finally:
            self.others[0].join(10)
        assert not self.others[0].is_alive()

    def save(self, thread: str, **options: str) -> str:
        return self.client.save("a", session_id=thread, execution_state={"of": thread}, **options)

    def threads(self) -> set[str]:
        return {info.thread_id for info in self.client.threads()}


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[Meeting]:
    made = Meeting(tmp_path / "x.db")
    yield made
    made.client.close()


def test_what_comes_while_a_transaction_is_open_joins_it(meeting: Meeting) -> None:
    meeting.play(lambda: meeting.save("first"), lambda: meeting.save("second"))
    writes = ["before-write", "after-write"]
    assert meeting.points == [*writes, *writes, "before-commit", "after-commit"]
    assert meeting.errors == []
    assert meeting.threads() == {"before", "first", "second"}


def test_one_that_joins_and_is_refused_hurts_nobody(meeting: Meeting) -> None:
    taken = meeting.save("taken")
    meeting.play(lambda: meeting.save("first"), lambda: meeting.save("second", checkpoint_id=taken))
    assert [type(error) for error in meeting.errors] == [CheckpointConflictError]
    assert meeting.points.count("before-commit") == 1
    assert meeting.threads() == {"before", "taken", "first"}


def test_when_a_shared_transaction_fails_each_is_run_alone(meeting: Meeting) -> None:
    failures = iter(["once"])

    def first() -> None:
        plain = meeting.backend.failpoint

        def failing(name: str) -> None:
            plain(name)
            if name == "before-commit" and next(failures, None):
                raise sqlite3.OperationalError("disk I/O error")

        meeting.backend.failpoint = failing
        meeting.save("first")

    meeting.play(first, lambda: meeting.save("second"))
    assert meeting.errors == []
    assert meeting.points.count("before-commit") == 3
    assert meeting.threads() == {"before", "first", "second"}


class TestGivingWay:
    """Of those that mostly come with another one: as long as that is so, and nobody else."""

    @pytest.fixture
    def pauses(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        found: list[float] = []
        monkeypatch.setattr(group, "time", _Clock(found))
        return found

    def put(self, meeting: Meeting, key: str, kind: type[ChangeItems] = ChangeItemsBeside) -> None:
        draft = ItemDraft("shelf", key.encode(), b"value")
        tenant = meeting.client._core.tenant
        run_blocking(meeting.backend.commit(kind(tenant, "before", puts=(draft,))))

    def in_company(self, meeting: Meeting) -> None:
        meeting.play(lambda: self.put(meeting, "first"), lambda: meeting.save("second"))

    def test_one_that_comes_alone_does_not(self, meeting: Meeting, pauses: list[float]) -> None:
        self.put(meeting, "first")
        self.put(meeting, "second")
        assert pauses == []

    def test_one_after_another_that_had_company_does_once(
        self, meeting: Meeting, pauses: list[float]
    ) -> None:
        self.in_company(meeting)
        self.put(meeting, "third")
        assert pauses == [group.MOMENT]
        self.put(meeting, "fourth")
        assert pauses == [group.MOMENT], "the third one came alone"

    def test_what_somebody_waits_for_never_does(
        self, meeting: Meeting, pauses: list[float]
    ) -> None:
        self.in_company(meeting)
        meeting.save("third")
        self.put(meeting, "fourth", ChangeItems)
        assert pauses == []


class _Clock:
    """In the place of the module `time`."""

    def __init__(self, pauses: list[float]) -> None:
        self.sleep = pauses.append
