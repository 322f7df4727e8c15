"""Plain files: what is in them, what they are called, and that they give back what went in."""

from __future__ import annotations

import difflib
import fcntl
import json
import random
import shutil
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastgood import (
    BackendConnectionError,
    BlockingClient,
    CheckpointConflictError,
    CheckpointIntegrityError,
    CheckpointManager,
    Client,
    IncompatibleCheckpointError,
    SerializationError,
    TransientStorageError,
    manifest,
)
from lastgood.backends.files import disk
from lastgood.backends.files.checkpoint_file import Names, file_of, opened
from lastgood.backends.files.names import directory_of, place_of
from lastgood.backends.files.recent import Recent
from lastgood.backends.files.rows import Columns
from lastgood.backends.files.snapshot import Snapshot
from lastgood.backends.files.store import FileStore
from lastgood.backends.memory.shelves import StoredPart
from lastgood.checkpointers import ClientCheckpointer, Message
from lastgood.codec import Codec, text
from lastgood.manifest import Spot
from lastgood.pages import SLICE
from lastgood.rows import CheckpointRow, pack_slots, sealed
from lastgood.splitting import split
from lastgood.tree import Node

CODEC = Codec()
NAMES = Names("a thread", "an agent")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def client_in(place: Path) -> BlockingClient:
    return BlockingClient.files(place / "store", durability="relaxed")


def files_in(place: Path) -> list[Path]:
    return sorted(place.rglob("0*.json"))


# what is in a file


def row_of(state: object) -> tuple[CheckpointRow, dict[Spot, StoredPart]]:
    """The row and the pages of a state, as a commit makes them."""
    tree = split(CODEC.encoder(), state)
    assert isinstance(tree, Node)
    plan = manifest.plan(tree)
    slots = tuple(slot._replace(stream=number) for number, slot in enumerate(plan.slots, 7))
    pages = {
        Spot(slots[part.slot].stream, part.number): StoredPart(5, part.digest, part.data)
        for part in plan.parts
    }
    row = CheckpointRow(
        *(1, 5, b"i" * 16, 1, "main", b"p" * 16, b"d" * 16, 0, b"", 4, "step", "custom"),
        *(1_700_000_000_000_000, 2.5, None, CODEC.pack({"c": 1}), b"", None, None, None, b""),
        *(tree.hash, b"D" * 16, tree.size, plan.manifest, pack_slots(slots)),
    )
    return row, pages


def check_exact(state: object) -> None:
    row, pages = row_of(state)
    data = file_of(NAMES, row, sealed(row), pages)
    found = opened(data, "here")
    assert found.columns == sealed(row)
    assert found.pages == pages
    assert found.names == NAMES
    assert json.loads(data)["state"] == json.loads(CODEC.dumps_text(state))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.text(), VALUES), st.integers(0, 60))
def test_any_state_comes_back_exactly(state: dict[str, Any], repeat: int) -> None:
    """Small, and so often repeated that it is stored as pages."""
    check_exact(state)
    check_exact({"many": [state] * repeat, "one": state})


LARGE: dict[str, Any] = {
    "a list": [f"message {n} " * 20 for n in range(200)],
    "a tuple": tuple(range(5000)),
    "a set": set(range(3000)),
    "a deque": deque(range(3000), maxlen=4000),
    "a dict": {f"key {n}": n for n in range(2000)},
    "other keys": {n: str(n) for n in range(2000)},
    "an ordered dict": OrderedDict((f"key {n}", [n]) for n in range(2000)),
    "a text": "ä" * 100_000,
    "bytes": random.Random(0).randbytes(200_000),
    "a bytearray": bytearray(range(256)) * 500,
    "half a surrogate pair": "\ud800" * 50_000,
    "a large number": 1 << 80_000,
    "huge elements": [["x" * SLICE, "y" * 2 * SLICE], "small", {"z": "z" * SLICE}],
    "huge values": {f"key {n}": [f"{n}" * SLICE] for n in range(70)},
    "the same image twice": [b"i" * SLICE, "between", b"i" * SLICE],
    "a wide mapping": {f"key {n} {'k' * 60}": [f"value {n} " * 20] * 30 for n in range(60)},
    "deep": {"a": {"b": {"c": {"d": ["e" * 100] * 100, "f": {"g": list(range(2000))}}}}},
    "dollars": {"$lg": "tuple", "$$": [{"$lg": 1, "v": "w" * 200}] * 100},
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_state_comes_back_exactly(name: str) -> None:
    check_exact({name: LARGE[name], "n": 1})


def test_a_manifest_that_is_stored_as_pages_comes_back_exactly() -> None:
    state = {f"key {n} {'k' * 60}": {f"inner {m}": "v" * 90 for m in range(60)} for n in range(60)}
    row, _ = row_of(state)
    assert manifest.read(row.manifest)[1], "it is one"
    check_exact(state)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(), VALUES))
