"""What may be left of the files of a disk after a power cut.

Only what was synced is sure. Of the rest any part may be lost, in any order, and a write may be
torn at any sector of 512 bytes. A deletion lasts from the next sync on, whichever file that was of:
SQLite syncs the directory with the first sync of a new log, and a model in which the deletion of
the journal of "switch to WAL" may be lost for ever condemns good code. Shared memory (-shm) never
survives. Lost directory entries are not modelled.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from lastgood.testing.faults.disk import Op

SECTOR = 512
Files = dict[str, bytearray]


class Image(NamedTuple):
    """The files after a cut, and the last mark that the journal held by then."""

    mark: int
    position: int
    files: Files


def images(journal: Iterable[Op], rng: random.Random, per_position: int = 4) -> Iterator[Image]:
    """Cut the power after every operation of a journal, each time in several ways."""
    durable: Files = {}
    pending: list[Op] = []
    mark = 0
    for position, op in enumerate(journal):
        if op.kind == "mark":
            mark = op.offset
        elif op.kind == "sync":
            _settle(durable, pending, op.file)
        else:
            pending.append(op)
        for way in range(per_position):
            yield Image(mark, position, _cut(durable, pending, way, rng))


def write_image(directory: Path, image: Image) -> None:
    """Put the files of an image in an empty directory."""
    for name, content in image.files.items():
        (directory / name).write_bytes(content)


def _settle(durable: Files, pending: list[Op], file: str) -> None:
    """A sync makes the writes of one file sure, and every deletion."""
    held = [op for op in pending if op.file == file or op.kind == "delete"]
    pending[:] = [op for op in pending if not (op.file == file or op.kind == "delete")]
    for op in held:
        _apply(durable, op)


def _cut(durable: Files, pending: list[Op], way: int, rng: random.Random) -> Files:
    """Lose everything, or all after some point, or a random choice, or a choice with tears."""
    if way == 0:
        kept = []
    elif way == 1:
        kept = pending[: rng.randint(0, len(pending))]
    else:
        kept = [op for op in pending if rng.random() < 0.5]
    files = {name: bytearray(content) for name, content in durable.items()}
    for op in kept:
        for piece in _torn(op, rng) if way > 2 else [op]:
            _apply(files, piece)
    return files


def _torn(op: Op, rng: random.Random) -> list[Op]:
    """Any of the sectors of a write: the disk may have got to each of them or not."""
    if op.kind != "write" or rng.random() < 0.5:
        return [op]
    first = op.offset // SECTOR * SECTOR
    edges = [max(op.offset, at) for at in range(first, op.offset + len(op.data), SECTOR)]
    ends = [*edges[1:], op.offset + len(op.data)]
    return [
        op._replace(offset=start, data=op.data[start - op.offset : end - op.offset])
        for start, end in zip(edges, ends, strict=True)
        if rng.random() < 0.5
    ]


def _apply(files: Files, op: Op) -> None:
    if op.kind == "delete":
        files.pop(op.file, None)
        return
    content = files.setdefault(op.file, bytearray())
    if op.kind == "truncate":
        del content[op.offset :]
    else:
        content.extend(bytes(max(0, op.offset - len(content))))
        content[op.offset : op.offset + len(op.data)] = op.data
