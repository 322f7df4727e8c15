"""Power cuts: after any of them, the store is as it was after the last acknowledged operation,
or has in addition the whole of the one that was under way.

One recording of a busy store gives thousands of images of what a disk may hold after a cut. The
control shows that the test can fail: with `durability="relaxed"` it must find lost saves.
"""

import hashlib
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from lastgood import BlockingClient, LastgoodError
from lastgood.backends.sqlite import log
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.testing.faults.disk import Connection, Disk, Op
from lastgood.testing.faults.power import Image, images, write_image
from lastgood.testing.faults.store import View, view

IMAGES = 3_000
PARTS = 3
"""So many tests make them: all in one would take most of its time limit on a busy machine."""
ROOM = 40_000
"""Bytes that the log is ahead: a few frames, so that it is used up again and again."""
PATIENT = {"stale_after_seconds": 1e12}


class Recording(NamedTuple):
    journal: list[Op]
    views: list[View]
    """What the store held after each operation; the first is the empty store."""


def eager(disk: Disk) -> Callable[[str], Connection]:
    """Connections that often move the log into the database: most accidents wait there."""

    def connect(path: str) -> Connection:
        connection = disk.connect(path)
        connection.execute("PRAGMA wal_autocheckpoint = 12")
        return connection

    return connect


@contextmanager
def room_recorded(disk: Disk) -> Iterator[None]:
    """Room is made in the log whenever it grew, and the disk may have that or not, too."""
    extended = log.extended

    def recorded(path: str, ahead: int) -> int:
        size = Path(path).stat().st_size
        added = extended(path, ahead)
        if added:
            disk.journal.append(Op("write", Path(path).name, size, bytes(added)))
        return added

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "extended", recorded)
        patch.setattr(log, "EVERY", 1)
        patch.setattr(log, "MOST", ROOM)
        yield


def operations(client: BlockingClient, rng: random.Random) -> Iterator[Any]:
    """One of everything that writes, one commit per step."""

    def text(n: int) -> dict[str, Any]:
        return {"n": n, "text": rng.randbytes(150).hex()}

    state = {"messages": [text(n) for n in range(20)], "cursor": 0}
    with client.run("chat", initial=state) as run:
        yield "entered"
        for number in range(5):
            run.state["cursor"] = number
            run.state["messages"].append(text(number))
            yield run.save(step_name=f"step {number}")
            yield run.append("messages", text(-number))
    yield "left"
    ids = []
    for number in range(4):
        ids.append(client.save("solo", session_id="other", execution_state=text(number)))
        yield ids[-1]
    yield client.handoff(ids[1], "helper")
    yield client.save("solo", session_id="other", execution_state=text(9), parent_id=ids[0])
    yield client.expire(ids[2])
    yield client.save("solo", session_id="brief", execution_state={"big": text(1), **state})
    yield client.delete("brief")
    yield client.save("solo", session_id="brief", execution_state=text(2))
    yield client.save("solo", session_id="other", execution_state=text(3))


def record(path: Path, rng: random.Random, durability: Any) -> Recording:
    disk = Disk()
    backend = SqliteBackend(path, connect=eager(disk), durability=durability)
    client = BlockingClient.on(backend, **PATIENT)
    views: list[View] = [{}]
    with room_recorded(disk):
        for number, _ in enumerate(operations(client, rng), 1):
            disk.mark(number)
            views.append(view(client))
    journal = list(disk.journal)
    client.close()
    disk.unregister()
    return Recording(journal, views)


def after_the_cut(place: Path, image: Image, recording: Recording) -> str:
    """Start again on what is left: empty if all is well, else what is wrong."""
    directory = place / "image"
    directory.mkdir()
    write_image(directory, image)
    client = BlockingClient.on(SqliteBackend(directory / "store.db"), **PATIENT)
    try:
        found = view(client)
        if found not in recording.views[image.mark : image.mark + 2]:
            place_found = [n for n, known in enumerate(recording.views) if known == found]
            return f"acknowledged {image.mark}, found {place_found or 'something else'}"
        client.save("after", session_id="after", execution_state={"works": True})
    except (LastgoodError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    else:
        return ""
    finally:
        client.close()
        shutil.rmtree(directory)


def distinct(recording: Recording, rng: random.Random, count: int) -> Iterator[Image]:
    """Images that differ, spread evenly over the recording."""
    seen: set[bytes] = set()
    while len(seen) < count:
        for image in images(recording.journal, rng):
            key = hashlib.sha256(repr((image.mark, sorted(image.files.items()))).encode()).digest()
            if key in seen:
                continue
            seen.add(key)
            yield image
            if len(seen) == count:
                return


def failures(place: Path, rng: random.Random, count: int, durability: str) -> list[str]:
    found, recordings = [], max(1, count // 1000)
    for number in range(recordings):
        (place / str(number)).mkdir()
        recording = record(place / str(number) / "store.db", rng, durability)
        for image in distinct(recording, rng, count // recordings):
            wrong = after_the_cut(place, image, recording)
            if wrong:
                found.append(f"recording {number}, cut after operation {image.position}: {wrong}")
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_an_acknowledged_operation_survives_a_power_cut(
    place: Path, rng: random.Random, times: Callable[[int], int], part: int
) -> None:
    count = times(IMAGES) // PARTS
    wrong = failures(place, rng, count, "strict")
    assert not wrong, f"{len(wrong)} of {count} images, part {part}:\n" + "\n".join(wrong[:20])


def test_the_same_cuts_find_lost_saves_when_the_store_does_not_sync(
    place: Path, rng: random.Random
) -> None:
    wrong = failures(place, rng, 300, "relaxed")
    assert any("acknowledged" in line for line in wrong), "the control lost nothing"
    assert not [line for line in wrong if "acknowledged" not in line], "relaxed loses, whole"


def test_the_recorder_sees_what_the_store_does(place: Path, rng: random.Random) -> None:
    journal = record(place / "store.db", rng, "strict").journal
    kinds = {(op.kind, op.file) for op in journal}
    assert {("sync", "store.db"), ("sync", "store.db-wal"), ("write", "store.db")} <= kinds
    assert any(op.kind == "mark" and op.offset > 20 for op in journal)
    assert [op for op in journal if op.kind == "write" and len(op.data) > 8192], "no room was made"


@pytest.mark.parametrize("missing", [1, 5, 20])
def test_a_lost_sync_would_be_noticed(place: Path, rng: random.Random, missing: int) -> None:
    """The model is strict: take one sync of the log away and some image shows the loss."""
    recording = record(place / "store.db", rng, "strict")
    syncs = [n for n, op in enumerate(recording.journal) if op.kind == "sync" and "wal" in op.file]
    journal = [op for n, op in enumerate(recording.journal) if n not in syncs[missing:]]
    liar = Recording(journal, recording.views)
    cuts = [image for image in images(liar.journal, rng) if image.position % 7 == 0]
    assert any(after_the_cut(place, image, liar) for image in cuts)


def test_the_database_library_of_the_recorder_is_recent() -> None:
    assert apsw.sqlite_lib_version() >= "3.45"
