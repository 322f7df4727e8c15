"""What the doctor looks at in the file of a store, without opening it as a store."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from lastgood.backends.sqlite.connection import WAL_LIMIT, is_no_file
from lastgood.backends.sqlite.schema import FORMAT, import_command, owner_of, read_stamp
from lastgood.backends.sqlite.still import DisturbedError, is_kept_out, left_of, read_still
from lastgood.cli.doctor_checks import Finding
from lastgood.cli.printing import size
from lastgood.cli.store import chosen
from lastgood.driver import run_blocking
from lastgood.errors import CheckpointIntegrityError
from lastgood.model import moment
from lastgood.registry import open_url, shown
from lastgood.rows import LIVE

NOT_YET = "It is made by the first save; `lastgood demo --keep` makes one to look at."
_LEAST_FREE = 256 << 20
_LARGE_WAL = 4 * WAL_LIMIT
_NETWORK = frozenset("nfs nfs4 cifs smb3 smbfs sshfs fuse.sshfs 9p afs ceph glusterfs".split())
_MOUNTS = Path("/proc/self/mounts")


def store_findings(place: str, file: Path | None) -> Iterator[Finding]:
    """The file, its format, its disk."""
    if file is None:
        yield _elsewhere(place)
        return
    if not file.exists():
        yield Finding("ok", "store", f"{file} does not exist yet", NOT_YET)
    elif file.is_dir():
        yield Finding("problem", "store", f"{file} is a directory", "Pass the path of a file.")
    elif is_no_file(file):
        found = f"{file} is a pipe, a socket or a device"
        yield Finding("problem", "store", found, "Pass the path of a file.")
    else:
        yield from _file_findings(file)
    yield from _disk_findings(file)


def _elsewhere(place: str) -> Finding:
    """A store that its process alone has, or nobody; ValueError for an address of none."""
    run_blocking(open_url(place).close())
    return Finding("ok", "store", f"{shown(place)} (not a file: nothing to look at)")


def _file_findings(file: Path) -> Iterator[Finding]:
    yield Finding("ok", "store", f"{file}, {size(file.stat().st_size)}")
    yield _rights(file)
    try:
        yield from _read(file) if os.access(file, os.R_OK) else ()
    except (DisturbedError, sqlite3.Error) as error:
        yield _unread(error, file)
    yield _wal(file)
    yield from name_findings(file.stat().st_nlink, file.resolve() in _mounts())


def name_findings(names: int, is_mounted: bool) -> Iterator[Finding]:
    """Whether the log beside the file is found by all who open it, and stays as long as it."""
    if names > 1:
        advice = "Use one name only, and make copies of the others: two of them open destroy it."
        yield Finding("warning", "names", f"it has {names} of them, as hard links", advice)
    if is_mounted:
        advice = "Mount its directory: the log beside it is lost with this container."
        yield Finding("problem", "mount", "the file alone is mounted here", advice)


def _unread(error: Exception, file: Path) -> Finding:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
        advice = "Nothing can be read or saved until that is found and ended."
        return Finding("problem", "lock", "another program has it to itself", advice)
    verify = shlex.join(["lastgood", "verify", *chosen("--store", str(file))])
    advice = f"Copy the file and its -wal away before anything else, then try `{verify}`."
    left = left_of(str(file))
    if left is None:
        return Finding("problem", "format", f"it cannot be read: {error}", advice)
    found = f"its end is missing: {left[0]:,} of {left[1]:,} bytes are there"
    return Finding("problem", "format", found, f"If it is a copy, make it again. {advice}")


def _read(file: Path) -> list[Finding]:
    path = file.absolute()
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            return list(_content_findings(connection, file))
    except sqlite3.Error as error:
        if not is_kept_out(error):
            raise
    return read_still(str(path), lambda connection: list(_content_findings(connection, file)))


def _rights(file: Path) -> Finding:
    if not os.access(file, os.R_OK):
        advice = "Look at it as its owner, or give this user the right to read it."
        return Finding("problem", "rights", "this user may not read it", advice)
    if os.access(file, os.R_OK | os.W_OK) and os.access(file.absolute().parent, os.W_OK):
        return Finding("ok", "rights", "this user may read and write it")
    advice = (
        "To look at it is enough; to save, it takes write access to the file and its directory."
    )
    return Finding("warning", "rights", "this user may not write it or its directory", advice)


def _content_findings(connection: sqlite3.Connection, file: Path) -> Iterator[Finding]:
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "lastgood_meta" not in names:
        yield _others_finding(file, owner_of(connection, names))
        return
    meta = dict(connection.execute("SELECT name, value FROM lastgood_meta").fetchall())
    yield format_finding(str(meta.get("format")))
    yield journal_finding(_journal_mode(connection, file))
    yield Finding("ok", "durability", "strict unless a client asks for relaxed: synced per save")
    yield time_finding(meta.get("newest"))
    count = connection.execute("SELECT count(*) FROM lastgood_thread WHERE state = ?", (LIVE,))
    yield Finding("ok", "threads", f"{count.fetchone()[0]:,}")


def _journal_mode(connection: sqlite3.Connection, file: Path) -> str:
    """As the file says: a connection that takes it for one that does not change has no log."""
    with file.open("rb") as opened:
        is_wal = opened.read(20)[18:] == b"\2\2"
    return "wal" if is_wal else str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _others_finding(file: Path, owner: tuple[str, str] | None) -> Finding:
    if owner is None:
        advice = "The first save would add its tables to this file."
        return Finding("warning", "format", "it holds nothing of Lastgood", advice)
    whose, name = owner
    advice = f"Bring it over: {import_command(name, str(file))}"
    return Finding("problem", "format", f"it belongs to {whose}", advice)


def format_finding(found: str) -> Finding:
    """Whether this version reads the file."""
    if found == str(FORMAT):
        return Finding("ok", "format", found)
    advice = f"This version reads format {FORMAT}: upgrade lastgood, or use the one that wrote it."
    return Finding("problem", "format", found, advice)


def journal_finding(mode: str) -> Finding:
    """Whether readers and writers can work side by side."""
    if mode == "wal":
        return Finding("ok", "journal", mode)
    return Finding("warning", "journal", mode, "The next save sets it to wal; it should stay so.")


def time_finding(newest: object) -> Finding:
    """Whether the clock of this host is behind what was saved."""
    try:
        last = moment(read_stamp(newest))
    except CheckpointIntegrityError as error:
        return Finding("problem", "last save", str(error), "Run `lastgood verify`.")
    text = f"{last:%Y-%m-%d %H:%M:%S} UTC"
    if last.timestamp() == 0:
        return Finding("ok", "last save", "none yet")
    if last <= datetime.now(UTC):
        return Finding("ok", "last save", text)
    advice = "This host's clock is behind the file's: nothing expires until it has caught up."
    return Finding("warning", "last save", f"{text}, in the future", advice)


def _wal(file: Path) -> Finding:
    wal = file.with_name(f"{file.name}-wal")
    bytes_ = wal.stat().st_size if wal.exists() else 0
    if bytes_ <= _LARGE_WAL:
        return Finding("ok", "wal", size(bytes_))
    advice = "A program that keeps a transaction open stops it from shrinking: find and end it."
    return Finding("warning", "wal", size(bytes_), advice)


def _disk_findings(file: Path) -> Iterator[Finding]:
    directory = Path(os.path.realpath(file)).parent
    if not directory.is_dir():
        found = f"{directory} {'is no directory' if directory.exists() else 'does not exist'}"
        advice = "Make it, or pass another path."
        yield Finding("problem", "directory", found, advice)
        return
    yield free_finding(shutil.disk_usage(directory).free)
    yield file_system_finding(_file_system(directory))


def free_finding(free: int) -> Finding:
    """Whether there is room for saves."""
    if free >= _LEAST_FREE:
        return Finding("ok", "disk", f"{size(free)} free")
    return Finding("warning", "disk", f"{size(free)} free", "Free some space before it runs out.")


def file_system_finding(kind: str | None) -> Finding:
    """Whether the file system can share a WAL."""
    if kind is None:
        return Finding("ok", "file system", "cannot be told here; it must be a local one")
    if kind not in _NETWORK:
        return Finding("ok", "file system", kind)
    advice = "SQLite is not safe on a network file system: put the file on a local disk."
    return Finding("problem", "file system", kind, advice)


def _file_system(directory: Path) -> str | None:
    """The kind of the mount that a directory is in, where the system tells."""
    points, real = _mounts(), directory.resolve()
    inside = [point for point in points if real.is_relative_to(point)]
    return points[max(inside, key=lambda point: len(point.parts))] if inside else None


def _mounts() -> dict[Path, str]:
    """What is mounted where, and its kind; nothing where the system does not tell."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
    except OSError:
        return {}
    return {Path(point.replace("\\040", " ")): kind for _, point, kind, *_ in mounts}
