"""Damage that a harness cannot do: to the file of a store, or by somebody who can make seals."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import (
    BlockingClient,
    CheckpointIntegrityError,
    LastgoodError,
    Problem,
    Report,
)
from lastgood.backend import Section, Sheet
from lastgood.backends.memory import MemoryBackend
from lastgood.backends.null import NullBackend
from lastgood.backends.sqlite.rows import STORED, folded, unfolded
from lastgood.backends.sqlite.schema import select, stamp
from lastgood.intervals import Intervals
from lastgood.manifest import Spot
from lastgood.rows import CheckpointRow, ThreadRow, sealed, unsealed

LARGE = {"messages": [f"message {number} " * 20 for number in range(100)]}
IMAGE = bytes(range(256)) * 400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def verified(path: Path, *, data: bool = False) -> Report:
    with BlockingClient.sqlite(path) as client:
        return client.verify(data=data)


def found(report: Report) -> set[tuple[str, str]]:
    return {(problem.kind, problem.where) for problem in report.problems}


def lost(path: Path, ids: dict[str, str]) -> set[str]:
    names = set()
    with BlockingClient.sqlite(path) as client:
        for name, id in ids.items():
            try:
                client.restore(id)
            except LastgoodError:
                names.add(name)
    return names


def named(report: Report) -> set[str]:
    return {name for problem in report.problems for name in problem.checkpoints}


def saved(path: Path, states: list[Any], thread: str = "s") -> dict[str, str]:
    with BlockingClient.sqlite(path) as client:
        for state in states:
            client.save("a", session_id=thread, execution_state=state, step_name="step")
        return {header.name: header.checkpoint_id for header in client.log(thread, limit=1000)}


class TestAFile:
    def test_an_index_that_lost_a_thread_in_a_large_store(self, path: Path) -> None:
        """Lists of more than 256 threads do not look: `verify` does."""
        with BlockingClient.sqlite(path, durability="relaxed") as client:
            for number in range(300):
                client.save("a", session_id=f"t{number}", execution_state={})
        with closing(sqlite3.connect(path)) as connection:
            (entry,) = connection.execute(
                "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master"
                " WHERE name = 'lastgood_thread_active'"
            ).fetchall()
        unhook = "DELETE FROM sqlite_master WHERE name = 'lastgood_thread_active'"
        changed(path, "PRAGMA writable_schema = ON", unhook)
        saved(path, [{}], "hidden")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", entry)
            connection.commit()
        with BlockingClient.sqlite(path) as client:
            assert "hidden" not in {info.thread_id for info in client.threads(limit=10_000)}
            report = client.verify()
        assert report.exit_code == 1
        assert {problem.kind for problem in report.problems} == {"index"}
        assert "lastgood_thread_active" in str(report)

    def test_the_time_stamp(self, path: Path) -> None:
        saved(path, [{}])
        changed(path, "UPDATE lastgood_meta SET value = 'x' WHERE name = 'newest'")
        report = verified(path)
        assert (found(report), report.exit_code) == ({("row", "store")}, 1)
        assert report.checkpoints == 1

    def test_a_checkpoint_with_a_number_that_was_never_given_out(self, path: Path) -> None:
        saved(path, [{"n": 1}, {"n": 2}])
        changed(path, "UPDATE lastgood_checkpoint SET key = key + 90 WHERE key & 1")
        assert {("seal", "s@91"), ("row", "s")} <= found(verified(path))

    @pytest.mark.parametrize("value", ["'x'", "x'ff'", "-5", "NULL"])
    def test_what_the_file_says_of_itself(self, path: Path, value: str) -> None:
        saved(path, [{"n": 1}])
        told = "UPDATE lastgood_meta SET value = {} WHERE name = '{}'"
        lost = "DELETE FROM lastgood_meta WHERE name = '{1}'"
        damage = (lost if value == "NULL" else told).format
        changed(path, damage(value, "created_at"))
        with BlockingClient.sqlite(path) as client:
            assert client.restore("s@1").state == {"n": 1}
            with pytest.raises(CheckpointIntegrityError, match="'created_at' is") as caught:
                client.stats()
            assert "lastgood verify" in caught.value.hint
        assert found(verified(path)) == {("row", "store")}
        changed(path, damage(value, "format"))
        with (
            BlockingClient.sqlite(path) as client,
            pytest.raises(CheckpointIntegrityError, match=f"{path.name} .* 'format' is"),
        ):
            client.restore("s@1")
        assert "'format' is" in str(verified(path))

    def test_a_stream_that_lost_its_row(self, path: Path) -> None:
        ids = saved(path, [LARGE])
        changed(path, "DELETE FROM lastgood_stream")
        report = verified(path)
        assert found(report) == {("stream", "stream 1"), ("stream", "s stream 1")}
        assert (report.exit_code, named(report), lost(path, ids)) == (1, set(), set())

    def test_the_index_of_large_pages(self, path: Path) -> None:
        saved(path, [{"image": IMAGE}])
        changed(path, "UPDATE lastgood_large SET digest = x'00' WHERE key & 1")
        report = verified(path)
        assert {problem.kind for problem in report.problems} == {"index"}
        assert report.exit_code == 1

    def test_when_a_part_was_born(self, path: Path) -> None:
        saved(path, [LARGE])
        changed(path, "UPDATE lastgood_part SET born = 99 WHERE key & 0xFFFFFFFF = 3")
        assert found(verified(path)) == {("part", "s stream 1 part 3")}

    def test_data_that_is_no_bytes(self, path: Path) -> None:
        ids = saved(path, [LARGE, {"n": 1}])
        changed(path, "UPDATE lastgood_part SET data = 'text' WHERE key & 0xFFFFFFFF = 3")
        report = verified(path)
        assert found(report) == {("part", "s stream 1 part 3")}
        assert named(report) == lost(path, ids) == {"s@1"}

    def test_text_that_is_no_text(self, path: Path) -> None:
        """SQLite's driver hands out none of a page with such a row, unless it is told to."""
        ids = saved(path, [{"n": number} for number in range(9)])
        changed(
            path,
            "UPDATE lastgood_checkpoint SET step_name = CAST(x'ff' AS TEXT)"
            " WHERE key & 0xFFFFFFFF IN (4, 5, 8)",
        )
        report = verified(path)
        assert report.checkpoints == 9
        assert named(report) == lost(path, ids) == {"s@4", "s@5", "s@8"}
        assert {problem.kind for problem in report.problems} == {"seal"}

    @pytest.mark.parametrize(
        ("statement", "told"),
        [
            ("DROP TABLE lastgood_part", "no such table: lastgood_part"),
            ("ALTER TABLE lastgood_checkpoint RENAME COLUMN step_name TO name", "no such column: "),
        ],
    )
    def test_tables_that_somebody_changed(self, path: Path, statement: str, told: str) -> None:
        ids = saved(path, [LARGE])
        changed(path, statement)
        with (
            BlockingClient.sqlite(path) as client,
            pytest.raises(CheckpointIntegrityError, match=f"is damaged .{told}") as refused,
        ):
            client.restore(ids["s@1"])
        assert "`lastgood copy --salvage` brings what can be restored" in refused.value.hint
        assert found(verified(path))

    def test_rows_left_of_a_deleted_thread(self, path: Path) -> None:
        saved(path, [{}], "gone")
        with closing(sqlite3.connect(path)) as connection:
            lane = connection.execute("SELECT * FROM lastgood_lane").fetchone()
        with BlockingClient.sqlite(path) as client:
            client.delete("gone")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("INSERT INTO lastgood_lane VALUES (?, ?, ?, ?, ?, ?)", lane)
            connection.commit()
        report = verified(path)
        assert (found(report), report.exit_code) == ({("orphan", "thread #1")}, 1)

    def test_a_manifest_in_pages(self, path: Path) -> None:
        """Its pages are needed to know which others are."""
        wide = {f"key {n} {'k' * 60}": [f"value {n} " * 20] * 30 for n in range(60)}
        ids = saved(path, [wide, {**wide, max(wide): ["changed"] * 900}, {"n": 1}])
        with closing(sqlite3.connect(path)) as connection:
            (key,) = connection.execute(
                "SELECT key FROM lastgood_part ORDER BY key >> 32 DESC, key LIMIT 1"
            ).fetchone()
        changed(path, f"UPDATE lastgood_part SET data = x'c1' WHERE key = {key}")
        for data in (False, True):
            report = verified(path, data=data)
            assert named(report) == lost(path, ids) == {"s@1", "s@2"}