def test_lines_say_the_same_as_one_line(state: dict[str, Any]) -> None:
    spelled = text.spell(CODEC.pack(state))
    assert json.loads(text.lines(spelled)) == json.loads(text.compact(spelled))
    assert text.to_binary(text.lines(spelled)) == CODEC.pack(state)


def test_a_step_is_a_small_difference(place: Path) -> None:
    client = client_in(place)
    with client.run("s", initial={"messages": [], "plan": {"goal": "g" * 200, "n": 0}}) as run:
        for number in range(40):
            run.state["messages"].append({"role": "user", "content": f"message {number} " * 20})
        run.save()
        run.state["messages"].append({"role": "user", "content": "one more"})
        run.save()
    old, new = (path.read_text().splitlines() for path in files_in(place)[-2:])
    changed = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]
    assert sum("message" in line or "content" in line for line in changed) == 1
    assert len(changed) < 40


def test_times_ids_and_values_are_readable(place: Path) -> None:
    client = client_in(place)
    saved = client.save(
        "planner",
        session_id="order 42",
        execution_state={"pair": (1, 2), "when": None},
        metadata={"by": "me"},
        context={"tools": ["search"]},
        step_name="plan",
    )
    document = json.loads(files_in(place)[0].read_text())
    row = document["checkpoint"]
    assert (document["thread"], document["agent"]) == ("order 42", "planner")
    assert (row["id"], row["step_name"]) == (saved, "plan")
    assert (row["metadata"], row["context"]) == ({"by": "me"}, {"tools": ["search"]})
    assert row["created_at"] == client.restore(saved).created_at.isoformat(timespec="microseconds")
    assert document["state"] == {"pair": {"$lg": "tuple", "v": [1, 2]}, "when": None}


def test_what_would_not_come_back_is_not_written(place: Path) -> None:
    """A number that the codec would spell in another way gets into a state as ready bytes only."""
    client = client_in(place)
    client.save("a", execution_state={"n": 1}, session_id="s")
    with pytest.raises(SerializationError, match="would not come back"):
        client.save("a", execution_state={"n": ormsgpack.Fragment(b"\xcd\x00\x01")}, session_id="s")
    assert [header.seq for header in client.log("s")] == [1]
    assert len(files_in(place)) == 1
    assert client.verify(data=True).clean


# names

THREADS = (
    *("plain", "Plain", "PLAIN", "order-42", "order_42", "order 42", "a.b", ".hidden", "..", "."),
    *("../escape", "../../etc/passwd", "/absolute", "a/b", "a\\b", "con", "CON", "nul.txt", "a."),
    *("ä", "a\u0308", "日本", "x" * 255, "x" * 254 + "y", "-", "~", "a~b", "thread.json", "%2e%2e"),
)


