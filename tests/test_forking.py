"""What a fork leaves behind in the process that forked."""

import gc
import os
import signal
import threading
import weakref
from pathlib import Path

import pytest

from lastgood import BlockingClient
from lastgood.testing.processes import fork


@pytest.mark.parametrize("kind", ["sqlite:///", "files:"])
def test_a_store_does_not_stay_for_having_been_there_at_a_fork(tmp_path: Path, kind: str) -> None:
    """A server that forks for each of its workers would keep every store that it ever closed."""
    client = BlockingClient.open(f"{kind}{tmp_path / 'store'}")
    client.save("a", session_id="s", execution_state={"n": 1})
    stayed = weakref.ref(client._core.backend)
    child = fork(lambda: None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.save("a", session_id="s", execution_state={"n": 2})
    client.close()
    del client
    gc.collect()
    assert stayed() is None


@pytest.mark.slow
def test_a_fork_while_another_thread_opens_stores(tmp_path: Path) -> None:
    """The child does not inherit a lock of SQLite's own that nobody in it will let go of."""
    client = BlockingClient.sqlite(tmp_path / "x.db")
    over = threading.Event()

    def open_stores() -> None:
        number = 0
        while not over.is_set():
            with BlockingClient.sqlite(tmp_path / f"{number % 3}.db") as other:
                other.save("a", session_id="s", execution_state={"n": number})
            number += 1

    def child() -> None:
        signal.alarm(10)  # a child that waits for ever is ended, and seen
        client.save("a", session_id="s", execution_state={})

    threads = [threading.Thread(target=open_stores, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(40):
            assert os.waitstatus_to_exitcode(os.waitpid(fork(child), 0)[1]) == 0
    finally:
        over.set()
        for thread in threads:
            thread.join(10)
