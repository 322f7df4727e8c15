"""What the doctor looks at in a store of plain files: its directory, the rights, the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from lastgood.backends.files.store import FORMAT, FileStore
from lastgood.cli.doctor_checks import Finding
from lastgood.cli.doctor_store import NOT_YET, free_finding
from lastgood.errors import LastgoodError


def directory_findings(directory: Path) -> Iterator[Finding]:
    """The directory, what it says of itself, its disk."""
    if not directory.exists():
        yield Finding("ok", "store", f"{directory} does not exist yet", NOT_YET)
    elif not directory.is_dir():
        yield Finding("problem", "store", f"{directory} is a file", "Pass a directory.")
    else:
        yield Finding("ok", "store", f"{directory}, plain files")
        yield _format(directory)
    there = next(place for place in (directory, *directory.absolute().parents) if place.is_dir())
    yield rights_finding(there, may_write=os.access(there, os.R_OK | os.W_OK | os.X_OK))
    yield free_finding(shutil.disk_usage(there).free)


def _format(directory: Path) -> Finding:
    try:
        told = FileStore(directory, strict=True).about()
    except LastgoodError as error:
        return Finding("problem", "format", error.message, error.hint or "Run `lastgood verify`.")
    except OSError as error:
        return Finding("problem", "format", f"it cannot be read: {error}", "Look at the rights.")
    if told is None:
        advice = "The first save would make a store of this directory."
        return Finding("warning", "format", "it holds nothing of Lastgood", advice)
    return Finding("ok", "format", str(FORMAT))


def rights_finding(directory: Path, *, may_write: bool) -> Finding:
    """Whether saves can make files there."""
    if may_write:
        return Finding("ok", "rights", f"this user may read and write {directory}")
    advice = "Each save makes files: give this user the right to write there."
    return Finding("problem", "rights", f"this user may not write {directory}", advice)