def test_no_thread_leaves_the_directory_or_meets_another(place: Path) -> None:
    client = client_in(place)
    saves = {
        name: client.save("a", execution_state={"n": name}, session_id=name) for name in THREADS
    }
    reader = client_in(place)
    for name, saved in saves.items():
        assert reader.restore(saved).state == {"n": name}
        assert reader.latest(agent_id="a", session_id=name).checkpoint_id == saved
    assert {info.thread_id for info in reader.threads(limit=100)} == set(THREADS)
    made = {path.parent for path in files_in(place)}
    assert len({str(path).casefold() for path in made}) == len(THREADS)
    assert {path.parent for path in made} == {place / "store/threads/default"}
    assert all(len(path.name) <= 100 and path.name.isascii() for path in made)
    assert {path.name for path in place.iterdir()} == {"store"}


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_names_are_two_directories(one: str, other: str) -> None:
    names = [directory_of(name.encode("utf-8", "replace").decode()) for name in (one, other)]
    if one.encode("utf-8", "replace") != other.encode("utf-8", "replace"):
        assert names[0].casefold() != names[1].casefold()
    assert all("/" not in name and not name.startswith(".") for name in names)


def test_only_names_of_ours_are_checkpoints() -> None:
    id = "01a1e2b3-f3a4-74ec-bc3d-9ad4d16075ae"
    found = place_of(f"00000012-{id}.json")
    assert found is not None
    assert (found.seq, found.file) == (12, f"00000012-{id}.json")
    for name in (
        "thread.json",
        f"12-{id}.json",
        f".00000012-{id}.json.tmp",
        f"00000012-{id}.json~",
    ):
        assert place_of(name) is None


# the store


def test_looking_makes_nothing(place: Path) -> None:
    client = client_in(place)
    assert list(client.threads()) == []
    assert client.latest(agent_id="a", session_id="s") is None
    assert client.delete("s") is False
    assert client.verify(data=True).clean
    assert client.stats().threads == 0
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("colour", [Client, BlockingClient])
def test_addresses(colour: Any, place: Path) -> None:
    for made, directory in (
        (colour.files(), "./lastgood"),
        (colour.files(place / "here"), str(place / "here")),
        (colour.open("files:rel/dir"), "rel/dir"),
        (colour.open(f"files:{place}/a%20b"), f"{place}/a b"),
        (colour.open("files:x", durability="relaxed"), "x"),
    ):
        assert made.url == f"files:{directory}"
    assert made.durability == "relaxed"
    assert colour.files("x").durability == "strict"
    assert colour.open("files:///abs/dir").url == "files:///abs/dir"
    assert colour.files("//abs/dir").url == "files:/abs/dir"
    for url in ("files:x?mode=ro", "files:x#y", "files://rel/dir", "files://"):
        with pytest.raises(ValueError, match="files:DIR"):
            colour.open(url)
    with pytest.raises(ValueError, match="no name"):
        colour.files("")