Forge = Callable[[CheckpointRow], CheckpointRow]


class TestWithGoodSeals:
    """What only a wrong program can do: every row fits its seal."""

    @pytest.fixture
    def backend(self) -> MemoryBackend:
        backend = MemoryBackend()
        client = BlockingClient.on(backend)
        for number in range(3):
            client.save("a", session_id="s", execution_state={**LARGE, "n": number})
        return backend

    def forge(self, backend: MemoryBackend, seq: int, change: Forge) -> None:
        rows = backend.shelves.checkpoints[1]
        rows[seq] = sealed(change(unsealed(CheckpointRow, rows[seq])))

    def forge_thread(self, backend: MemoryBackend, **changes: Any) -> None:
        threads = backend.shelves.threads
        threads[1] = sealed(unsealed(ThreadRow, threads[1])._replace(**changes))

    def problems(self, backend: MemoryBackend, *, data: bool = False) -> list[Problem]:
        return list(BlockingClient.on(backend).verify(data=data).problems)

    def test_fields_that_do_not_give_the_digest(self, backend: MemoryBackend) -> None:
        self.forge(backend, 2, lambda row: row._replace(step=9))
        (problem,) = self.problems(backend)
        assert (problem.kind, problem.checkpoints) == ("digest", ("s@2",))

    def test_a_parent_with_another_digest(self, backend: MemoryBackend) -> None:
        def change(row: CheckpointRow) -> CheckpointRow:
            other = row._replace(parent_digest=b"\x00" * 16)
            return other._replace(digest=other.chained("a"))

        self.forge(backend, 3, change)
        (problem,) = self.problems(backend)
        assert (problem.kind, problem.where, problem.checkpoints) == ("link", "s@3", ())

    def test_a_parent_that_is_lost(self, backend: MemoryBackend) -> None:
        def change(row: CheckpointRow) -> CheckpointRow:
            other = row._replace(parent=b"\x01" * 16)
            return other._replace(digest=other.chained("a"))

        self.forge(backend, 3, change)
        assert [(p.kind, p.where) for p in self.problems(backend)] == [("link", "s@3")]

    def test_a_checkpoint_that_follows_itself_ends_every_way_back(
        self, backend: MemoryBackend
    ) -> None:
        def change(row: CheckpointRow) -> CheckpointRow:
            other = row._replace(parent_gone=1, fallback=row.id, expires_at=1)
            return other._replace(digest=other.chained("a"))

        self.forge(backend, 3, change)
        self.forge_thread(backend, expiring=1)
        client = BlockingClient.on(backend)
        asked: list[Callable[[], object]] = [
            lambda: client.latest(agent_id="a", session_id="s"),
            lambda: client.branches("s"),
            lambda: client.save("a", session_id="s", execution_state={}),
        ]
        for ask in asked:
            with pytest.raises(CheckpointIntegrityError, match="which is not older"):
                ask()
        assert "which is not older" in str(client.sweep())
        assert client.restore("s@2").state["n"] == 1

    def test_removing_checkpoints_that_follow_each_other_comes_to_an_end(
        self, backend: MemoryBackend
    ) -> None:
        newer = unsealed(CheckpointRow, backend.shelves.checkpoints[1][2]).id
        self.forge(backend, 1, lambda row: row._replace(parent=newer, expires_at=1))
        self.forge(backend, 2, lambda row: row._replace(expires_at=1))
        self.forge_thread(backend, expiring=2)
        report = BlockingClient.on(backend).sweep()
        assert "which is not older" in str(report)

    def test_a_line_that_leads_back_to_itself_in_a_page_of_rows(self, path: Path) -> None:
        """SQLite reads many rows of a line at once."""
        with BlockingClient.sqlite(path) as client:
            for number in range(3):
                client.save("a", session_id="s", execution_state={"n": number})
        with closing(sqlite3.connect(path)) as connection:
            stored = connection.execute(select(CheckpointRow, "1")).fetchall()
            first, newer = (CheckpointRow._make(unfolded(row)[:-1]) for row in stored[:2])
            forged = first._replace(parent=newer.id)
            columns = ", ".join(f"{name} = ?" for name in STORED)
            values = folded(forged, sealed(forged)[-1])
            connection.execute(
                f"UPDATE lastgood_checkpoint SET {columns} WHERE key = ?", (*values, values[0])
            )
            connection.commit()
        with (
            BlockingClient.sqlite(path) as client,
            pytest.raises(CheckpointIntegrityError, match="which is not older"),
        ):
            client.walk("s@3")

    def test_a_checkpoint_with_a_number_that_was_never_given_out(
        self, backend: MemoryBackend
    ) -> None:
        rows = backend.shelves.checkpoints[1]
        above = unsealed(CheckpointRow, rows[3])._replace(seq=9, id=b"\x01" * 16)
        rows[9] = sealed(above)
        (problem,) = self.problems(backend)
        assert (problem.kind, problem.where, problem.repairable) == ("count", "s@9", True)
        rows[9] = (*sealed(above)[:-1], b"no seal")
        (problem,) = self.problems(backend)
        assert (problem.kind, problem.where, problem.repairable) == ("seal", "s@9", False)

    def test_two_parts_exchanged(self, backend: MemoryBackend) -> None:
        """Each fits its digest; only the content root knows."""
        parts = backend.shelves.parts
        one, two = Spot(1, 1), Spot(1, 2)
        parts[one], parts[two] = parts[two], parts[one]
        assert self.problems(backend) == []
        (problem,) = self.problems(backend, data=True)
        assert (problem.kind, problem.where) == ("root", "s@3")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"checkpoints": 2}, "counts 2 checkpoint rows and has 3"),
            ({"lanes": 0}, "counts 0 lane rows"),
            ({"expiring": 1}, "1 checkpoints expire"),
            ({"newest": b"\x01" * 16}, "newest"),
        ],
    )
    def test_counters(self, backend: MemoryBackend, changes: dict[str, Any], message: str) -> None:
        self.forge_thread(backend, **changes)
        (problem,) = self.problems(backend)
        assert (problem.kind, problem.where, problem.repairable) == ("count", "s", True)
        assert message in problem.message

    def test_checkpoints_lost_beside_removed_ones(self, backend: MemoryBackend) -> None:
        """Which seq was removed and which is lost cannot be told: only the newest is sure."""
        client = BlockingClient.on(backend)
        client.expire("s@1")
        del backend.shelves.checkpoints[1][2]
        (row, link) = sorted(self.problems(backend), key=lambda problem: problem.kind, reverse=True)
        assert (row.kind, row.checkpoints, row.repairable) == ("row", (), False)
        assert link.kind == "link"
        del backend.shelves.checkpoints[1][3]
        kinds = {problem.kind: problem.checkpoints for problem in self.problems(backend)}
        assert kinds == {"row": ("s@3",), "head": ()}


