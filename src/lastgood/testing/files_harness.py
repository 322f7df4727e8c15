"""How cases get at a store of plain files: edits of JSON, as people would make them."""

from __future__ import annotations

import base64
import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from lastgood.backend import Backend
from lastgood.backends.files.backend import FilesBackend
from lastgood.backends.files.checkpoint_file import DIGEST, file_of, opened
from lastgood.backends.files.names import THREAD, directory_of
from lastgood.backends.files.rows import spelled_column
from lastgood.manifest import Spot
from lastgood.rows import CheckpointRow
from lastgood.testing.harness import BackendHarness, flipped

_WORD = re.compile(rb"[a-z]{4}")


class FilesHarness(BackendHarness):
    """A directory. A page is damaged in every file that has a copy of it.

    What its files take is not asked for: each repeats what its checkpoint shares with others, and
    the cases are about what is told apart.
    """

    scheme = "files"
    quick = False
    turns_clock = True

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.path = directory / "contract"
        self.address = f"files:{self.path}"

    def backend(self) -> Backend:
        # Whether files are synced is seen after a power cut only; other processes do sync.
        return FilesBackend(self.path, durability="relaxed", clock=self.time)

    def _place(self, thread: str) -> Path:
        found = self.path.glob(f"threads/*/{directory_of(thread)}/{THREAD}")
        return max(found, key=lambda path: json.loads(path.read_bytes())["thread"]["thread"]).parent

    def _checkpoints(self, thread: str) -> list[Path]:
        return sorted(self._place(thread).glob("0*.json"))

    def _change(self, path: Path, change: Callable[[Any], None]) -> None:
        document = json.loads(path.read_bytes())
        change(document)
        path.write_text(json.dumps(document, ensure_ascii=False, indent=1))

    def _file(self, table: str, thread: str) -> Path:
        """The file that holds the newest row of a table."""
        place = self._place(thread)
        found = {"checkpoint": "0*.json", "item": "items-*.json"}.get(table, THREAD)
        return max(place.glob(found))

    def edit_row(self, table: str, thread: str, column: str, value: object) -> None:
        def change(document: Any) -> None:
            if column == "manifest":
                document["form"]["tree"] = base64.b64encode(cast(bytes, value)).decode()
            else:
                rows = _rows_in(document, table)
                row = rows if isinstance(rows, dict) else rows[-1]
                name, shown = spelled_column(column, value)
                for old in (column, f"{column}_hex"):
                    row.pop(old, None)
                row[name] = shown

        self._change(self._file(table, thread), change)

    def lose_row(self, table: str, thread: str) -> None:
        path = self._file(table, thread)
        if table in ("thread", "checkpoint"):
            path.unlink()
        else:
            self._change(path, lambda document: _rows_in(document, table).pop())

    def _spot(self, thread: str) -> Spot:
        held = (opened(path.read_bytes(), "").pages for path in self._checkpoints(thread))
        return min(spot for pages in held for spot in pages)

    def flip_part(self, thread: str) -> None:
        spot = self._spot(thread)
        for path in self._checkpoints(thread):
            found = opened(path.read_bytes(), "")
            if spot in found.pages:
                part = found.pages[spot]
                pages = {**found.pages, spot: part._replace(data=_misspelled(part.data))}
                row = CheckpointRow._make(found.columns[:-1])
                path.write_bytes(file_of(found.names, row, found.columns, pages))

    def _change_line(self, thread: str, change: Callable[[list[str]], list[str]]) -> None:
        """Change the lines about pages, wherever the first page is told of."""
        stream, number = map(str, self._spot(thread))

        def changed(document: Any) -> None:
            lines = [line.split() for line in document["pages"]]
            new = [change(line) if line[:2] == [stream, number] else line for line in lines]
            document["pages"] = [" ".join(line) for line in new if line]

        for path in self._checkpoints(thread):
            self._change(path, changed)

    def flip_digest(self, thread: str) -> None:
        def change(line: list[str]) -> list[str]:
            digests = base64.b64decode(line[4])
            changed = flipped(digests[:DIGEST]) + digests[DIGEST:]
            return [*line[:4], base64.b64encode(changed).decode()]

        self._change_line(thread, change)

    def lose_part(self, thread: str) -> None:
        self._change_line(thread, lambda _: [])

    @contextmanager
    def full_disk(self, backend: Backend) -> Iterator[None]:
        def refuse(point: str) -> None:
            if point == "before-commit":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        assert isinstance(backend, FilesBackend)
        before, backend.failpoint = backend.failpoint, refuse
        yield
        backend.failpoint = before


def _rows_in(document: Any, table: str) -> Any:
    plural = "branches" if table == "branch" else f"{table}s"
    return document[table] if table in document else document[plural]


def _misspelled(data: bytes) -> bytes:
    """The bytes with a letter changed in the middle of a word: JSON could not show others."""
    word = _WORD.search(data, len(data) // 2)
    assert word is not None, "there is text in it"
    place = word.start() + 1
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
