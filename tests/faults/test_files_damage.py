"""Damage to plain files: every answer is what was saved, or an error of ours; whoever edits a state
is told so; and what one file lost, the others do not miss.
"""

import base64
import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from rich_store import build, open_store, questions
from test_bit_flips import LATER, Store, silent_wrongs

from lastgood import (
    BackendConnectionError,
    BlockingClient,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    StorageError,
)
from lastgood.backends.files import thread_file

MESSAGES = [{"role": "user", "content": f"message {number} " * 12} for number in range(60)]


@pytest.fixture
def rich(place: Path) -> Store:
    path = place / "rich"
    made = build(path)
    client = open_store(path, LATER)
    answers = {name: ask(client) for name, ask in questions(made)}
    shutil.copytree(path, place / "whole")
    return Store(path, {}, b"", made, answers)


def flipped(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "a flipped bit": flipped,
    "an end that is missing": lambda data, rng: data[: rng.randrange(len(data))],
    "zeros": lambda data, _: bytes(len(data)),
    "nothing in it": lambda data, _: b"",
    "another file": lambda data, _: b'{"lastgood": 1}',
    "no file": lambda data, _: None,
}
TIMES = {"a flipped bit": 40}


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damage_goes_unseen(
    damage: str, rich: Store, rng: random.Random, times: Callable[[int], int]
) -> None:
    failures = []
    files = sorted(path.relative_to(rich.path) for path in rich.path.rglob("*.json"))
    for _ in range(times(TIMES.get(damage, 15))):
        shutil.rmtree(rich.path)
        shutil.copytree(rich.path.with_name("whole"), rich.path)
        path = rich.path / rng.choice(files)
        changed = DAMAGES[damage](path.read_bytes(), rng)
        if changed is None:
            path.unlink()
        else:
            path.write_bytes(changed)
        failures += [f"{path.name}: {wrong:.200}" for wrong in list(silent_wrongs(rich))[:1]]
    assert failures == []


@pytest.fixture
def client(place: Path) -> BlockingClient:
    """Three checkpoints of one thread, each longer than the one before, and another thread."""
    made = BlockingClient.files(place / "store")
    for number in range(3):
        state = {"messages": MESSAGES[: 50 + number], "n": number, "tags": {"a", "b"}}
        made.save("a", execution_state=state, session_id="s", metadata={"by": "me"})
    made.save("a", execution_state={"n": 1}, session_id="other")
    return made


def file_of(client: BlockingClient, ref: str) -> Path:
    [found] = Path(client._direct._core.backend.directory).rglob(
        f"*-{client.resolve(ref).checkpoint_id}.json"
    )
    return found


def edit(path: Path, change: Callable[[Any], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=1))


def _state(key: str, value: Any) -> Callable[[Any], None]:
    return lambda document: document["state"].__setitem__(key, value)


def _form(name: str, start: bytes, *records: Any) -> Callable[[Any], None]:
    packed = start + b"".join(map(ormsgpack.packb, records))
    return lambda document: document["form"].update({name: base64.b64encode(packed).decode()})


