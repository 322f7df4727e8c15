"""Bad input: each kind gives the typed error that names cause and fix, and nothing half-written."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lastgood import (
    BackendConnectionError,
    BlockingClient,
    Checkpoint,
    CheckpointBuilder,
    CheckpointNotFoundError,
    Client,
    IncompatibleCheckpointError,
    SerializationError,
    StaleWriterError,
)
from rights import as_an_ordinary_user

Call = Callable[[BlockingClient, Any], object]


@pytest.fixture(params=["sqlite", "memory"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingClient]:
    made = (
        BlockingClient.memory()
        if request.param == "memory"
        else BlockingClient.sqlite(tmp_path / "x.db")
    )
    with made:
        yield made
        assert len(made.threads()) == 0, "something was written"


BAD_NAMES: dict[str, Any] = {
    "empty": "",
    "too long": "x" * 256,
    "too long in bytes": "\U0001f600" * 64,
    "a number": 7,
    "bytes": b"s",
    "a list": ["s"],
    "NUL": "a\x00b",
    "newline": "a\nb",
    "escape": "a\x1bb",
    "C1 control": "a\x85b",
    "lone surrogate": "a\ud800b",
}


def way(bad: Any) -> Any:
    """As an agent that is looked for: what a graph calls its subgraphs may be 16 times as long."""
    return bad * 17 if isinstance(bad, str) else bad


NAMED: dict[str, Call] = {
    "save session_id": lambda c, bad: c.save("a", execution_state={}, session_id=bad),
    "save agent_id": lambda c, bad: c.save(bad, execution_state={}, session_id="s"),
    "save step_name": lambda c, bad: c.save("a", execution_state={}, step_name=bad),
    "save branch": lambda c, bad: c.save("a", execution_state={}, branch=bad),
    "save framework": lambda c, bad: c.save("a", execution_state={}, framework=bad),
    "save parent_id": lambda c, bad: c.save("a", execution_state={}, parent_id=bad),
    "save checkpoint_id": lambda c, bad: c.save("a", execution_state={}, checkpoint_id=bad),
    "restore": lambda c, bad: c.restore(bad),
    "expire": lambda c, bad: c.expire(bad),
    "handoff": lambda c, bad: c.handoff(bad, "b"),
    "handoff target": lambda c, bad: c.handoff("x", bad),
    "timeline agent": lambda c, bad: c.timeline(way(bad), "s"),
    "timeline session": lambda c, bad: c.timeline("a", bad),
    "latest": lambda c, bad: c.latest(agent_id=way(bad), session_id="s"),
    "log session": lambda c, bad: c.log(bad),
    "log agent": lambda c, bad: c.log("s", agent_id=way(bad)),
    "log branch": lambda c, bad: c.log("s", branch=bad),
    "log step_name": lambda c, bad: c.log("s", step_name=bad),
    "delete": lambda c, bad: c.delete(bad),
    "run session_id": lambda c, bad: c.run(bad),
    "run agent_id": lambda c, bad: c.run("s", agent_id=bad),
    "run branch": lambda c, bad: c.run("s", branch=bad),
    "tenant": lambda c, bad: BlockingClient.memory(tenant=bad),
}


@pytest.mark.parametrize("bad", BAD_NAMES.values(), ids=BAD_NAMES)
@pytest.mark.parametrize("call", NAMED.values(), ids=NAMED)
def test_names(client: BlockingClient, call: Call, bad: Any) -> None:
    expected = ValueError if isinstance(bad, str) else TypeError
    with pytest.raises(expected) as caught:
        call(client, bad)
    assert type(caught.value) is expected
    assert str(caught.value)


def test_a_name_of_the_longest_kind(tmp_path: Path) -> None:
    with BlockingClient.sqlite(tmp_path / "x.db") as client:
        name = "\u00e9" * 127 + "x"
        saved = client.save(name, execution_state={}, session_id=name, step_name=name, branch=name)
        handed = client.restore(client.handoff(saved, name[:-1]))
        assert client.restore(saved).session_id == name
        assert handed.agent_id == name[:-1]
        assert len(handed.step_name.encode()) <= 255


BAD_OPTIONS: dict[str, tuple[Call, Any, type[Exception]]] = {
    "ttl zero": (lambda c, v: c.save("a", execution_state={}, ttl_seconds=v), 0, ValueError),
    "ttl negative": (lambda c, v: c.save("a", execution_state={}, ttl_seconds=v), -5, ValueError),
    "ttl text": (lambda c, v: c.save("a", execution_state={}, ttl_seconds=v), "5", TypeError),
    "ttl True": (lambda c, v: c.save("a", execution_state={}, ttl_seconds=v), True, TypeError),
    "ttl infinite": (
        lambda c, v: c.save("a", execution_state={}, ttl_seconds=v),
        float("inf"),
        ValueError,
    ),
    "step text": (lambda c, v: c.save("a", execution_state={}, step_index=v), "1", TypeError),
    "step negative": (lambda c, v: c.save("a", execution_state={}, step_index=v), -1, ValueError),
    "step huge": (lambda c, v: c.save("a", execution_state={}, step_index=v), 10**30, ValueError),
    "limit zero": (lambda c, v: c.timeline("a", "s", limit=v), 0, ValueError),
    "limit -1": (lambda c, v: c.log("s", limit=v), -1, ValueError),
    "limit text": (lambda c, v: c.threads(limit=v), "5", TypeError),
    "cursor": (lambda c, v: c.log("s", after=v), "x", ValueError),
    "cursor negative": (lambda c, v: c.threads(after=v), "-1", ValueError),
    "since text": (lambda c, v: c.log("s", since=v), "2020-01-01", TypeError),
    "until number": (lambda c, v: c.log("s", until=v), 5, TypeError),
    "metadata list": (lambda c, v: c.save("a", execution_state={}, metadata=v), [1], TypeError),
    "context text": (lambda c, v: c.save("a", execution_state={}, context=v), "x", TypeError),
    "filter list": (lambda c, v: c.log("s", metadata=v), [1], TypeError),
    "on_conflict": (
        lambda c, v: c.save("a", execution_state={}, on_conflict=v),
        "fork",
        ValueError,
    ),
    "expect": (lambda c, v: c.run("s", expect=v), "old", ValueError),
    "no checkpoint": (lambda c, v: c.put(v), {"checkpoint_id": "x"}, TypeError),
    "unknown option": (lambda c, v: BlockingClient.memory(**v), {"tenent": "x"}, TypeError),
    "unknown policy": (
        lambda c, v: BlockingClient.memory(on_unserializable=v),
        "ignore",
        ValueError,
    ),
    "unknown address": (lambda c, v: BlockingClient.open(v), "mysql://x", ValueError),
    "no address": (lambda c, v: BlockingClient.open(v), None, ValueError),
}


@pytest.mark.parametrize(("call", "value", "expected"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_options(client: BlockingClient, call: Call, value: Any, expected: type[Exception]) -> None:
    with pytest.raises(expected) as caught:
        call(client, value)
    assert type(caught.value) is expected
    assert str(caught.value)


NO_TTL = {
    "inf": float("inf"),
    "nan": float("nan"),
    "large": 10**12,
    "no float": 10**400,
    "timedelta": timedelta.max,
    "zero": 0,
}


@pytest.mark.parametrize("ttl", NO_TTL.values(), ids=NO_TTL)
def test_a_ttl_names_both_its_limits(client: BlockingClient, ttl: Any) -> None:
    with pytest.raises(ValueError, match=r"ttl_seconds must be greater than 0 and .* 950 years"):
        client.save("a", execution_state={}, ttl_seconds=ttl)
    grace = re.escape("grace_seconds must be 0 or more, and less than 950 years")
    if ttl:
        with pytest.raises(ValueError, match=grace):
            client.sweep(grace_seconds=ttl)


def _append(client: BlockingClient, path: Any) -> None:
    with client.run("s") as run:
        run.append(path, 1)


PATHS: dict[str, Call] = {
    "append": _append,
    "blame": lambda c, path: c.blame("s@", path),
    "fork edits": lambda c, path: c.fork("s@", edits={path: 1}),
    "fork remove": lambda c, path: c.fork("s@", remove=[path]),
}


@pytest.mark.parametrize("path", [3, None, b"l", ("l",)], ids=repr)
@pytest.mark.parametrize("call", PATHS.values(), ids=PATHS)
def test_a_path_that_is_no_text(call: Call, path: Any) -> None:
    with BlockingClient.memory() as client:
        client.save("main", session_id="s", execution_state={"l": []})
        words = re.escape(f"a path must be a str such as 'items[3].name', not {path!r}")
        with pytest.raises(TypeError, match=words):
            call(client, path)
        assert len(client.log("s")) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"agent_id": None}, "agent_id missing"),
        ({"created_at": None, "execution_state": None}, "created_at, execution_state missing"),
        ({"created_at": "today"}, "created_at is no time: 'today'"),
        ({"expires_at": 1_700_000_000}, "expires_at is no time: 1700000000"),
    ],
)
def test_a_dict_that_is_no_checkpoint(changes: dict[str, Any], said: str) -> None:
    """None stands for a key that is left out."""
    whole = CheckpointBuilder("a").build().as_dict()
    values = {key: changes.get(key, value) for key, value in whole.items()}
    for key in (key for key, value in changes.items() if value is None):
        del values[key]
    with pytest.raises(IncompatibleCheckpointError, match=said) as caught:
        Checkpoint.from_dict(values)
    assert "as_dict()" in caught.value.hint


@pytest.mark.parametrize("predicate", [None, True, "x"])
def test_a_bisection_by_nothing(predicate: Any) -> None:
    with BlockingClient.memory() as client:
        client.save("a", session_id="s", execution_state={})
        with pytest.raises(TypeError, match="predicate must be a function"):
            client.bisect("s", predicate)


@pytest.mark.parametrize("note", [3, b"x", ["x"]], ids=repr)
def test_a_note_that_is_no_text(note: Any) -> None:
    with BlockingClient.memory() as client:
        client.save("a", session_id="s", execution_state={})
        with pytest.raises(TypeError, match=f"note must be a str, not {type(note).__name__}"):
            client.handoff("s@", "b", note=note)
        assert len(client.log("s")) == 1


@pytest.mark.parametrize("after", ["9" * 30, "0", "1"])
def test_a_cursor_beyond_the_end(client: BlockingClient, after: str) -> None:
    assert len(client.log("s", after=after)) == 0
    for sort in ("updated", "created"):
        assert len(client.threads(after=f"0:{after}", sort=sort)) == 0


def _cyclic() -> dict[str, Any]:
    state: dict[str, Any] = {"a": []}
    state["a"].append(state)
    return state


def _deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return {"deep": value}


BAD_STATES: dict[str, tuple[Callable[[], Any], str]] = {
    "lambda": (lambda: {"items": [0, {"cb": lambda: 0}]}, "state.items[1].cb"),
    "cycle": (_cyclic, "state.a[0]"),
    "object": (lambda: {"o": object()}, "state.o"),
    "exception": (lambda: {"e": ValueError("x")}, "state.e"),
    "generator": (lambda: {"g": (n for n in ())}, "state.g"),
    "database": (lambda: {"db": sqlite3.connect(":memory:")}, "state.db"),
    "key": (lambda: {"d": {object(): 1}}, "state.d"),
    "local class": (lambda: {"c": type("Local", (), {})()}, "state.c"),
    "itself": (lambda: lambda: 0, "state"),
}


@pytest.mark.parametrize(("make", "path"), BAD_STATES.values(), ids=BAD_STATES)
@pytest.mark.parametrize("pad", [0, 100_000])
def test_states(client: BlockingClient, make: Callable[[], Any], path: str, pad: int) -> None:
    state = make()
    if isinstance(state, dict) and "a" not in state:
        state = {"pad": "x" * pad, **state}
    with pytest.raises(SerializationError) as caught:
        client.save("a", execution_state=state, session_id="s")
    assert caught.value.path.startswith(path)
    assert caught.value.hint
    for value in state.values() if isinstance(state, dict) else ():
        if isinstance(value, sqlite3.Connection):
            value.close()


@pytest.mark.parametrize("levels", [300, 10_000, 200_000])
def test_depth(client: BlockingClient, levels: int) -> None:
    with pytest.raises(SerializationError, match="200 levels"):
        client.save("a", execution_state=_deep(levels), session_id="s")


def test_what_looks_bad_and_is_not(tmp_path: Path) -> None:
    state = {
        "nan": float("nan"),
        "surrogate": "\ud800",
        "nul": "\x00",
        "huge": 10**400,
        "keys": {None: 1, (1, "a"): 2, 1.5: 3, b"x": 4, frozenset({1}): 5, 10**30: 6},
        "": {"": ""},
        "deep": _deep(150),
    }
    with BlockingClient.sqlite(tmp_path / "x.db") as client:
        found = client.restore(client.save("a", execution_state=state)).state
    assert repr(found) == repr(state)


def test_a_function_in_words(client: BlockingClient) -> None:
    callback = lambda: 0  # noqa: E731
    line = callback.__code__.co_firstlineno
    with pytest.raises(SerializationError) as caught:
        client.save("a", execution_state={"items": [0, 1, 2, {"callback": callback}]})
    assert str(caught.value) == (
        "state.items[3].callback: a function cannot be stored "
        f"(<lambda>, test_bad_input.py:{line}). "
        'Keep it out of the state, or on_unserializable="drop".'
    )


@pytest.mark.parametrize("status", ["idel", "waiting", ["idle"], ""])
def test_a_status_that_no_thread_has(client: BlockingClient, status: Any) -> None:
    words = '"running" or "stale" or "failed" or "idle" or "done" or "damaged"'
    with pytest.raises(ValueError, match=re.escape(f"status must be {words}, not {status!r}")):
        client.threads(status=status)


def test_not_found_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with BlockingClient.sqlite("lastgood.db") as client:
        with pytest.raises(CheckpointNotFoundError) as caught:
            client.restore("x")
        assert str(caught.value) == (
            "No checkpoint 'x' in sqlite:///lastgood.db "
            "(created just now, 0 threads of tenant 'default'). "
            "Started from another directory, or for another tenant? Pass the path, or tenant=."
        )
        client.save("a", execution_state={})
        with pytest.raises(CheckpointNotFoundError, match=r"just now, 1 thread\)"):
            client.restore("x")


def test_a_mistyped_option_in_words(client: BlockingClient) -> None:
    with pytest.raises(TypeError) as caught:
        client.save("a", execution_state={}, ttl=5)
    assert str(caught.value) == (
        "unknown option 'ttl': did you mean ttl_seconds? "
        'To store it as metadata: metadata={"ttl": ...}'
    )


def test_a_coroutine_in_words() -> None:
    async def main() -> None:
        client = Client.memory()
        forgotten = client.save("a", execution_state={})
        with pytest.raises(TypeError) as caught:
            await client.restore(forgotten)  # type: ignore[arg-type]
        forgotten.close()
        assert str(caught.value) == (
            "This is a coroutine: write `await client.save(...)`, "
            "or use BlockingClient in code without async."
        )

    asyncio.run(main())


def test_a_number_that_is_text_is_told_how_it_is_written() -> None:
    """As from the query of a request."""
    with BlockingClient.memory() as client:
        client.save("a", execution_state={}, session_id="s")
        with pytest.raises(CheckpointNotFoundError, match="with that number write '@1'"):
            client.rewind("s", "1")
        assert client.rewind("s", "@1").branch != "main"


def test_a_tilde_is_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BackendConnectionError, match=r"~/x\.db cannot be opened\. A ~ is no home"):
        BlockingClient.sqlite("~/x.db").threads()


def test_a_process_that_has_too_many_files_open_is_told_so(tmp_path: Path) -> None:
    """As a service that never closes what it opens. With the file and its rights all is well."""
    with BlockingClient.sqlite(tmp_path / "y.db") as client:  # and modules are imported
        client.save("a", execution_state={})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 50, hard))
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(BackendConnectionError, match=r"too many files .* are open") as refused:
            BlockingClient.sqlite(tmp_path / "x.db").save("a", execution_state={})
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "ulimit -n" in refused.value.hint


def test_a_moved_head_in_words(tmp_path: Path) -> None:
    with (
        BlockingClient.memory() as client,
        client.run("order-42", agent_id="payments", initial={}) as run,
    ):
        client.save("payments", execution_state={}, session_id="order-42")
        with pytest.raises(StaleWriterError) as caught:
            run.save({"n": 1})
        expected = caught.value.expected
        client.save(
            "payments", execution_state=run.state, session_id="order-42", parent_id=expected
        )
        assert [b.current for b in client.branches("order-42")] == [True, False]
    assert str(caught.value) == (
        "order-42/payments moved on: you began at @1, the head is @2 (0 s ago). "
        "Open the run again. "
        "To keep this state as a branch: client.save(..., parent_id=error.expected)."
    )


# files that are not ours

FIRST_CALLS: dict[str, Callable[[BlockingClient], object]] = {
    "save": lambda c: c.save("a", execution_state={}),
    "restore": lambda c: c.restore("01900000-0000-7000-8000-000000000001"),
    "latest": lambda c: c.latest(agent_id="a", session_id="s"),
    "threads": lambda c: c.threads(),
    "log": lambda c: c.log("s"),
    "delete": lambda c: c.delete("s"),
    "run": lambda c: c.run("s").__enter__(),
}
first_calls = pytest.mark.parametrize("call", FIRST_CALLS.values(), ids=FIRST_CALLS)


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    before = path.read_bytes()
    yield
    assert path.read_bytes() == before


def _database(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@first_calls
def test_langgraphs_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[BlockingClient], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    _database(
        tmp_path / "agent.db",
        "CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',"
        " checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB,"
        " metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))",
        "CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',"
        " checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL,"
        " channel TEXT NOT NULL, type TEXT, value BLOB,"
        " PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))",
        "INSERT INTO checkpoints (thread_id, checkpoint_id)"
        " VALUES ('1', 'a'), ('2', 'b'), ('3', 'c'), ('3', 'd')",
    )
    client = BlockingClient.sqlite("agent.db")
    with unchanged(tmp_path / "agent.db"), pytest.raises(IncompatibleCheckpointError) as caught:
        call(client)
    assert str(caught.value) == (
        "agent.db belongs to LangGraph's SqliteSaver (3 threads). "
        "Bring it over: lastgood import langgraph-sqlite agent.db"
    )


@first_calls
def test_checkpnts_database(tmp_path: Path, call: Callable[[BlockingClient], object]) -> None:
    _database(
        tmp_path / "c.db",
        "CREATE TABLE checkpoints (checkpoint_id TEXT PRIMARY KEY, agent_id TEXT, session_id TEXT,"
        " parent_id TEXT, framework TEXT, schema_version TEXT, step_index INTEGER, step_name TEXT,"
        " payload BLOB, checksum TEXT, created_at_ms INTEGER, expires_at_ms INTEGER,"
        " handoff_target TEXT, handoff_schema TEXT)",
        "INSERT INTO checkpoints (checkpoint_id, session_id, payload) VALUES ('a', 's', x'80')",
    )
    client = BlockingClient.sqlite(tmp_path / "c.db")
    with unchanged(tmp_path / "c.db"), pytest.raises(IncompatibleCheckpointError, match="checkpnt"):
        call(client)


@first_calls
@pytest.mark.parametrize(
    ("number", "advice"),
    [("999", "Upgrade lastgood"), ("2", "lastgood copy"), ("7" * 5000, "Upgrade")],
    ids=["newer", "older", "damaged"],
)
def test_another_format(
    tmp_path: Path, call: Callable[[BlockingClient], object], number: str, advice: str
) -> None:
    path = tmp_path / "x.db"
    with BlockingClient.sqlite(path) as client:
        client.save("a", execution_state={})
    _database(path, f"UPDATE lastgood_meta SET value = '{number}' WHERE name = 'format'")
    with pytest.raises(IncompatibleCheckpointError, match=rf"format {number[:20]};.*{advice}"):
        call(BlockingClient.sqlite(path))


def test_tables_of_an_application_may_live_beside_ours(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    _database(path, "CREATE TABLE users (name TEXT)", "INSERT INTO users VALUES ('ada')")
    with BlockingClient.sqlite(path) as client:
        assert len(client.threads()) == 0
        saved = client.save("a", execution_state={"n": 1})
        assert client.restore(saved).state == {"n": 1}
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM users").fetchall() == [("ada",)]
    connection.close()


@first_calls
def test_an_empty_file(tmp_path: Path, call: Callable[[BlockingClient], object]) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with BlockingClient.sqlite(path) as client:
        with suppress(CheckpointNotFoundError):
            call(client)
        client.save("a", execution_state={}, session_id="s2")


@first_calls
def test_a_directory(tmp_path: Path, call: Callable[[BlockingClient], object]) -> None:
    with pytest.raises(BackendConnectionError, match="is a directory"):
        call(BlockingClient.sqlite(tmp_path))


@pytest.mark.parametrize("path", ["new/", "sqlite:///new/"])
def test_a_directory_to_be(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened = BlockingClient.open if ":" in path else BlockingClient.sqlite
    with pytest.raises(ValueError, match=r"'new/' is a directory.* files:new/"):
        opened(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opened", [BlockingClient.sqlite, BlockingClient.files])
@pytest.mark.parametrize("address", ["sqlite:///x.db", "files:x", "postgresql://u:secret@h/db"])
def test_an_address_in_the_place_of_a_path(
    opened: Callable[[str], object], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"is an address, not a path.*Client\.open") as caught:
        opened(address)
    assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@first_calls
def test_a_missing_directory(tmp_path: Path, call: Callable[[BlockingClient], object]) -> None:
    path = tmp_path / "nowhere" / "x.db"
    with pytest.raises(BackendConnectionError, match="directory exists"):
        call(BlockingClient.sqlite(path))
    assert not path.parent.exists()


@first_calls
def test_not_a_database(tmp_path: Path, call: Callable[[BlockingClient], object]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, not a database " * 100)
    with unchanged(path), pytest.raises(BackendConnectionError, match="not a SQLite database"):
        call(BlockingClient.sqlite(path))


def test_a_directory_without_rights() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o555)
        with as_an_ordinary_user(), pytest.raises(BackendConnectionError, match="write"):
            BlockingClient.sqlite(Path(name) / "x.db").save("a", execution_state={})
        Path(name).chmod(0o755)
        assert list(Path(name).iterdir()) == []