OPENED: dict[str, Any] = {
    "files": lambda: BlockingClient.files("store"),
    "an address": lambda: BlockingClient.open("files:store"),
    "a manager": lambda: CheckpointManager("file", "store").client,
}


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
def test_a_relative_path_means_the_directory_of_the_opening(
    opened: Callable[[], BlockingClient], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, elsewhere = opened(), place / "elsewhere"
    client.save("a", session_id="s", execution_state={"n": 1})
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert client.restore("s@").state == {"n": 1}
    client.save("a", session_id="s", execution_state={"n": 2})
    assert list(elsewhere.iterdir()) == []


def test_a_store_that_another_process_begins_between_two_looks(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file at the top was not there, and then threads are: that is no damage."""
    tenants = FileStore.tenants

    def after_another(store: FileStore) -> list[Path]:
        monkeypatch.setattr(FileStore, "tenants", tenants)
        with BlockingClient.files(place) as other:
            other.save("a", session_id="theirs", execution_state={"n": 1})
        return tenants(store)

    monkeypatch.setattr(FileStore, "tenants", after_another)
    with BlockingClient.files(place) as client:
        client.save("a", session_id="ours", execution_state={"n": 2})
        assert {info.thread_id for info in client.threads()} == {"theirs", "ours"}


def test_a_thread_that_another_process_begins_and_changes_between_two_looks(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its lock can be had, files of it may come and go: that is no damage."""
    config = {"thread_id": "s", "user_id": "ann"}
    ours, theirs = (ClientCheckpointer(Client.files(place / "store")) for _ in range(2))
    fresh, items = FileStore.fresh, FileStore.items

    def begun_before(store: FileStore, directory: Path) -> Snapshot | None:
        monkeypatch.setattr(FileStore, "fresh", fresh)
        theirs.put_messages(config, [Message("user", "one")])
        monkeypatch.setattr(FileStore, "items", changed_before)
        return fresh(store, directory)

    def changed_before(store: FileStore, path: Path) -> tuple[Columns, ...]:
        monkeypatch.setattr(FileStore, "items", items)
        theirs.put_messages(config, [Message("user", "two")])
        assert not path.exists()
        return items(store, path)

    monkeypatch.setattr(FileStore, "fresh", begun_before)
    ours.put_messages(config, [Message("user", "three")])
    assert [message.text for message in ours.get_messages(config)] == ["one", "two", "three"]


def test_a_lost_file_at_the_top_is_told(place: Path) -> None:
    with BlockingClient.files(place) as client:
        client.save("a", session_id="s", execution_state={"n": 1})
    (place / "lastgood.json").unlink()
    with (
        BlockingClient.files(place) as client,
        pytest.raises(CheckpointIntegrityError, match="threads are there"),
    ):
        client.save("a", session_id="another", execution_state={"n": 2})


@pytest.mark.parametrize("told", ["", "{}", '{"newest": 1}', "[", '{"newest": "x", "seal": "x"}'])
def test_a_damaged_clock_is_told_and_replaced(told: str, place: Path) -> None:
    client = client_in(place)
    client.save("a", session_id="s", execution_state={})
    (place / "store/clock.json").write_text(told)
    assert client.restore("s@").state == {}
    report = client.verify()
    assert report.exit_code == 1
    assert "clock.json" in report.problems[0].message
    client.save("a", session_id="s", execution_state={})
    assert client.verify().clean


@pytest.mark.parametrize(
    "call",
    {
        "a new thread": lambda client: client.save("a", execution_state={}, session_id="new"),
        "a save": lambda client: client.save("a", execution_state={}, session_id="s"),
        "a tag": lambda client: client.tag("s@", "x"),
        "a read": lambda client: client.restore("s@"),
        "a list": lambda client: client.threads(),
        "a look for damage": lambda client: client.verify(),
    }.items(),
    ids=lambda named: named[0],
)
def test_another_format_is_refused(
    call: tuple[str, Callable[[BlockingClient], object]], place: Path
) -> None:
    client_in(place).save("a", execution_state={}, session_id="s")
    path = place / "store/lastgood.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(IncompatibleCheckpointError, match=r"has format 2.*Upgrade"):
        call[1](client_in(place))


def test_a_lock_that_is_never_given_back_is_told(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it holds up its own thread only; readers do not ask for it."""
    monkeypatch.setattr(disk, "PATIENCE", 0.2)
    client = client_in(place)
    client.save("a", execution_state={"n": 1}, session_id="s")
    with (place / "store/threads/default/s/.lock").open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TransientStorageError, match="locked by somebody else"):
            client.save("a", execution_state={"n": 2}, session_id="s")
        client.save("a", execution_state={"n": 3}, session_id="other")
        assert client.latest(agent_id="a", session_id="s").state == {"n": 1}
    client.save("a", execution_state={"n": 4}, session_id="s")
    assert [header.seq for header in client.log("s")] == [2, 1]


def test_a_lock_that_never_stays_the_same_file_is_given_up(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "PATIENCE", 0.1)
    with client_in(place) as client:
        client.save("a", execution_state={"n": 1}, session_id="s")
        monkeypatch.setattr(disk, "_is_at", lambda *_: False)
        with pytest.raises(TransientStorageError, match="never stayed the same file"):
            client.save("a", execution_state={"n": 2}, session_id="s")


def test_a_lock_whose_file_was_deleted_is_waited_for_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waited for the deleted one must not work beside whoever has the new one."""
    monkeypatch.setattr(disk, "PATIENCE", 0.5)
    client, path = client_in(place), place / "store/threads/default/s/.lock"
    client.save("a", execution_state={"n": 1}, session_id="s")
    with ThreadPoolExecutor() as pool, path.open("rb+") as old:
        fcntl.flock(old, fcntl.LOCK_EX)
        waits = pool.submit(client.save, "a", execution_state={"n": 2}, session_id="s")
        time.sleep(0.2)
        path.unlink()
        with path.open("wb") as new:
            fcntl.flock(new, fcntl.LOCK_EX)
            fcntl.flock(old, fcntl.LOCK_UN)
            with pytest.raises(TransientStorageError, match="locked by somebody else"):
                waits.result()
    client.save("a", execution_state={"n": 3}, session_id="s")
    assert [header.seq for header in client.log("s")] == [2, 1]


def test_checkpoints_are_the_same_as_in_other_stores(place: Path) -> None:
    """Checksums and digests do not depend on the store: a thread goes there and back."""
    source = BlockingClient.sqlite(place / "source.db")
    for number in range(4):
        state = {"messages": [f"message {n} " * 20 for n in range(50 + number)], "n": number}
        source.save("a", execution_state=state, session_id="s")
    files, back = client_in(place), BlockingClient.memory()
    source.copy_to(files)
    files.copy_to(back)
    for header in source.log("s"):
        found = [each.restore(header.checkpoint_id) for each in (source, files, back)]
        assert len({(c.checksum, c.digest, c.seq) for c in found}) == 1
        assert found[0].state == found[1].state == found[2].state


def test_a_file_where_the_directory_should_be_is_told(place: Path) -> None:
    (place / "store").write_text("mine")
    with pytest.raises(BackendConnectionError, match="store: a file is where a directory should"):
        client_in(place).save("a", session_id="s", execution_state={})


def test_a_row_that_was_changed_is_told_by_its_id(place: Path) -> None:
    client = client_in(place)
    ref = client.save("a", session_id="s", execution_state={})
    path = files_in(place)[0]
    path.write_text(path.read_text().replace('"step": 0', '"step": 9'))
    with pytest.raises(CheckpointIntegrityError, match=f"changed outside of Lastgood: .*{ref}"):
        client_in(place).restore(ref)


def test_a_file_that_was_put_back_is_there_again(place: Path) -> None:
    """For clients that have seen that it was missing, too: that is what they were told to do."""
    for number in range(3):
        client_in(place).save("a", session_id="s", execution_state={"n": number})
    client, path = client_in(place), files_in(place)[1]
    path.rename(place / "aside")
    with pytest.raises(CheckpointIntegrityError, match="2 checkpoint rows of 3"):
        client.restore("s@2")
    assert not client.verify().clean
    (place / "aside").rename(path)
    assert client.restore("s@2").state == {"n": 1}
    assert client.verify(data=True).clean


def _renamed(directory: Path) -> None:
    directory.rename(directory.with_name("lost-and-found"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a merge conflict": lambda directory: (directory / "thread.json").write_text("<<<<<<< HEAD\n"),
    "no file of the thread": lambda directory: (directory / "thread.json").unlink(),
    "another name": _renamed,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("since", [None, datetime(2020, 1, 1, tzinfo=UTC)])
def test_a_copy_names_a_thread_that_cannot_be_read(
    damage: str, since: datetime | None, place: Path
) -> None:
    client = client_in(place)
    for thread in ("one", "other"):
        client.save("a", session_id=thread, execution_state={"n": 1})
    DAMAGES[damage](place / "store/threads/default/one")
    report = client.copy_to(BlockingClient.memory(), since=since)
    assert (report.threads, report.complete) == (1, False)
    name = "lost-and-found" if damage == "another name" else "one"
    assert [(each.thread, each.kind) for each in report.problems] == [(name, "damaged")]
    assert client.stats().threads == 1
    assert len(client.sweep().skipped) == 1
    with BlockingClient.files(place / "store", tenant="else") as others:
        assert others.copy_to(BlockingClient.memory()).complete


@pytest.mark.parametrize("other", ["of the same thread", "of another thread"])
def test_a_file_that_another_was_copied_over_is_lost_alone(other: str, place: Path) -> None:
    """It is told by its own name, and hides neither the other one nor the rest of the thread."""
    client, states = client_in(place), [{"n": number} for number in range(9)]
    for state in states[:5]:
        client.save("a", session_id="hurt", execution_state=state)
    for state in states:
        client.save("a", session_id="whole", execution_state=state)
    hurt, whole = (
        sorted((place / f"store/threads/default/{n}").glob("0*")) for n in ("hurt", "whole")
    )
    hurt[3].write_bytes((hurt[1] if other == "of the same thread" else whole[8]).read_bytes())

    client = client_in(place)
    assert [each.checkpoints for each in client.verify(data=True).problems] == [("hurt@4",)]
    target = BlockingClient.memory()
    report = client.copy_to(target, salvage=True)
    assert [(each.thread, each.lost) for each in report.salvaged] == [("hurt", ("hurt@4",))]
    assert (report.threads, report.problems) == (2, ())
    found = target.timeline("a", "hurt")
    assert {each.name: each.state for each in found} == {
        f"hurt@{number}": {"n": number - 1} for number in (1, 2, 3, 5)
    }
    assert len(target.log("whole")) == 9


@pytest.mark.parametrize(
    "changed", ['"seq": null', '"seq": 5', '"seq": "4"', '"seq": [4]', '"seg": 4']
)
def test_a_file_whose_number_was_changed_is_lost_alone(changed: str, place: Path) -> None:
    """One byte is enough: `verify` ended in a TypeError."""
    client = client_in(place)
    for number in range(5):
        client.save("a", session_id="s", execution_state={"n": number})
    path = files_in(place)[3]
    path.write_text(path.read_text().replace('"seq": 4', changed))
    client = client_in(place)
    assert [each.checkpoints for each in client.verify(data=True).problems] == [("s@4",)]
    target = BlockingClient.memory()
    assert client.copy_to(target, salvage=True).problems == ()
    assert [each.seq for each in target.log("s")] == [5, 3, 2, 1]


def test_two_files_for_one_checkpoint_are_told(place: Path) -> None:
    """A merge of two copies of a store: neither of them is taken for the other."""
    client_in(place).save("a", session_id="s", execution_state={"n": 1})
    shutil.copytree(place / "store", place / "copy")
    other = BlockingClient.files(place / "copy", durability="relaxed")
    theirs = other.save("a", session_id="s", execution_state={"by": "them"})
    ours = client_in(place).save("a", session_id="s", execution_state={"by": "us"})
    client_in(place).save("a", session_id="s", execution_state={"n": 3})
    [path] = (place / "copy").rglob(f"*-{theirs}.json")
    merged = place / "store/threads/default/s" / path.name
    merged.write_bytes(path.read_bytes())

    client = client_in(place)
    for ref in (ours, theirs, "s@2"):
        with pytest.raises(CheckpointIntegrityError, match=rf"two files for @2: .*{ours}"):
            client.restore(ref)
    [problem] = client.verify(data=True).problems
    assert problem.checkpoints == ("s@2",)
    assert client.restore("s@").state == {"n": 3}
    client.save("a", session_id="s", execution_state={"n": 4})
    merged.unlink()
    assert client.restore("s@2").state == {"by": "us"}
    assert client.verify(data=True).clean

    merged.write_bytes(path.read_bytes())
    assert client.delete("s")
    assert files_in(place / "store") == []


@pytest.mark.parametrize("tenant", ["default", "else"])
def test_two_threads_of_one_number_are_told(tenant: str, place: Path) -> None:
    """Two copies of a store that each began a thread: a merge of them finds no conflict."""
    client_in(place).save("a", session_id="base", execution_state={})
    shutil.copytree(place / "store", place / "copy")
    other = BlockingClient.files(place / "copy", tenant=tenant, durability="relaxed")
    other.save("a", session_id="theirs", execution_state={"by": "them"})
    client_in(place).save("a", session_id="ours", execution_state={"by": "us"})
    theirs = f"threads/{tenant}/theirs"
    shutil.copytree(place / "copy" / theirs, place / "store" / theirs)

    client = client_in(place)
    assert not client.verify().clean
    assert client.restore("ours@").state == {"by": "us"}
    both = BlockingClient.on(client._direct._core.backend, tenant=tenant)
    with pytest.raises(CheckpointIntegrityError, match="came from another store") as caught:
        both.restore("theirs@")
    assert ("ours" in str(caught.value)) == (tenant == "default")
    if tenant == "default":
        statuses = {info.thread_id: info.status for info in client.threads()}
        assert statuses == {"base": "idle", "ours": "idle", "theirs": "damaged"}
        report = client.copy_to(BlockingClient.memory())
        assert [each.thread for each in report.problems] == ["theirs"]

    shutil.rmtree(place / "store" / theirs)
    assert other.copy_to(both).complete
    assert both.restore("theirs@").state == {"by": "them"}
    assert client.verify(data=True).clean


def test_what_a_killed_save_left_is_not_where_its_id_is(place: Path) -> None:
    client_in(place).save("a", session_id="first", execution_state={})
    shutil.copytree(place / "store", place / "copy")
    other = BlockingClient.files(place / "copy", durability="relaxed")
    ref = other.save("a", session_id="first", execution_state={"n": 1})
    [path] = (place / "copy").rglob(f"*-{ref}.json")
    shutil.copy(path, place / "store/threads/default/first")  # the file of the thread came last
    client_in(place).save("a", session_id="second", execution_state={"n": 2}, checkpoint_id=ref)

    assert client_in(place).restore(ref).state == {"n": 2}
    with pytest.raises(CheckpointConflictError, match="exists already"):
        client_in(place).save("a", session_id="third", execution_state={}, checkpoint_id=ref)
    assert client_in(place).verify(data=True).clean


def test_an_old_copy_of_the_file_of_a_thread_is_told(place: Path) -> None:
    """What was saved since then would be taken for what a killed save left, and be removed."""
    client, path = client_in(place), place / "store/threads/default/s/thread.json"
    client.save("a", session_id="s", execution_state={"n": 1})
    old = path.read_bytes()
    for number in (2, 3):
        client.save("a", session_id="s", execution_state={"n": number})
    newest = path.read_bytes()
    path.write_bytes(old)
    for use in (client_in(place).restore, client_in(place).expire):
        with pytest.raises(CheckpointIntegrityError, match=r"ends at @1 .* beside it at @3"):
            use("s@")
    with pytest.raises(CheckpointIntegrityError, match="newest copy"):
        client_in(place).save("a", session_id="s", execution_state={})
    assert not client_in(place).verify().clean
    path.write_bytes(newest)
    assert client_in(place).restore("s@").state == {"n": 3}
    assert client_in(place).verify(data=True).clean
    path.write_bytes(old)
    for later in files_in(place)[1:]:
        later.rename(place / later.name)
    assert client_in(place).restore("s@").state == {"n": 1}
    client_in(place).save("a", session_id="s", execution_state={"n": 2})


def test_so_it_is_where_only_items_were_changed_since(place: Path) -> None:
    path = place / "store/threads/default/s/thread.json"
    config = {"thread_id": "s", "user_id": "ann"}
    checkpointer = ClientCheckpointer(Client.files(place / "store", durability="relaxed"))
    checkpointer.put_messages(config, [Message("user", "hello")])
    old = path.read_bytes()
    for said in ("one", "two"):
        checkpointer.put_messages(config, [Message("user", said)])
    newest = path.read_bytes()
    path.write_bytes(old)
    with pytest.raises(CheckpointIntegrityError, match="newest copy"):
        client_in(place).save("a", session_id="s", execution_state={})
    path.write_bytes(newest)
    assert len(checkpointer.get_messages(config)) == 3


def test_what_is_remembered_is_counted_right_whatever_threads_do_at_once() -> None:
    """Else reads fail, and saves that are over by then, or nothing is remembered any more."""
    kept: Recent[int] = Recent(1000)
    paths = [Path(f"/store/threads/thread/{number}.json") for number in range(300)]

    def use(seed: int) -> None:
        for number in range(20_000):
            path = paths[(number * 7 + seed * 13) % 300]
            if kept.get(path, (1, 1, 1)) is None:
                kept.put(path, (1, 1, 1), 10, number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    remembered = [path for path in paths if kept.get(path, (1, 1, 1)) is not None]
    assert 0 < kept._weight == 10 * len(remembered) <= 1000
