"""Power cuts on plain files: what was acknowledged is there, and everything can be read.

Everything that is done to the disk is recorded. What is left after a cut at some moment: of a file,
what was synced; of a directory, the names as of its last sync, and any choice of what was done to
them since. No order between names is relied upon.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lastgood import BlockingClient, LastgoodError
from lastgood.testing.faults.store import fingerprint, view

STATE = {"items": [{"n": n, "text": "word " * 60} for n in range(20)]}


class Entry(NamedTuple):
    """A name in a directory from now on; None: it is gone."""

    directory: str
    name: str
    what: int | None


class Synced(NamedTuple):
    """A directory whose names last, or a file whose content does."""

    directory: str = ""
    file: int = 0
    content: bytes = b""


Step = Entry | Synced | str
"""A text is an acknowledged save: its id and the fingerprint of its state."""


class Recorder:
    """Everything that happens below a directory, step by step."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.steps: list[Step] = []
        for name in ("replace", "unlink", "mkdir", "fsync"):
            whole = getattr(os, name)
            monkeypatch.setattr(os, name, getattr(self, f"_{name}")(whole))

    def _entry(self, path: Any, what: int | None) -> None:
        parent, name = os.path.split(os.fspath(path))
        self.steps.append(Entry(os.path.relpath(parent, self.root), name, what))

    def _replace(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        def replace(source: Any, target: Any) -> None:
            number = Path(source).stat().st_ino
            whole(source, target)
            self._entry(target, number)

        return replace

    def _unlink(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        def unlink(path: Any, **options: Any) -> None:
            whole(path, **options)
            self._entry(path, None)

        return unlink

    def _mkdir(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        def mkdir(path: Any, *rest: Any) -> None:
            whole(path, *rest)
            self._entry(path, 0)

        return mkdir

    def _fsync(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        def fsync(handle: int) -> None:
            whole(handle)
            path = Path(f"/proc/self/fd/{handle}").resolve()
            if path.is_dir():
                self.steps.append(Synced(directory=os.path.relpath(path, self.root)))
            else:
                content = path.read_bytes()
                self.steps.append(Synced(file=path.stat().st_ino, content=content))

        return fsync


def work(client: BlockingClient, steps: list[Step]) -> None:
    """A little of everything."""

    def acked(id: str) -> None:
        steps.append(f"{id} {fingerprint(client.restore(id).state)}")

    for number in range(3):
        acked(client.save("a", session_id="s", execution_state={**STATE, "n": number}))
    with client.run("r", initial=STATE) as run:
        acked(run.base)
        acked(run.append("items", {"n": 99}))
    first = client.save("a", session_id="gone", execution_state={"n": 1})
    client.expire(first)
    steps.append(f"-{client.resolve('s@2').checkpoint_id}")  # from now on it may be gone
    client.expire("s@2")
    client.tag("s@3", "after the removal")
    client.delete("gone")
    acked(client.save("a", session_id="gone", execution_state={"n": 2}))
    acked(client.fork("s@1", edits={"n": "forked"}))


class Left:
    """What is left of a disk."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, int]] = {"..": {}, ".": {}}
        self.loose: dict[str, list[Entry]] = {}
        self.contents: dict[int, bytes] = {}
        self.acked: list[str] = []

    def take(self, step: Step) -> None:
        if isinstance(step, str):
            self.acked.append(step)
        elif isinstance(step, Entry):
            self.loose.setdefault(step.directory, []).append(step)
        elif step.directory:
            self.names[step.directory] = self._with(
                step.directory, self.loose.pop(step.directory, [])
            )
        else:
            self.contents[step.file] = step.content

    def _with(self, directory: str, entries: list[Entry]) -> dict[str, int]:
        names = dict(self.names.get(directory, {}))
        for _, name, what in entries:
            if what is None:
                names.pop(name, None)
            else:
                names[name] = what
        return names

    def build(self, place: Path, choose: Callable[[list[Entry]], list[Entry]]) -> None:
        """Make a directory as it may be found."""
        self._build(place, ".", {key: choose(list(value)) for key, value in self.loose.items()})

    def _build(self, place: Path, directory: str, kept: dict[str, list[Entry]]) -> None:
        place.mkdir()
        for name, what in self._with(directory, kept.get(directory, [])).items():
            if what == 0:
                below = name if directory == "." else f"{directory}/{name}"
                self._build(place / name, below, kept)
            else:
                (place / name).write_bytes(self.contents.get(what, b""))


def choices(rng: random.Random) -> Iterator[Callable[[list[Entry]], list[Entry]]]:
    yield lambda _: []
    yield lambda entries: entries
    yield lambda entries: entries[-1:]
    yield lambda entries: [entry for entry in entries if rng.random() < 0.5]


def wrong(place: Path, acked: list[str]) -> str:
    client = BlockingClient.files(place, durability="relaxed")
    removed = {line[1:] for line in acked if line.startswith("-")}
    try:
        view(client)
        for id, print_ in (line.split() for line in acked if not line.startswith("-")):
            if id not in removed and fingerprint(client.restore(id).state) != print_:
                return f"{id} is not what was saved"
        if (report := client.verify(data=True)).exit_code == 2:
            return str(report)
        for thread in ("s", "r", "gone", "new"):
            client.save("a", session_id=thread, execution_state={"goes": "on"})
    except LastgoodError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def cuts(steps: list[Step], place: Path, rng: random.Random, times: int) -> Iterator[str]:
    """What is wrong after a cut behind every step."""
    left = Left()
    for number, step in enumerate(steps):
        left.take(step)
        for choice in [*choices(rng)] * times:
            found = place / "cut"
            left.build(found, choice)
            if problem := wrong(found, left.acked):
                yield f"step {number} {step!r:.120}: {problem}"
            shutil.rmtree(found)


def recorded(place: Path, durability: str) -> list[Step]:
    root = place / "store"
    with pytest.MonkeyPatch.context() as monkeypatch:
        recorder = Recorder(root, monkeypatch)
        work(BlockingClient.files(root, durability=durability), recorder.steps)
    return recorder.steps


def test_an_acknowledged_save_survives_a_power_cut(
    place: Path, rng: random.Random, times: Callable[[int], int]
) -> None:
    steps = recorded(place, "strict")
    assert sum(isinstance(step, str) for step in steps) > 5
    assert list(cuts(steps, place, rng, times(2))) == []


def test_cuts_are_real(place: Path, rng: random.Random) -> None:
    """Where nothing is synced, something is lost: the test above could fail."""
    steps = recorded(place, "relaxed")
    assert any(cuts(steps, place, rng, 1))