class Meddled(MemoryBackend):
    """Somebody changes a thread whenever its checkpoints are about to be read, from the first."""

    def __init__(self, acts: list[Callable[[BlockingClient], object]]) -> None:
        super().__init__()
        self.acts = acts
        self.reads = 0

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        if sections[0].table == "checkpoint" and sections[0].low == 1:
            self.reads += 1
            if self.acts:
                self.acts.pop(0)(BlockingClient.on(self))
        return await super().survey(tenant, sections)


class TestBesideWriters:
    def verified(self, *acts: Callable[[BlockingClient], object]) -> tuple[Report, int]:
        backend = Meddled([])
        client = BlockingClient.on(backend)
        for number in range(9):
            client.save("a", session_id="s", execution_state={"n": number})
        backend.acts = list(acts)
        return client.verify(), backend.reads

    def test_a_save_disturbs_nothing(self) -> None:
        report, reads = self.verified(lambda c: c.save("a", session_id="s", execution_state={}))
        assert (report.clean, report.checkpoints, reads) == (True, 9, 1)

    def test_after_a_removal_the_thread_is_read_again(self) -> None:
        report, reads = self.verified(lambda client: client.expire("s@4"))
        assert (report.clean, report.checkpoints, reads) == (True, 8, 2)

    def test_a_thread_that_never_stands_still(self) -> None:
        report, reads = self.verified(*(lambda c, n=n: c.expire(f"s@{n}") for n in range(2, 8)))
        assert (report.clean, reads) == (True, 3)

    def test_damage_beside_a_writer(self) -> None:
        """What no writer can explain is reported at once."""

        def forge(client: BlockingClient) -> None:
            client.expire("s@4")
            client.save("a", session_id="s", execution_state={})
            rows = client._direct._core.backend.shelves.checkpoints[1]  # type: ignore[attr-defined]
            rows[9] = (*rows[9][:-1], b"no seal")

        report, reads = self.verified(forge)
        assert [(problem.kind, problem.where) for problem in report.problems] == [("seal", "s@9")]
        assert (report.checkpoints, reads) == (9, 2)

    def test_a_thread_that_is_deleted_meanwhile(self) -> None:
        report, reads = self.verified(lambda client: client.delete("s"))
        assert (report.clean, report.threads, reads) == (True, 0, 1)


