"""A disk that refuses one step of a save to plain files: the save raises, and leaves nothing behind
unless it was over already; the same client goes on.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient, StorageError, StorageFullError
from lastgood.backends.files.disk import Disk

STATE = {"items": [{"n": n, "text": "word " * 60} for n in range(20)]}
STEPS = ("replace", "fsync", "unlink", "mkdir")


class Refusal:
    """Lets everything through but the nth step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nth: int, number: int) -> None:
        self.left, self.number, self.happened = nth, number, False
        for name in STEPS:
            monkeypatch.setattr(os, name, self._step(getattr(os, name)))
        monkeypatch.setattr(Disk, "prepare", self._prepare(Disk.prepare))

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.happened = True
            raise OSError(self.number, os.strerror(self.number))

    def _step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def refused(*arguments: Any, **options: Any) -> Any:
            self._count()
            return step(*arguments, **options)

        return refused

    def _prepare(self, prepare: Callable[..., Path]) -> Callable[..., Path]:
        def refused(disk: Disk, path: Path, data: bytes) -> Path:
            self._count()
            return prepare(disk, path, data)

        return refused


def removal(client: BlockingClient) -> None:
    client.expire("s@2")


def save(client: BlockingClient) -> None:
    client.save("a", execution_state={**STATE, "n": 4}, session_id="s")


def new_thread(client: BlockingClient) -> None:
    client.save("a", execution_state=STATE, session_id="new")


def deletion(client: BlockingClient) -> None:
    client.delete("s")


def seen(client: BlockingClient) -> Any:
    return {
        info.thread_id: [header.checkpoint_id for header in client.log(info.thread_id)]
        for info in client.threads()
    }


@pytest.mark.parametrize("operation", [save, new_thread, removal, deletion])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_step_that_fails(
    operation: Callable[[BlockingClient], None], number: int, place: Path
) -> None:
    failed = 0
    for nth in range(1, 60):
        client = BlockingClient.files(place / str(nth))
        for step in range(3):
            client.save("a", execution_state={**STATE, "n": step}, session_id="s")
        before = seen(client)
        with pytest.MonkeyPatch.context() as patch:
            refusal = Refusal(patch, nth, number)
            error = outcome(operation, client)
        failed += error is not None
        after = seen(client)
        if error is not None and after == before:
            assert isinstance(error, StorageFullError) == (number == errno.ENOSPC)
        elif after != before:
            assert is_whole(operation, before, after)
            assert error is None or "Look at the head" in str(error)
        assert client.verify(data=True).exit_code != 2
        saved = client.save("a", execution_state={"goes": "on"}, session_id="s")
        assert BlockingClient.files(place / str(nth)).restore(saved).state == {"goes": "on"}
        if not refusal.happened:
            break
    assert failed > 3


def outcome(
    operation: Callable[[BlockingClient], None], client: BlockingClient
) -> StorageError | None:
    try:
        operation(client)
    except StorageError as error:
        return error
    return None


def is_whole(operation: Callable[..., None], before: Any, after: Any) -> bool:
    """Whether an operation was carried out: at most its names were not synced."""
    changes = {
        save: lambda: len(after["s"]) == len(before["s"]) + 1,
        new_thread: lambda: len(after["new"]) == 1,
        removal: lambda: len(after["s"]) == len(before["s"]) - 1,
        deletion: lambda: "s" not in after,
    }
    return bool(changes[operation]())
