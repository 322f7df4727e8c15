"""What has to agree with what among the rows of a thread, and the errors where it does not.

Pure; `tables` and its kin look the rows up.
"""

from __future__ import annotations

from lastgood.errors import CheckpointIntegrityError
from lastgood.ids import show_id
from lastgood.rows import CheckpointRow, ThreadRow


def audit(thread: ThreadRow, found: int, expected: int, what: str) -> None:
    """A row that is not there is believed only if the count of different ones agrees."""
    if found != expected:
        raise CheckpointIntegrityError(
            f"thread {thread.name!r} has {found} {what} rows of {expected}: the store is damaged."
        )


def damaged_in(thread: ThreadRow, error: CheckpointIntegrityError) -> CheckpointIntegrityError:
    """The same error with the name of the thread; a row knows its number only."""
    message = f"in thread {thread.name!r}, {error.message}"
    return CheckpointIntegrityError(message, hint=error.hint)


def audit_head(thread: ThreadRow, head: CheckpointRow | None) -> None:
    """The head of an only branch is the newest checkpoint, unless that was removed since."""
    if head is None or thread.branches != 1 or thread.newest in (b"", head.id):
        return
    raise CheckpointIntegrityError(
        f"the newest checkpoint of thread {thread.name!r} is {show_id(thread.newest)}, "
        f"but its only branch ends at @{head.seq}: the store is damaged.",
        hint="`lastgood verify` tells more. Each checkpoint can be restored by its id.",
    )


def absent(thread: ThreadRow, holds: bool, what: str) -> None:
    """What a lookup did not find must not be in the list either."""
    if not holds:
        raise CheckpointIntegrityError(
            f"the {what} rows of thread {thread.name!r} are listed but not found: "
            "the store is damaged."
        )
