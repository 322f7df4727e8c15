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

        seal    a row was changed by something other than Lastgood
        row     a row is missing, is there twice, or cannot be read
        count   a thread's counter disagrees with what is there
        head    a branch names a checkpoint that is not there, or one that it had left behind
        link    the checkpoint that another one follows is not there, or is a different one
        digest  a checkpoint's fields do not match its digest
        root    a checkpoint's state is not the one that was saved
        part    a stored page is missing or damaged
        stream  a sequence of pages is not known to belong to the thread
        tag     a tag names a checkpoint that was lost
        index   a lookup table disagrees with what it leads to
        orphan  there are rows of a thread that is not there
        file    the store itself says that it is damaged
    """

    kind: str
    """One of the words above."""
    where: str
    """The place, such as `run-001@42`, `run-001/agent branch main` or
    `run-001 stream 7 part 12`."""
    message: str
    """What is wrong, as a sentence."""
    checkpoints: tuple[str, ...] = ()
    """Short names of the checkpoints that cannot be restored because of it. A thread that lost its
    name is written as `#` and its key. What harms a whole store names no checkpoints."""
    repairable: bool = False
    """Whether nothing of any state is lost: what is wrong can be computed anew or left out."""

    def __str__(self) -> str:
        outcome = "repairable" if self.repairable else "data lost"
        touched = f" Touches {_some(self.checkpoints)}." if self.checkpoints else ""
        return f"{self.where}: {self.message} [{self.kind}, {outcome}]{touched}"


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` looked at, and what is wrong."""

    threads: int = 0
    """How many threads were looked at."""
    checkpoints: int = 0
    """How many checkpoints were looked at."""
    parts: int = 0
    """How many parts, which are stored pages, were looked at."""
    bytes: int = 0
    """The size of these parts in bytes."""
    data: bool = False
    """Whether every byte was read; if not, it was only checked that everything is in its place."""
    problems: tuple[Problem, ...] = ()
    """What is wrong, thread by thread."""

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def exit_code(self) -> int:
        """0 if the store is clean, 1 if every problem is repairable, 2 if data is lost."""
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
    """How much space something takes: as its checkpoints see it, and as it is stored."""

    name: str
    """The id of a thread, or a path inside its states; empty for the total of a store."""
    checkpoints: int
    """How many checkpoints have it."""
    logical: int
    """The bytes of all its versions, each counted whole."""
    physical: int
    """The bytes that are stored: pages count once, inline values at each checkpoint."""

    @property
    def ratio(self) -> float:
        """How many times the stored bytes would be needed if nothing were shared."""
        return self.logical / self.physical if self.physical else 1.0

    def __str__(self) -> str:
        return (
            f"{self.name or 'all'}: {_counted(self.checkpoints, 'checkpoint')}, "
            f"{self.logical:,} bytes in {self.physical:,} ({self.ratio:.1f} x)"
        )


@dataclass(frozen=True, slots=True)
class Stats:
    """How much space a store or a thread takes."""

    threads: int
    """How many threads there are; 1 if one thread was asked for."""
    total: Size
    """The size of all of them together."""
    file_bytes: int | None = None
    """The size of the file on disk; None for one thread, and where there is no file or other
    tenants' data is in it too."""
    by_thread: tuple[Size, ...] = ()
    """The sizes of the largest threads, the largest first; only for a whole store."""
    by_path: tuple[Size, ...] = ()
    """The sizes of the paths in the states, the largest first; only for one thread. A list is one
    entry."""

    @property
    def checkpoints(self) -> int:
        """How many checkpoints there are."""
        return self.total.checkpoints

    @property
    def logical(self) -> int:
        """The bytes of all states, each counted whole."""
        return self.total.logical

    @property
    def physical(self) -> int:
        """The bytes that are stored: of parts, manifests and items."""
        return self.total.physical

    @property
    def ratio(self) -> float:
        """How many times the stored bytes would be needed if nothing were shared."""
        return self.total.ratio

    def __str__(self) -> str:
        file = "" if self.file_bytes is None else f", {self.file_bytes:,} on disk"
        lines = [f"{_counted(self.threads, 'thread')}, {self.total}{file}"]
        return "\n".join([*lines, *map(str, self.by_thread), *map(str, self.by_path)])


@dataclass(frozen=True, slots=True)
class Swept:
    """What `sweep` removed, or would remove."""

    checkpoints: int = 0
    """How many checkpoints were removed: those that had been expired for longer than the grace."""
    threads: int = 0
    """How many threads were removed as a whole, because nothing else was in them."""
    parts: int = 0
    """How many pages were removed: those that no checkpoint needs any more."""
    bytes: int = 0
    """The size of these pages in bytes."""
    waiting: int = 0
    """How many checkpoints are expired, but not yet for longer than the grace."""
    dry_run: bool = False
    """Whether nothing was removed: the numbers then say what would be removed."""
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

        differs   the target has it with other content, or still has it after the source deleted it
        deleted   it was deleted in the target
        changing  it was written to all the time
        damaged   it cannot be read as it was written
        conflict  one of its checkpoints has the id of one in another thread of the target
    """

    thread: str
    """The id of the thread."""
    kind: str
    """One of the words above."""
    message: str
    """What prevented the copy, as a sentence."""

    def __str__(self) -> str:
        return f"{self.thread}: {self.message} [{self.kind}]"


@dataclass(frozen=True, slots=True)
class Salvaged:
    """A damaged thread from which everything that can be restored was copied."""

    thread: str
    """The id of the thread."""
    lost: tuple[str, ...] = ()
    """Short names of the checkpoints that cannot be restored, and so are not in the target."""
    remarks: tuple[str, ...] = ()
    """What else in the copy is not as it was."""

    def __str__(self) -> str:
        lost = [f"without {_some(self.lost)}"] if self.lost else []
        told = [*lost, *self.remarks] or ["nothing is missing"]
        return f"{self.thread}: {'; '.join(told)}. [salvaged]"


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What `copy_to` did."""

    threads: int = 0
    """How many threads were copied now, each compared with the source."""
    same: int = 0
    """How many threads were in the target already, equal to the source."""
    checkpoints: int = 0
    """How many checkpoints the copied threads have."""
    parts: int = 0
    """How many parts, which are stored pages, were copied."""
    bytes: int = 0
    """The size of these parts in bytes."""
    items: int = 0
    """How many items were copied: what lies beside checkpoints, as in LangGraph's store."""
    dry_run: bool = False
    """Whether nothing was written: the numbers then say what would be copied."""
    problems: tuple[NotCopied, ...] = ()
    """The threads that were not copied, each with the reason."""
    salvaged: tuple[Salvaged, ...] = ()
    """The copied threads that were damaged, each with what is missing from it."""

    @property
    def complete(self) -> bool:
        """Whether every chosen thread is in the target now, with nothing missing."""
        return not (self.problems or self.salvaged or (self.dry_run and self.threads))

    def __str__(self) -> str:
        verb = "to copy" if self.dry_run else "copied"
        numbers = (self.threads, self.checkpoints, self.parts, self.bytes, self.items)
        names = ("thread", "checkpoint", "part", "byte", "item")
        seen = ", ".join(map(_counted, numbers, names))
        there = f"; {_counted(self.same, 'thread')} there already" if self.same else ""
        told = map(str, (*self.salvaged, *self.problems))
        return "\n".join([f"{verb}: {seen}{there}", *told])