PAGES = [2, 1, 16, b"", 51, 0, 1, 0], [0, 1, 1 << 40]
"""A sequence of far more pages than there are."""
EDITS: dict[str, Callable[[Any], None]] = {
    "pages without end": _form(
        *("tree", b"", [1, 1, b"", [b"\xa8messages", b"\xa1n", b"\xa4tags"]]),
        *(*PAGES, [0, b""], [0, b""]),
    ),
    "a manifest of pages without end": _form("skeleton", b"\x01", *PAGES),
    "a small value": _state("n", 7),
    "a message": lambda document: document["state"]["messages"][3].update(content="no"),
    "a message less": lambda document: document["state"]["messages"].pop(),
    "a message more": lambda document: document["state"]["messages"].append("more"),
    "a type": lambda document: document["state"]["tags"].update({"$lg": "tuple"}),
    "a key more": _state("extra", 1),
    "a key less": lambda document: document["state"].pop("n"),
    "metadata": lambda document: document["checkpoint"].update(metadata={"by": "you"}),
    "the agent": lambda document: document.update(agent="b"),
    "the thread": lambda document: document.update(thread="other"),
    "the time": lambda document: document["checkpoint"].update(created_at="2020-01-01T00:00:00Z"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_file_is_noticed_and_hurts_itself_alone(
    name: str, client: BlockingClient
) -> None:
    """The other checkpoints have all of the state themselves."""
    ids = [client.resolve(f"s@{seq}").checkpoint_id for seq in (1, 2, 3)]
    states = [client.restore(id).state for id in ids]
    edit(file_of(client, "s@2"), EDITS[name])
    reader = BlockingClient.files(client._direct._core.backend.directory)
    with pytest.raises(CheckpointIntegrityError):
        reader.restore(ids[1])
    assert [reader.restore(id).state for id in (ids[0], ids[2])] == [states[0], states[2]]
    report = reader.verify(data=True)
    assert {ref for problem in report.problems for ref in problem.checkpoints} == {"s@2"}
    assert reader.verify("other", data=True).clean
    saved = reader.save("a", execution_state={"goes": "on"}, session_id="s")
    assert reader.restore(saved).parent_id == ids[2]


def test_another_layout_is_no_damage(client: BlockingClient) -> None:
    """Whoever formats the files anew changes nothing."""
    path = file_of(client, "s@2")
    state = client.restore("s@2").state
    for indent in (None, 4):
        path.write_text(json.dumps(json.loads(path.read_text()), indent=indent))
        reader = BlockingClient.files(client._direct._core.backend.directory)
        assert reader.restore("s@2").state == state
        assert reader.verify(data=True).clean


def test_a_directory_that_was_copied_or_renamed_is_told(client: BlockingClient) -> None:
    place = file_of(client, "s@1").parent
    shutil.copytree(place, place.with_name("copy"))
    reader = BlockingClient.files(client._direct._core.backend.directory)
    with pytest.raises(CheckpointIntegrityError, match="belongs into another directory"):
        reader.latest(agent_id="a", session_id="copy")
    assert {info.thread_id: info.status for info in reader.threads()} == {
        "s": "idle",
        "other": "idle",
        "copy": "damaged",
    }
    assert reader.latest(agent_id="a", session_id="s").seq == 3
    with pytest.raises(CheckpointIntegrityError):
        reader.save("a", execution_state={}, session_id="copy")


def test_a_file_under_the_name_of_another_is_told(client: BlockingClient) -> None:
    first, second = file_of(client, "s@1"), file_of(client, "s@2")
    second.write_bytes(first.read_bytes())
    reader = BlockingClient.files(client._direct._core.backend.directory)
    with pytest.raises(CheckpointIntegrityError):
        reader.restore("s@2")
    assert reader.restore("s@1").state["n"] == 0


@pytest.mark.parametrize("file", ["thread.json", "lastgood.json"])
def test_a_lost_file_of_the_store_or_of_a_thread_is_no_empty_answer(
    file: str, client: BlockingClient
) -> None:
    root = Path(client._direct._core.backend.directory)
    [path] = [path for path in root.rglob(file) if path.parent.name in ("s", root.name)]
    path.unlink()
    reader = BlockingClient.files(root)
    with pytest.raises(CheckpointIntegrityError, match="missing"):
        reader.save("a", execution_state={}, session_id="s" if file == "thread.json" else "new")
    if file == "thread.json":
        with pytest.raises(CheckpointIntegrityError, match="missing"):
            reader.latest(agent_id="a", session_id="s")
        assert {info.thread_id: info.status for info in reader.threads()}["s"] == "damaged"
        assert reader.verify().exit_code == 2


NO_FILES: dict[str, Callable[[Path], None]] = {
    "a directory": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("name", NO_FILES)
@pytest.mark.parametrize("file", ["thread", "checkpoint"])
def test_what_is_no_file_hurts_its_own_thread_alone(
    file: str, name: str, client: BlockingClient
) -> None:
    path = file_of(client, "s@3")
    path = path.with_name("thread.json") if file == "thread" else path
    path.unlink()
    NO_FILES[name](path)
    reader = BlockingClient.files(client._direct._core.backend.directory)
    with pytest.raises(CheckpointIntegrityError, match=path.name):
        reader.latest(agent_id="a", session_id="s")
    with pytest.raises(CheckpointIntegrityError, match=path.name):
        reader.save("a", execution_state={}, session_id="s")
    saved = reader.save("a", execution_state={"n": 2}, session_id="other")
    assert reader.restore(saved).state == {"n": 2}
    status = {info.thread_id: info.status for info in reader.threads()}
    assert status == {"s": "damaged" if file == "thread" else "idle", "other": "idle"}
    assert reader.verify().exit_code == 2


def test_a_link_to_itself_among_the_threads_is_none(client: BlockingClient) -> None:
    loop = file_of(client, "s@1").parent.with_name("loop")
    loop.symlink_to("loop")
    reader = BlockingClient.files(client._direct._core.backend.directory)
    assert {info.thread_id for info in reader.threads()} == {"s", "other"}
    with pytest.raises(CheckpointNotFoundError):
        reader.restore("01890000-0000-7000-8000-000000000000")
    assert reader.verify(data=True).clean


def test_a_directory_in_the_place_of_the_clock_hinders_no_reader(client: BlockingClient) -> None:
    clock = Path(client._direct._core.backend.directory) / "clock.json"
    clock.unlink()
    clock.mkdir()
    reader = BlockingClient.files(clock.parent)
    assert reader.latest(agent_id="a", session_id="s").seq == 3
    assert [problem.where for problem in reader.verify().problems] == ["store"]
    with pytest.raises(StorageError, match=r"/clock\.json: "):
        reader.save("a", execution_state={}, session_id="s")


NO_NUMBERS: dict[str, Any] = {
    "items": [["messages", "1/../../../../../mine"]],
    "streams": [["x", "y"]],
    "changes": "x",
    "removed": ["a", 2],
    "orphans": [["a", "00", "00"]],
    "large": [["00", 1, 1, "c"]],
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_a_thread_that_counts_by_no_numbers_is_damaged_whatever_its_seal_says(
    name: str, client: BlockingClient
) -> None:
    """What such a number names would be written to or removed, outside of the store too."""
    place = file_of(client, "s@1").parent
    mine = place.parents[3] / "mine.json"
    mine.write_text("{}")
    (place / "items-messages-1.1").mkdir()

    def forge(document: Any) -> None:
        document[name] = NO_NUMBERS[name]
        document["seal"] = thread_file._seal(thread_file._accounts(thread_file._read(document)))

    edit(place / "thread.json", forge)
    reader = BlockingClient.files(client._direct._core.backend.directory)
    with pytest.raises(CheckpointIntegrityError, match=r"thread\.json is damaged"):
        reader.save("a", execution_state={}, session_id="s")
    with pytest.raises(CheckpointIntegrityError, match=r"thread\.json is damaged"):
        reader.delete("s")
    assert mine.exists()
    assert {t.thread_id: t.status for t in reader.threads()} == {"s": "damaged", "other": "idle"}


def test_leftovers_of_a_save_that_never_was_are_ignored_and_swept(client: BlockingClient) -> None:
    path = file_of(client, "s@3")
    stray = path.with_name(path.name.replace("00000003", "00000004"))
    shutil.copy(path, stray)
    half = path.with_name(f".{path.name}.tmp")
    half.write_text("{")
    note = path.with_name("README")
    note.write_text("mine")
    reader = BlockingClient.files(client._direct._core.backend.directory)
    assert [header.seq for header in reader.log("s")] == [3, 2, 1]
    assert reader.verify(data=True).clean
    reader.save("a", execution_state={"n": 4}, session_id="s")
    assert [header.seq for header in reader.log("s")] == [4, 3, 2, 1]
    assert not stray.exists()
    assert not half.exists()
    assert note.exists(), "what is not ours stays"


def test_files_that_a_deleted_thread_left_are_told_and_swept(client: BlockingClient) -> None:
    path = file_of(client, "s@3")
    kept = path.read_bytes()
    client.delete("s")
    path.write_bytes(kept)
    reader = BlockingClient.files(client._direct._core.backend.directory)
    with pytest.raises(CheckpointNotFoundError):
        reader.restore("s@3")
    report = reader.verify()
    assert [problem.kind for problem in report.problems] == ["orphan"]
    assert report.exit_code == 1
    reader.save("a", execution_state={"n": 4}, session_id="s")
    assert [header.seq for header in reader.log("s")] == [1]
    assert reader.verify(data=True).clean
    assert not path.exists()


def test_a_store_that_may_only_be_read(
    client: BlockingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading takes no lock and makes no file; a save says what is wrong."""

    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("open", "mkdir", "replace", "unlink"):
        monkeypatch.setattr(os, name, refuse)
    reader = BlockingClient.files(client._direct._core.backend.directory)
    assert reader.latest(agent_id="a", session_id="s").seq == 3
    assert len(reader.threads()) == 2
    assert reader.verify(data=True).clean
    with pytest.raises(BackendConnectionError, match="Check the path and the rights"):
        reader.save("a", execution_state={}, session_id="s")
