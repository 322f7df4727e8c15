"""SQLite files that a user may look at, but not write."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from lastgood import BackendConnectionError, BlockingClient, CheckpointNotFoundError
from lastgood.backends.sqlite.still import DisturbedError, read_still
from lastgood.cli.doctor_store import store_findings
from rights import as_an_ordinary_user, read_only


def test_a_read_only_file_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "odd ?#%name.db"
        with BlockingClient.sqlite(path) as client:
            saved = client.save("a", execution_state={"n": list(range(9_000))}, session_id="s")
        client = BlockingClient.sqlite(path)
        with read_only(Path(name)), as_an_ordinary_user():
            with pytest.raises(BackendConnectionError, match=r"read-only.*write access"):
                client.save("a", execution_state={"n": 2}, session_id="s")
            for _ in range(2):
                assert client.restore(saved).state == {"n": list(range(9_000))}
                assert [header.checkpoint_id for header in client.log("s")] == [saved]
            assert client.verify(data=True).clean
            with pytest.raises(CheckpointNotFoundError):
                client.restore("s@99")
            client.close()
        assert [each.name for each in Path(name).iterdir()] == [path.name]


def test_the_doctor_looks_into_a_read_only_file() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.db"
        with BlockingClient.sqlite(path) as client:
            client.save("a", execution_state={}, session_id="s")
        with read_only(Path(name)), as_an_ordinary_user():
            found = {each.what: each for each in store_findings(str(path), path)}
    assert (found["threads"].level, found["threads"].found) == ("ok", "1")
    assert (found["journal"].level, found["journal"].found) == ("ok", "wal")
    assert "problem" not in {each.level for each in found.values()}


def test_a_file_that_this_user_may_not_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.db"
        with BlockingClient.sqlite(path) as client:
            client.save("a", execution_state={}, session_id="s")
        client = BlockingClient.sqlite(path)
        Path(name).chmod(0o755)
        path.chmod(0o000)
        with as_an_ordinary_user():
            with pytest.raises(BackendConnectionError, match="may read the file"):
                client.threads()
            findings = list(store_findings(str(path), path))
    problems = [each for each in findings if each.level == "problem"]
    assert [(each.what, each.found) for each in problems] == [
        ("rights", "this user may not read it")
    ]


def test_a_read_only_file_that_somebody_else_writes_is_read_as_it_is_now() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.db"
        reader = BlockingClient.sqlite(path)
        for number in range(3):  # opened and closed in between: each read meets another situation
            writer = BlockingClient.sqlite(path)
            writer.save("a", execution_state={"n": number}, session_id="s")
            Path(name).chmod(0o755)
            with as_an_ordinary_user():
                assert reader.latest(agent_id="a", session_id="s").state == {"n": number}
            writer.close()
            with as_an_ordinary_user():
                assert reader.latest(agent_id="a", session_id="s").state == {"n": number}
        reader.close()


def test_what_a_crash_left_in_a_read_only_log_is_not_passed_over() -> None:
    with tempfile.TemporaryDirectory() as name:
        path, copy = Path(name) / "x.db", Path(name) / "copy"
        copy.mkdir()
        with BlockingClient.sqlite(path) as client:
            client.save("a", execution_state={"n": 1}, session_id="s")
            for end in ("", "-wal"):
                shutil.copy(f"{path}{end}", f"{copy / path.name}{end}")
        late = BlockingClient.sqlite(copy / path.name)
        Path(name).chmod(0o755)
        with read_only(copy), as_an_ordinary_user():
            with pytest.raises(BackendConnectionError, match=r"use a copy elsewhere"):
                late.latest(agent_id="a", session_id="s")
            late.close()


def test_a_read_only_file_without_tables_is_no_store() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.db"
        path.touch()
        client = BlockingClient.sqlite(path)
        with read_only(Path(name)), as_an_ordinary_user():
            with pytest.raises(BackendConnectionError, match="no tables of ours"):
                client.threads()
            client.close()


def test_what_was_read_while_somebody_wrote_is_not_given_out(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    def save(_: object = None) -> None:
        with BlockingClient.sqlite(path) as client:
            client.save("a", execution_state={"n": 1}, session_id="s")

    save()
    assert read_still(str(path), lambda _: "read") == "read"
    with pytest.raises(DisturbedError):
        read_still(str(path), save)
