"""Whether processes have ended."""

import time
from collections.abc import Iterable
from pathlib import Path


def gone(*pids: int, within: float = 10.0) -> bool:
    """Whether processes end soon; one that only waits to be noticed by its parent has ended."""
    deadline = time.monotonic() + within
    while any(map(_runs, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def running(pids: Iterable[int]) -> set[int]:
    """Those of the processes that have not ended."""
    return {pid for pid in pids if _runs(pid)}


def _runs(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
