"""What `verify`, `stats`, `sweep` and `copy_to` answer: plain values that read well when printed.

Nothing here reads a store; stdlib only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CLEAN: Final = 0
REPAIRABLE: Final = 1
DATA_LOST: Final = 2

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a store.

    `kind` is one of a few stable words:

        seal    a row was changed by something else than Lastgood
        row     a row is missing, there twice, or cannot be read
        count   a thread's counter disagrees with what is there
        head    a branch names a checkpoint that is not there, or one that it had left behind
        link    what a checkpoint follows is not there, or is another one
        digest  a checkpoint's fields do not give its digest
        root    a checkpoint's state is not the one that was saved
        part    a stored page is missing or damaged
        stream  a row of pages is not known as the thread's
        tag     a tag names a checkpoint that was lost
        index   a lookup table disagrees with what it leads to
        orphan  rows of a thread that is not there
        file    the store says that it is damaged itself
    """

    kind: str
    """One of the words above."""
    where: str
    """Such as `run-001@42`, `run-001/agent branch main` or `run-001 stream 7 part 12`."""
    message: str
    """What is wrong, as a sentence."""
    checkpoints: tuple[str, ...] = ()
    """Short names of those that cannot be restored because of it. A thread that lost its name is
    written as `#` and its key; what harms a whole store names none."""
    repairable: bool = False
    """Whether nothing of a state is lost: what is wrong can be computed anew or left out."""

    def __str__(self) -> str:
        outcome = "repairable" if self.repairable else "data lost"
        touched = f" Touches {_some(self.checkpoints)}." if self.checkpoints else ""
        return f"{self.where}: {self.message} [{self.kind}, {outcome}]{touched}"


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` looked at, and what is wrong."""

    threads: int = 0
    """How many it looked at."""
    checkpoints: int = 0
    """How many it looked at."""
    parts: int = 0
    """How many stored pages it looked at."""
    bytes: int = 0
    """Of the parts."""
    data: bool = False
    """Whether every byte was read; else only that everything is in its place."""
    problems: tuple[Problem, ...] = ()
    """What is wrong, thread by thread."""

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def exit_code(self) -> int:
        """0 clean, 1 repairable, 2 data lost."""
        if self.clean:
            return CLEAN
        return REPAIRABLE if all(p.repairable for p in self.problems) else DATA_LOST

    def __str__(self) -> str:
        depth = "every byte" if self.data else "structure"
        names = ("thread", "checkpoint", "part", "byte")
        numbers = (self.threads, self.checkpoints, self.parts, self.bytes)
        seen = ", ".join(map(_counted, numbers, names)) + f" ({depth})"
        if self.clean:
            return f"clean: {seen}"
        head = f"{_counted(len(self.problems), 'problem')}: {seen}"
        return "\n".join([head, *map(str, self.problems)])


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Size:
    """How much something takes: as its checkpoints see it, and as it is stored."""

    name: str
    """Of a thread, or a path inside its states."""
    checkpoints: int
    """How many have it."""
    logical: int
    """Bytes of all its versions, each counted whole."""
    physical: int
    """Bytes that are stored: pages once, inline values at each checkpoint."""

    @property
    def ratio(self) -> float:
        """How many times the stored bytes would be needed without sharing."""
        return self.logical / self.physical if self.physical else 1.0

    def __str__(self) -> str:
        return (
            f"{self.name or 'all'}: {_counted(self.checkpoints, 'checkpoint')}, "
            f"{self.logical:,} bytes in {self.physical:,} ({self.ratio:.1f} x)"
        )


@dataclass(frozen=True, slots=True)
class Stats:
    """How much a store or a thread takes."""

    threads: int
    """How many there are."""
    total: Size
    """All of them together."""
    file_bytes: int | None = None
    """Of the file on disk; None where there is none, or where it holds other tenants' data too."""
    by_thread: tuple[Size, ...] = ()
    """The largest first."""
    by_path: tuple[Size, ...] = ()
    """The largest first; only for one thread. A list is one entry."""

    @property
    def checkpoints(self) -> int:
        """How many there are."""
        return self.total.checkpoints

    @property
    def logical(self) -> int:
        """Bytes of all states, each counted whole."""
        return self.total.logical

    @property
    def physical(self) -> int:
        """Bytes of parts and manifests."""
        return self.total.physical

    @property
    def ratio(self) -> float:
        """How many times the stored bytes would be needed without sharing."""
        return self.total.ratio

    def __str__(self) -> str:
        file = "" if self.file_bytes is None else f", {self.file_bytes:,} on disk"
        lines = [f"{_counted(self.threads, 'thread')}, {self.total}{file}"]
        return "\n".join([*lines, *map(str, self.by_thread), *map(str, self.by_path)])


@dataclass(frozen=True, slots=True)
class Swept:
    """What `sweep` removed, or would remove."""

    checkpoints: int = 0
    """Over their time, for longer than the grace."""
    threads: int = 0
    """Those of them that went as a whole, because nothing else was in them."""
    parts: int = 0
    """Pages that no checkpoint needs any more."""
    bytes: int = 0
    """Of these pages."""
    waiting: int = 0
    """Checkpoints that are over their time, but not for long enough."""
    dry_run: bool = False
    """Whether nothing was removed: then this is what would be."""
    skipped: tuple[str, ...] = ()
    """Threads that were left as they are, each with the reason: damaged, or never at rest."""

    def __str__(self) -> str:
        verb = "to remove" if self.dry_run else "removed"
        whole = f" ({_counted(self.threads, 'whole thread')})" if self.threads else ""
        pages = f"{_counted(self.parts, 'page')} of {self.bytes:,} bytes"
        lines = [f"{verb}: {_counted(self.checkpoints, 'checkpoint')}{whole}, {pages}"]
        if self.waiting:
            lines.append(f"{_counted(self.waiting, 'checkpoint')} over their time not long enough")
        return "\n".join([*lines, *self.skipped])


@dataclass(frozen=True, slots=True)
class NotCopied:
    """A thread that was not copied.

    `kind` is one of a few stable words:

        differs   it is in the target already, with other content, or was deleted in the source
        deleted   it was deleted in the target
        changing  it was written to all the time
        damaged   it cannot be read as it was written
        conflict  a checkpoint of it has the id of one in another thread of the target
    """

    thread: str
    """Its id."""
    kind: str
    """One of the words above."""
    message: str
    """What is in the way, as a sentence."""

    def __str__(self) -> str:
        return f"{self.thread}: {self.message} [{self.kind}]"


@dataclass(frozen=True, slots=True)
class Salvaged:
    """A damaged thread of which all that can be restored was copied."""

    thread: str
    """Its id."""
    lost: tuple[str, ...] = ()
    """Short names of the checkpoints that are not in the target: they cannot be restored."""
    remarks: tuple[str, ...] = ()
    """What else is not as it was."""

    def __str__(self) -> str:
        lost = [f"without {_some(self.lost)}"] if self.lost else []
        told = [*lost, *self.remarks] or ["nothing is missing"]
        return f"{self.thread}: {'; '.join(told)}. [salvaged]"


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What `copy_to` did."""

    threads: int = 0
    """Copied now, every one compared with the source."""
    same: int = 0
    """Threads that were there already, equal to the source."""
    checkpoints: int = 0
    """Those of the threads that were copied."""
    parts: int = 0
    """Stored pages that were copied."""
    bytes: int = 0
    """Of the parts."""
    items: int = 0
    """Items beside the checkpoints, such as those of LangGraph's store."""
    dry_run: bool = False
    """Whether nothing was written: then these are the threads that would be copied."""
    problems: tuple[NotCopied, ...] = ()
    """Threads that were not copied, each with the reason."""
    salvaged: tuple[Salvaged, ...] = ()
    """Those of the threads that were damaged, with what is missing of them."""

    @property
    def complete(self) -> bool:
        """Whether every thread that was chosen is in the target now, with nothing missing."""
        return not (self.problems or self.salvaged or (self.dry_run and self.threads))

    def __str__(self) -> str:
        verb = "to copy" if self.dry_run else "copied"
        numbers = (self.threads, self.checkpoints, self.parts, self.bytes, self.items)
        names = ("thread", "checkpoint", "part", "byte", "item")
        seen = ", ".join(map(_counted, numbers, names))
        there = f"; {_counted(self.same, 'thread')} there already" if self.same else ""
        told = map(str, (*self.salvaged, *self.problems))
        return "\n".join([f"{verb}: {seen}{there}", *told])