def test_a_store_that_keeps_nothing_is_clean() -> None:
    client = BlockingClient.on(NullBackend())
    with client.run("s", initial=LARGE) as run:
        assert client.verify(data=True) == Report(data=True)
        assert client.stats().threads == 0
        run.save()


def test_a_report_reads_well() -> None:
    names = tuple(f"s@{seq}" for seq in range(1, 12))
    problem = Problem("part", "s stream 1 part 3", "it is missing.", names)
    report = Report(threads=1, checkpoints=11, parts=2, bytes=2048, problems=(problem,))
    assert str(report) == (
        "1 problem: 1 thread, 11 checkpoints, 2 parts, 2,048 bytes (structure)\n"
        "s stream 1 part 3: it is missing. [part, data lost] "
        "Touches s@1, s@2, s@3, s@4, s@5, s@6, s@7, s@8 and 3 more."
    )


Numbers = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 8)), max_size=12)


def interval_set(spans: list[tuple[int, int]]) -> tuple[Intervals, set[int]]:
    made, plain = Intervals(), set[int]()
    for first, length in spans:
        made.add(first, first + length)
        plain |= set(range(first, first + length + 1))
    return made, plain


def spread(ranges: Any) -> list[int]:
    return [number for first, last in ranges for number in range(first, last + 1)]


