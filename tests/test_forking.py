"""What a fork leaves behind in the process that forked."""

import gc
import os
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
