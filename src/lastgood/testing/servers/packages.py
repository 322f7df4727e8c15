"""Programs of Debian packages, unpacked beside the Python environment instead of installed.

No root is needed, nothing outside of the environment changes, and no service starts by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

UNPACKED = "lastgood-packages"
DOWNLOAD_SECONDS = 60


def unpacked(package: str) -> Path | None:
    """The directory with a package and what it needs below it, fetched once; None if impossible."""
    kept = Path(sys.prefix) / UNPACKED / package
    if kept.exists():
        return kept
    try:
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            tree = _fetched(package, Path(scratch))
            tree.chmod(0o755)
            tree.rename(kept)
    except (OSError, subprocess.SubprocessError):
        return kept if kept.exists() else None
    return kept


def _fetched(package: str, scratch: Path) -> Path:
    """Download a package with what is not installed of its dependencies; gives their files."""
    options, names = _plan(package, scratch)
    _run(["apt-get", *options, "download", "-qq", *names], scratch)
    tree = scratch / "tree"
    tree.mkdir()
    for archive in scratch.glob("*.deb"):
        _run(["dpkg", "-x", str(archive), str(tree)], scratch)
    return tree


def _plan(package: str, scratch: Path) -> tuple[list[str], list[str]]:
    """Options of apt-get, and the packages to download.

    Many containers come without lists of packages; then these are fetched for this once.
    """
    try:
        return [], _needed(package, [])
    except subprocess.CalledProcessError:
        lists = scratch / "lists"
        lists.mkdir()
        options = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={scratch}"]
        _run(["apt-get", *options, "update", "-qq"], scratch)
        return options, _needed(package, options)


def _needed(package: str, options: list[str]) -> list[str]:
    """The names of the packages that an installation would bring."""
    install = ["install", "--simulate", "-qq", "--no-install-recommends", package]
    steps = _run(["apt-get", *options, *install], Path("/")).splitlines()
    return [step.split()[1] for step in steps if step.startswith("Inst ")] or [package]


def _run(command: list[str], directory: Path) -> str:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=DOWNLOAD_SECONDS,
    )
    return done.stdout