@given(Numbers, Numbers)
def test_intervals_are_sets(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    (mine, plain), (other, others) = interval_set(one), interval_set(two)
    assert spread(mine) == sorted(plain)
    assert spread(mine.without(other)) == sorted(plain - others)
    assert [n in mine for n in range(80)] == [n in plain for n in range(80)]
    assert mine.highest == max(plain, default=0)
    ranges = list(mine)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))
    met = list(mine.meeting(20, 30))
    assert met == [(a, b) for a, b in ranges if a <= 30 and b >= 20]


def test_a_range_that_cannot_be_read_does_not_keep_anybody_for_ever(path: Path) -> None:
    """Where only single rows can be read, numbers that nobody has are not tried one by one."""
    with BlockingClient.sqlite(path) as client:
        client.save("a", session_id="s", execution_state={"text": "words " * 5_000})
        backend, unreadable = client._core.backend, {"part"}
        whole = backend.survey

        async def survey(tenant: str, sections: Sequence[Section]) -> list[Sheet]:
            if any(each.table in unreadable and each.low < each.high for each in sections):
                raise CheckpointIntegrityError("no range can be read.")
            return await whole(tenant, sections)

        backend.survey = survey  # type: ignore[method-assign]
        assert client.stats().threads == 1
        unreadable.add("thread")
        assert client.verify(data=True).threads == 1


def test_threads_above_the_last_key_that_is_noted_are_there(path: Path) -> None:
    """A note that was set back ends neither a survey nor a list."""
    with BlockingClient.sqlite(path, durability="relaxed") as client:
        for number in range(600):
            client.save("a", session_id=f"t{number}", execution_state={})
        changed(
            path, f"UPDATE lastgood_meta SET value = '{stamp(0, 'thread')}' WHERE name = 'thread'"
        )
        assert client.verify().threads == 600
        assert len(client.threads(limit=1000)) == 600
