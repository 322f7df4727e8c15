"""The directories of test servers: in the temporary one, named after the process that made them.

Invariant: a directory whose process is gone is of no use to anybody, and is removed when the next
one is made. A process that ends in an orderly way removes its own.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

PREFIX = "lastgood-server-"
LONGEST_BASE = 50
"""The path of a socket has at most 107 bytes; this leaves the rest for what stands below."""


def make_place() -> Path:
    """A new directory that this process may fill, after those of dead processes were removed."""
    base = base_directory()
    sweep(base)
    place = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))
    if os.geteuid() == 0:
        place.chmod(0o755)  # servers that refuse to run as root come in as another user
    return place


def remove_place(place: Path) -> None:
    """Remove a directory and all below; what is gone already is no error."""
    shutil.rmtree(place, ignore_errors=True)


def sweep(base: Path) -> None:
    """Remove the directories of processes that are gone."""
    for place in base.glob(f"{PREFIX}*"):
        owner = re.match(rf"{PREFIX}(\d+)-", place.name)
        if owner and not _alive(int(owner[1])):
            remove_place(place)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def base_directory() -> Path:
    """The temporary directory; /tmp if its path is too long or root alone may pass through it."""
    base = Path(tempfile.gettempdir())
    if len(os.fsencode(base)) > LONGEST_BASE or (os.geteuid() == 0 and not _open_to_all(base)):
        return Path("/tmp")
    return base


def _open_to_all(path: Path) -> bool:
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))
