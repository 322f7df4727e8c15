"""Reading rows again from SQLite: what was verified once is compared, and noticed if it differs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lastgood import (
    BlockingClient,
    CheckpointExpiredError,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    SerializationError,
)
from lastgood.backend import Located
from lastgood.backends.sqlite import verified
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.backends.sqlite.connection import plain_connect
from lastgood.backends.sqlite.lines import LIMIT, Lines
from lastgood.backends.sqlite.rows import folded, unfolded
from lastgood.backends.sqlite.schema import COLUMNS, select
from lastgood.backends.sqlite.verified import Verified
from lastgood.backends.tables import COUNTED
from lastgood.rows import (
    TABLES,
    BranchRow,
    CheckpointRow,
    LaneRow,
    Row,
    TagRow,
    ThreadRow,
    seal_of,
    sealed,
    unsealed,
)

LONG = COUNTED + 10

# Not those that a row is found by: an edit takes their index along, and then nothing is found.
FOUND_BY = {"thread", "tenant", "name", "id", "seq", "key"}
STORED = [
    (cls, column)
    for cls in (ThreadRow, LaneRow, BranchRow, CheckpointRow)
    for column in COLUMNS[cls]
    if column not in FOUND_BY or (cls, column) == (ThreadRow, "seq")
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def client(path: Path) -> Iterator[BlockingClient]:
    opened = BlockingClient.sqlite(path, durability="relaxed")
    yield opened
    opened.close()


def traced(path: Path) -> tuple[BlockingClient, list[str]]:
    """A client, and the statements that it has sent so far."""
    asked: list[str] = []

    def connect(name: str) -> sqlite3.Connection:
        connection = plain_connect(name)
        connection.set_trace_callback(asked.append)
        return connection

    return BlockingClient.on(SqliteBackend(path, connect=connect)), asked


def change(path: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


def other_than(value: object) -> object:
    """A value of the same type, or the next best."""
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:] if value else b"x"
    if isinstance(value, str):
        return value + "x"
    return 1 if value is None else value + 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("cls", "column"), STORED, ids=[f"{TABLES[cls]} {column}" for cls, column in STORED]
)
def test_a_row_that_is_damaged_after_it_was_read_is_noticed_by_who_read_it(
    client: BlockingClient, path: Path, cls: type, column: str
) -> None:
    client.save("a", session_id="s", execution_state={"n": 1}, step_name="one")
    before = [header.checkpoint_id for header in client.log("s")]
    table = f"lastgood_{TABLES[cls]}"
    with sqlite3.connect(path) as connection:
        [(value,)] = connection.execute(f"SELECT {column} FROM {table}")
    connection.close()
    change(path, f"UPDATE {table} SET {column} = ?", other_than(value))
    with pytest.raises(CheckpointIntegrityError):
        _read_everything(client, before)
    change(path, f"UPDATE {table} SET {column} = ?", value)
    assert [header.checkpoint_id for header in client.log("s")] == before


PACKED = sorted({*CheckpointRow._fields} - {*COLUMNS[CheckpointRow], "thread", "seq"})


@pytest.mark.parametrize("name", PACKED)
def test_what_is_packed_and_damaged_after_it_was_read_is_noticed_by_who_read_it(
    client: BlockingClient, path: Path, name: str
) -> None:
    client.save("a", session_id="s", execution_state={"n": 1}, step_name="one")
    before = [header.checkpoint_id for header in client.log("s")]
    with sqlite3.connect(path) as connection:
        [columns] = connection.execute(select(CheckpointRow, "true"))
    connection.close()
    row = unsealed(CheckpointRow, unfolded(columns))
    damaged = row._replace(**{name: other_than(getattr(row, name))})
    change(path, "UPDATE lastgood_checkpoint SET rest = ?", folded(damaged, seal_of(row))[-1])
    with pytest.raises(CheckpointIntegrityError):
        _read_everything(client, before)
    change(path, "UPDATE lastgood_checkpoint SET rest = ?", columns[-1])
    assert [header.checkpoint_id for header in client.log("s")] == before


def _read_everything(client: BlockingClient, before: list[str]) -> None:
    """Every reader raises or answers as before; one of them raises, for all rows are read."""
    errors: list[CheckpointIntegrityError] = []
    asked: list[Any] = [
        lambda: client.log("s"),
        lambda: [client.latest(agent_id="a", session_id="s")],
        lambda: [client.restore(before[0])],
    ]
    for ask in asked:
        try:
            assert [found and found.checkpoint_id for found in ask()] == before
        except CheckpointIntegrityError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def a_checkpoint(**changed: Any) -> CheckpointRow:
    blank = CheckpointRow(*[b""] * len(CheckpointRow._fields))  # type: ignore[arg-type]
    usual: dict[str, Any] = {"thread": 1, "seq": 1, "root": bytes(32), "digest": bytes(16)}
    return blank._replace(**usual | changed)


def stored(row: CheckpointRow) -> tuple[object, ...]:
    return folded(row, seal_of(row))


def test_what_was_verified_is_given_back_as_it_was() -> None:
    known, columns = Verified(), stored(a_checkpoint())
    first = known.row(CheckpointRow, columns)
    assert known.row(CheckpointRow, (*columns,)) is first
    assert known.rows(CheckpointRow, [columns]) == [first]


def test_a_row_of_another_table_is_not_taken_for_one_that_was_verified() -> None:
    known, columns = Verified(), sealed(BranchRow(1, "main", "other", b""))  # type: ignore[arg-type]
    known.row(BranchRow, columns)
    for read in (known.row, lambda cls, stored: known.rows(cls, [stored])):
        with pytest.raises(CheckpointIntegrityError):
            read(TagRow, columns)


@pytest.mark.parametrize("number", range(len(COLUMNS[CheckpointRow])))
def test_a_row_that_differs_in_one_column_is_verified(number: int) -> None:
    known, columns = Verified(), stored(a_checkpoint())
    known.row(CheckpointRow, columns)
    changed = [*columns[:number], other_than(columns[number]), *columns[number + 1 :]]
    with pytest.raises(CheckpointIntegrityError):
        known.row(CheckpointRow, tuple(changed))


def test_only_so_many_rows_are_kept_and_no_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "LIMIT", 3)
    known = Verified()
    rows: list[Row] = [LaneRow(1, number, "a", "main", 0) for number in range(10)]
    for row in rows:
        assert known.row(type(row), sealed(row)) == row
        assert len(known._known) <= 3
    large = stored(a_checkpoint(metadata=b"x" * verified.LARGEST, manifest=b"x"))
    assert known.row(CheckpointRow, large) is not known.row(CheckpointRow, large)


def test_rows_of_a_very_long_answer_are_verified_and_not_kept() -> None:
    known = Verified()
    rows = [LaneRow(1, number, "a", "main", 0) for number in range(verified.MANY + 1)]
    stored = [sealed(row) for row in rows]
    assert known.rows(LaneRow, stored) == rows
    assert not known._known
    with pytest.raises(CheckpointIntegrityError):
        known.rows(LaneRow, [*stored, (*stored[0][:-1], b"another")])


def numbered(client: BlockingClient, count: int) -> None:
    for number in range(count):
        client.save("a", session_id="s", execution_state={"n": number})


def test_a_checkpoint_that_is_lost_right_behind_a_page_is_missed(
    client: BlockingClient, path: Path
) -> None:
    numbered(client, LONG)
    page = client.log("s", limit=5)
    change(path, "DELETE FROM lastgood_checkpoint WHERE key & 4294967295 = ?", page[-1].seq - 1)
    with pytest.raises(CheckpointIntegrityError, match="missing"):
        client.log("s", limit=5)
    assert len(client.log("s", limit=4)) == 4


def test_damage_right_behind_a_page_of_a_short_thread_does_not_hurt_it(
    client: BlockingClient, path: Path
) -> None:
    numbered(client, 10)
    change(path, "UPDATE lastgood_checkpoint SET size = 99 WHERE key & 4294967295 = ?", 5)
    assert [header.seq for header in client.log("s", limit=5)] == [10, 9, 8, 7, 6]
    with pytest.raises(CheckpointIntegrityError):
        client.log("s", limit=6)


def test_a_branch_or_a_lane_more_than_the_thread_counts_is_told(
    client: BlockingClient, path: Path
) -> None:
    numbered(client, 3)
    change(
        path,
        "INSERT INTO lastgood_branch SELECT thread, lane, 'other', head, seal FROM lastgood_branch",
    )
    with pytest.raises(CheckpointIntegrityError):
        client.log("s")


def test_the_page_of_a_long_thread_takes_two_statements(path: Path) -> None:
    statements: list[str] = []

    def connect(place: str) -> sqlite3.Connection:
        connection = plain_connect(place)
        connection.set_trace_callback(statements.append)
        return connection

    client = BlockingClient.on(SqliteBackend(path, durability="relaxed", connect=connect))
    numbered(client, LONG)
    client.log("s", limit=20)
    statements.clear()
    assert len(client.log("s", limit=20)) == 20
    assert len([each for each in statements if each.startswith("SELECT")]) == 2, statements
    client.close()


def test_a_row_that_was_edited_and_sealed_anew_is_noticed_by_who_has_its_state(
    client: BlockingClient, path: Path
) -> None:
    client.save("a", session_id="s", execution_state={"n": 1})
    assert client.latest(agent_id="a", session_id="s")
    with sqlite3.connect(path) as connection:
        [columns] = connection.execute(select(CheckpointRow, "true"))
        row = unsealed(CheckpointRow, unfolded(columns))
        for step in (row.step + 1, row.step):
            rest = stored(row._replace(step=step))[-1]
            connection.execute("UPDATE lastgood_checkpoint SET rest = ?", (rest,))
            connection.commit()
            if step != row.step:
                with pytest.raises(CheckpointIntegrityError, match="digest"):
                    client.latest(agent_id="a", session_id="s")
    connection.close()
    assert client.latest(agent_id="a", session_id="s")


def test_damage_to_a_manifest_that_is_stored_as_pages(client: BlockingClient, path: Path) -> None:
    """It says which parts to read, and how many: it is verified before it is believed."""
    vast = {f"field {n}": [f"{n} {m} " * 60 for m in range(20)] for n in range(60)}
    saved = client.save("a", session_id="s", execution_state=vast)
    client.close()
    with sqlite3.connect(path) as connection:
        parts = connection.execute("SELECT key, data FROM lastgood_part").fetchall()
        shape = [(key, data) for key, data in parts if b"field 59" in data]
        assert shape
        for key, data in shape:
            for place in range(0, len(data), max(1, len(data) // 200)):
                for bit in (1, 7):
                    damaged = bytearray(data)
                    damaged[place] ^= 1 << bit
                    change(path, "UPDATE lastgood_part SET data = ? WHERE key = ?", damaged, key)
                    with (
                        BlockingClient.sqlite(path) as fresh,
                        pytest.raises(CheckpointIntegrityError),
                    ):
                        fresh.restore(saved)
            change(path, "UPDATE lastgood_part SET data = ? WHERE key = ?", data, key)
    connection.close()
    with BlockingClient.sqlite(path) as fresh:
        assert fresh.restore(saved).state == vast


def test_a_filter_does_not_decode_what_is_behind_the_page(
    client: BlockingClient, path: Path
) -> None:
    for number in range(4):
        client.save("a", session_id="s", execution_state={}, metadata={"n": number})
    spoiled = "\ud800".encode("utf-8", "surrogatepass")
    with sqlite3.connect(path) as connection:
        [columns] = connection.execute(select(CheckpointRow, "key & 4294967295 = 2"))
        row = unsealed(CheckpointRow, unfolded(columns))._replace(metadata=b"\xa3" + spoiled)
        connection.execute(
            "UPDATE lastgood_checkpoint SET rest = ? WHERE key & 4294967295 = 2", stored(row)[-1:]
        )
    connection.close()
    assert [h.seq for h in client.log("s", metadata={"n": 2}, limit=1)] == [3]
    with pytest.raises(SerializationError):
        client.log("s", metadata={"n": 9}, limit=1)


def test_a_damaged_row_beside_a_line_does_not_hurt_it(path: Path, client: BlockingClient) -> None:
    ids, others = [], []
    for number in range(6):
        ids.append(client.save("a", session_id="t", execution_state={"n": number}))
        others.append(client.save("b", session_id="t", execution_state={"n": number}))
    client.close()
    change(path, "UPDATE lastgood_checkpoint SET size = size + 1 WHERE key & 0xffffffff = 4")
    again = BlockingClient.sqlite(path)
    assert [each.checkpoint_id for each in again.walk(ids[-1])] == ids[::-1]
    with pytest.raises(CheckpointIntegrityError):
        again.walk(others[-1])
    again.close()


def heads(client: BlockingClient) -> object:
    found = client.latest(agent_id="a", session_id="t")
    return found and (found.checkpoint_id, found.state)


class TestALineThatWasSeen:
    """Who has looked at a head before, and looks again after something happened elsewhere."""

    @pytest.fixture
    def other(self, path: Path, client: BlockingClient) -> Iterator[BlockingClient]:
        client.save("a", session_id="t", execution_state={"n": 0})
        assert heads(client) == heads(client)
        opened = BlockingClient.sqlite(path, durability="relaxed")
        yield opened
        opened.close()

    def test_is_read_with_one_question(self, path: Path) -> None:
        client, asked = traced(path)
        client.save("a", session_id="t", execution_state={"n": 0})
        before = heads(client)
        asked.clear()
        assert heads(client) == before
        assert asked == ["PRAGMA data_version"]
        client.close()

    def test_a_save(self, client: BlockingClient, other: BlockingClient) -> None:
        saved = other.save("a", session_id="t", execution_state={"n": 1})
        assert heads(client) == (saved, {"n": 1})

    def test_ones_own_save(self, client: BlockingClient, other: BlockingClient) -> None:
        saved = client.save("a", session_id="t", execution_state={"n": 1})
        assert heads(client) == (saved, {"n": 1}) == heads(other)

    def test_another_thread_of_the_same_store(
        self, client: BlockingClient, other: BlockingClient
    ) -> None:
        before = heads(client)
        other.save("a", session_id="u", execution_state={"n": 1})
        assert heads(client) == before

    def test_a_rewind(self, client: BlockingClient, other: BlockingClient) -> None:
        first = client.latest(agent_id="a", session_id="t")
        assert first is not None
        other.save("a", session_id="t", execution_state={"n": 1})
        heads(client)
        other.rewind("t", first.checkpoint_id, agent_id="a")
        found = client.latest(agent_id="a", session_id="t")
        assert found is not None
        assert found.state == {"n": 0}
        assert found.checkpoint_id != first.checkpoint_id

    def test_the_end_of_the_thread(self, client: BlockingClient, other: BlockingClient) -> None:
        other.delete("t")
        assert heads(client) is None
        again = other.save("a", session_id="t", execution_state={"n": 9})
        assert heads(client) == (again, {"n": 9})

    def test_the_end_of_the_head(self, client: BlockingClient, other: BlockingClient) -> None:
        before = heads(client)
        gone = other.save("a", session_id="t", execution_state={"n": 1})
        assert heads(client) != before
        other.expire(gone)
        assert heads(client) == before

    def test_another_tenant(self, path: Path, other: BlockingClient) -> None:
        assert heads(other) is not None
        strange = BlockingClient.sqlite(path, tenant="other")
        assert heads(strange) is None
        strange.close()

    def test_time_that_has_passed(self, path: Path) -> None:
        now = [1_000_000_000 * 10**9]
        client = BlockingClient.on(SqliteBackend(path, clock=lambda: now[0]))
        kept = client.save("a", session_id="t", execution_state={"n": 0})
        short = client.save("a", session_id="t", execution_state={"n": 1}, ttl_seconds=60)
        assert heads(client) == heads(client) == (short, {"n": 1})
        now[0] += 61 * 10**9
        assert heads(client) == heads(client) == (kept, {"n": 0})
        client.close()

    def test_a_clock_that_is_put_back(self, path: Path) -> None:
        now = [1_000_000_000 * 10**9]
        client = BlockingClient.on(SqliteBackend(path, clock=lambda: now[0]))
        kept = client.save("a", session_id="t", execution_state={"n": 0})
        short = client.save("a", session_id="t", execution_state={"n": 1}, ttl_seconds=60)
        now[0] += 61 * 10**9
        assert heads(client) == heads(client) == (kept, {"n": 0})
        now[0] -= 30 * 10**9
        assert heads(client) == heads(client) == (short, {"n": 1})
        client.close()

    def test_damage(self, path: Path, client: BlockingClient, other: BlockingClient) -> None:
        change(path, "UPDATE lastgood_checkpoint SET size = size + 1")
        for each in (client, other):
            with pytest.raises(CheckpointIntegrityError):
                heads(each)


class TestACheckpointThatWasSeen:
    """Who has restored one by its id before, and asks again after something happened elsewhere."""

    @pytest.fixture
    def saved(self, client: BlockingClient) -> str:
        made = client.save("a", session_id="t", execution_state={"n": 0})
        client.save("a", session_id="t", execution_state={"n": 1})
        assert client.restore(made).state == client.restore(made).state == {"n": 0}
        return made

    @pytest.fixture
    def other(self, path: Path) -> Iterator[BlockingClient]:
        opened = BlockingClient.sqlite(path, durability="relaxed")
        yield opened
        opened.close()

    def test_is_read_with_one_question(self, path: Path, saved: str) -> None:
        client, asked = traced(path)
        before = client.restore(saved)
        asked.clear()
        assert client.restore(saved) == before
        assert asked == ["PRAGMA data_version"]
        client.close()

    def test_its_end(self, client: BlockingClient, other: BlockingClient, saved: str) -> None:
        other.expire(saved)
        with pytest.raises(CheckpointNotFoundError):
            client.restore(saved)

    def test_the_end_by_ones_own_hand(self, client: BlockingClient, saved: str) -> None:
        client.expire(saved)
        with pytest.raises(CheckpointNotFoundError):
            client.restore(saved)

    def test_the_end_of_the_thread(
        self, client: BlockingClient, other: BlockingClient, saved: str
    ) -> None:
        other.delete("t")
        with pytest.raises(CheckpointNotFoundError):
            client.restore(saved)

    def test_another_tenant(self, path: Path, saved: str) -> None:
        backend = SqliteBackend(path)
        owner = BlockingClient.on(backend)
        stranger = BlockingClient.on(backend, tenant="other")
        assert owner.restore(saved).state == {"n": 0}
        with pytest.raises(CheckpointNotFoundError):
            stranger.restore(saved)
        owner.close()

    def test_time_that_has_passed(self, path: Path) -> None:
        now = [1_000_000_000 * 10**9]
        client = BlockingClient.on(SqliteBackend(path, clock=lambda: now[0]))
        short = client.save("a", session_id="t", execution_state={"n": 1}, ttl_seconds=60)
        assert client.restore(short).state == client.restore(short).state
        now[0] += 61 * 10**9
        with pytest.raises(CheckpointExpiredError):
            client.restore(short)
        client.close()

    def test_damage(self, path: Path, client: BlockingClient, saved: str) -> None:
        change(path, "UPDATE lastgood_checkpoint SET size = size + 1 WHERE key & 0xffffffff = 1")
        with pytest.raises(CheckpointIntegrityError):
            client.restore(saved)

    def test_only_so_many_are_kept_and_no_large_ones(self) -> None:
        with closing(plain_connect(":memory:")) as connection:
            lines = Lines(connection)
            for number in range(LIMIT + 1):
                row = a_checkpoint(id=number.to_bytes(16), expires_at=None)
                lines.note_located("default", Located(row, "t", "a", expired=False))
            assert len(lines._located) == 1
            large = a_checkpoint(metadata=b"x" * verified.LARGEST, manifest=b"x", expires_at=None)
            lines.note_located("default", Located(large, "t", "a", expired=False))
            assert lines.located("default", large.id) is None
