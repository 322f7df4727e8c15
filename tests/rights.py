"""Files and directories as somebody meets them who may only read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Rights mean nothing to root."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Nobody but root may write there."""
    for path in directory.iterdir():
        path.chmod(0o444)
    directory.chmod(0o555)
    try:
        yield
    finally:
        directory.chmod(0o755)
        for path in directory.iterdir():
            path.chmod(0o644)
