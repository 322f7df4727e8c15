"""Bringing over the SQLite file of checkpnt: ids, agents, sessions, parents, states, metadata.

Needs nothing of that library. A checkpoint without a parent follows the one that came before it in
its lane: there every save without a parent is a root, and only the time tells which is the newest.
So does one whose parent is in another session, which is another thread here. And one that follows
an older step is the newest, too: the line that it begins is the current one. Not where the lane has
gone on here since an earlier import.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ormsgpack

from lastgood import operations
from lastgood.adapters.importing import STRANGE, Count, Progress, quietly
from lastgood.checkpoints import Checkpoint, CheckpointBuilder, checksum_of, state_tree
from lastgood.client import BlockingClient
from lastgood.driver import run_blocking
from lastgood.errors import (
    BackendConnectionError,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    LastgoodError,
)
from lastgood.ids import read_id
from lastgood.model import HEAD, micros
from lastgood.rules import Save

_ROWS = "SELECT session_id, payload, expires_at_ms FROM checkpoints ORDER BY created_at_ms, rowid"
_REQUIRED = (
    *("checkpoint_id", "agent_id", "session_id", "framework", "step_index", "created_at"),
    "execution_state",
)
_SESSION = "SELECT session_id FROM checkpoints WHERE checkpoint_id = ?"
_COUNT = "SELECT count(*), count(DISTINCT session_id) FROM checkpoints"


def bring_over(client: BlockingClient, path: Path, progress: Progress = quietly) -> Count:
    """Copy every checkpoint that is not over its time; done twice it changes nothing.

    A thread ends before a checkpoint that cannot be copied, which does not stop the others.
    """
    with closing(_opened(path)) as source:
        total, threads = source.execute(_COUNT).fetchone()
        count, refused = Count(of=total), set[str]()
        for thread, payload, expires_at in source.execute(_ROWS):
            if thread in refused:
                continue
            try:
                count = count.plus(_brought(client, source, payload, expires_at))
            except (LastgoodError, *STRANGE) as error:
                refused.add(thread)
                count = count.without(thread, error)
            progress(count)
    return count._replace(threads=threads - len(refused))


def _brought(
    client: BlockingClient, source: sqlite3.Connection, payload: bytes, expires_at: object
) -> Count:
    """Copy one checkpoint, unless it is there or over its time."""
    left = None if expires_at is None else _left(expires_at)
    if left is not None and left <= 0:
        return Count(skipped=1)
    made = _checkpoint(payload, left)
    if _is_there(client, made):
        return Count(skipped=1)
    intent = client.aio._core.put_intent(made)._replace(switch=_is_newest(client, made))
    _save(client, intent if _follows(source, made) else intent._replace(parent=HEAD))
    return Count(checkpoints=1)


def _is_newest(client: BlockingClient, made: Checkpoint) -> bool:
    """Whether its lane does not end with a newer one; their times are those of milliseconds."""
    tip = run_blocking(client.aio._core.tip(made.session_id, made.agent_id))
    return tip is None or tip.row.created_at // 1000 <= micros(made.created_at) // 1000


def _follows(source: sqlite3.Connection, made: Checkpoint) -> bool:
    """Whether it has a parent that can be one here; one that was removed may have come before."""
    found = source.execute(_SESSION, [made.parent_id]).fetchone()
    return made.parent_id is not None and found in (None, (made.session_id,))


def _left(expires_at: object) -> float:
    """Seconds until then; a column of SQLite may hold anything."""
    try:
        return float(expires_at) / 1000 - datetime.now(UTC).timestamp()  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"expires_at_ms is {expires_at!r:.60}, which is no time") from error


def _opened(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise CheckpointNotFoundError(f"{path} does not exist.", hint="Give the path of the file.")
    if not path.is_file():
        what = "a directory" if path.is_dir() else "a pipe, a socket or a device"
        raise BackendConnectionError(f"{path} is {what}.", hint="Give the path of the file.")
    source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        source.execute(_ROWS)
    except sqlite3.Error as error:
        source.close()
        raise BackendConnectionError(f"{path} is no file of checkpnt: {error}.") from error
    return source


def _is_there(client: BlockingClient, made: Checkpoint) -> bool:
    try:
        client.resolve(made.checkpoint_id)
    except CheckpointNotFoundError:
        return False
    return True


def _save(client: BlockingClient, intent: Save) -> None:
    core = client.aio._core
    try:
        run_blocking(operations.save(core, intent))
    except CheckpointNotFoundError:  # the parent was removed there
        run_blocking(operations.save(core, intent._replace(parent=HEAD)))


def _checkpoint(payload: bytes, left: float | None) -> Checkpoint:
    found = _read(payload)
    try:
        return _built(found, left)
    except (OverflowError, TypeError, ValueError) as error:  # what is no name, step or time here
        raise ValueError(f"checkpoint {found['checkpoint_id']}: {error}") from error


def _read(payload: bytes) -> dict[str, Any]:
    """The fields of a checkpoint, all that there have to be."""
    try:
        found: dict[str, Any] = ormsgpack.unpackb(payload)
        return {name: found[name] for name in _REQUIRED} | found
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointIntegrityError(
            f"a checkpoint of the file cannot be read: {error}",
            hint="The other library cannot read it either; remove it there and import again.",
        ) from error


def _built(found: dict[str, Any], left: float | None) -> Checkpoint:
    if read_id(found["checkpoint_id"]) is None:  # a new one would be another at every import
        raise ValueError("its id is no UUID, and no other can stand for it here")
    builder = CheckpointBuilder(found["agent_id"], found["framework"])
    builder.session(found["session_id"]).step(found["step_index"], found.get("step_name"))
    builder.execution_state(found["execution_state"]).context(found.get("agent_context") or {})
    builder.tag(**(found.get("metadata") or {}))
    if left is not None:
        builder.ttl(left)
    if found.get("parent_id"):
        builder.parent(found["parent_id"])
    if found.get("handoff_target"):
        builder.handoff(found["handoff_target"], found.get("handoff_schema"))
    made = replace(
        builder.build(),
        checkpoint_id=found["checkpoint_id"],
        created_at=datetime.fromisoformat(found["created_at"]).astimezone(UTC),
    )
    root = state_tree(made.codec, made.execution_state).hash
    return replace(made, checksum=checksum_of(made, root).hex())
