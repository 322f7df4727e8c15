"""Checking what callers pass: ids, refs, framework names, tags.

Each function gives back the value in the form that the core uses, or raises a TypeError or
ValueError whose text names the option and the fix.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NoReturn

from lastgood import refs
from lastgood.checkpoints import Checkpoint
from lastgood.errors import an
from lastgood.ids import LANE_LIMIT, check_name, new_id, read_id, show_id
from lastgood.model import LONGEST_TTL, Framework, Sentinel, check_step, micros, seconds
from lastgood.refs import Address

LONGEST = 1_000_000_000
"""Seconds between two heartbeats at most: what every system can wait for."""
_SLIPS = {
    "ttl": "ttl_seconds",
    "thread_id": "session_id",
    "thread": "session_id",
    "session": "session_id",
    "parent": "parent_id",
    "state": "execution_state",
}


def session(session_id: str | None) -> str:
    """A thread's id; None makes a new one."""
    return show_id(new_id()) if session_id is None else check_name(session_id, "session_id")


def framework(value: Framework | str) -> str:
    """The name of a framework, whichever way it was given."""
    return check_name(value.value if isinstance(value, Framework) else value, "framework")


def grace(value: float | timedelta) -> int:
    """How long something must be over its time, in microseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise TypeError(
            f"grace_seconds must be a number or a timedelta, not {type(value).__name__}"
        )
    length = value.total_seconds() if isinstance(value, timedelta) else value
    if not 0 <= length < LONGEST_TTL:
        raise ValueError(
            f"grace_seconds must be 0 or more, and less than 950 years, not {value!r:.60}."
        )
    return round(length * 1e6)


def parent(
    parent_id: str | Sentinel | None, thread: str | None = None
) -> bytes | Address | Sentinel | None:
    """A parent as the rules take it, or an address that is still to be looked up."""
    if parent_id is None or isinstance(parent_id, Sentinel):
        return parent_id
    found = refs.parse(check_name(parent_id, "parent_id", 2 * LANE_LIMIT), thread)
    if found is None:
        raise ValueError(
            f"parent_id {parent_id!r} is not a checkpoint id. "
            "Pass what save() returned, or leave it out to go on from the head."
        )
    return found


def chosen_id(checkpoint_id: str | None) -> bytes:
    """An id that the caller chose, or nothing."""
    if checkpoint_id is None:
        return b""
    found = read_id(check_name(checkpoint_id, "checkpoint_id"))
    if found is None:
        raise ValueError(f"checkpoint_id {checkpoint_id!r} is not a UUID. Leave it out to get one.")
    return found


def limit(value: int, what: str = "limit") -> int:
    """How many to list."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{what} must be 1 or more, not {value}")
    return min(value, 1 << 31)


def merged(
    metadata: Mapping[str, Any] | None, tags: dict[str, Any], options: frozenset[str]
) -> dict[str, Any]:
    """Tags become metadata; one that looks like a mistyped option is refused."""
    for tag in tags:
        meant = _SLIPS.get(tag) or next((o for o in sorted(options) if _near(tag, o)), None)
        if meant is not None:
            raise TypeError(
                f"unknown option {tag!r}: did you mean {meant}? "
                f'To store it as metadata: metadata={{"{tag}": ...}}'
            )
    return {**items(metadata), **tags}


def items(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata to store or to filter by."""
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping, not {type(metadata).__name__}")
    return dict(metadata or {})


def piece(search: str | None) -> str:
    """A piece of text to look for, without regard to case."""
    text(search, "search")
    return (search or "").casefold()


def text(value: object, what: str) -> None:
    """Any text, or none."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")


def _near(left: str, right: str) -> bool:
    """Whether at most two letters have to change to get from one word to the other."""
    if abs(len(left) - len(right)) > 2:
        return False
    row = list(range(len(right) + 1))
    for position, letter in enumerate(left, 1):
        above, row[0] = row[0], position
        for column, other in enumerate(right, 1):
            cost = min(row[column] + 1, row[column - 1] + 1, above + (letter != other))
            above, row[column] = row[column], cost
    return row[-1] <= 2


def place(after: int | None) -> int | None:
    """The seq behind which to go on."""
    if after is not None and (isinstance(after, bool) or not isinstance(after, int)):
        raise TypeError(f"after must be an int, not {type(after).__name__}: pass header.seq")
    if after is not None and after < 0:
        raise ValueError(f"after must be 0 or more, not {after}. Pass header.seq of the last one.")
    return after


def cursor(after: str | None) -> int | None:
    """The place in a listing where the next page begins."""
    if after is None:
        return None
    if not str(after).isdecimal():
        raise ValueError(f"after={after!r} is not a cursor. Pass page.next of the page before.")
    return min(int(after), 1 << 62)


def thread_cursor(after: str | None, sort: str) -> tuple[object, ...]:
    """The place in a list of threads where the next page begins."""
    if after is None or sort == "name":
        return () if after is None else (check_name(after, "after"),)
    numbers = str(after).split(":")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise ValueError(
            f"after={after!r} is not a cursor for sort={sort!r}. Pass page.next of the page before."
        )
    return tuple(min(int(number), 1 << 62) for number in numbers)


def check_state(given: object, working: object) -> None:
    """Raise TypeError for a name of a step in the place of a state."""
    if isinstance(given, str) and not isinstance(working, str):
        raise TypeError(
            f"run.save({given[:40]!r}) would replace the whole state by that text. "
            f"Did you mean run.save(step_name={given[:40]!r})?"
        )


def conflict_policy(value: str) -> None:
    """What to do when the head has moved."""
    one_of(value, ("branch", "reject"), "on_conflict")


def built(checkpoint: Checkpoint) -> None:
    """What `put` takes: a checkpoint, each field of the type it says."""
    if not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"put() takes a Checkpoint, not {type(checkpoint).__name__}. "
            "Make one with CheckpointBuilder, or Checkpoint.from_dict."
        )
    check_name(checkpoint.agent_id, "agent_id")
    check_name(checkpoint.session_id, "session_id")
    framework(checkpoint.framework)
    check_step(checkpoint.step_index)
    name(checkpoint.step_name, "step_name")
    name(checkpoint.handoff_target, "handoff_target")
    name(checkpoint.handoff_schema, "handoff_schema")
    seconds(checkpoint.ttl_seconds)
    chosen_id(checkpoint.checkpoint_id)
    parent(checkpoint.parent_id)


def edits(value: object) -> None:
    """What `fork` changes: values by path, or a function."""
    if value is not None and not callable(value) and not isinstance(value, Mapping):
        raise TypeError(
            f"edits must be a mapping of paths to values or a function, not {type(value).__name__}"
        )


def one_of(value: str, choices: tuple[str, ...], what: str) -> None:
    """An option that takes a few words."""
    if value not in choices:
        shown = " or ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"{what} must be {shown}, not {value!r}")


def expectation(value: str | None) -> None:
    """Whether a run is to find something."""
    if value is not None:
        one_of(value, ("new", "existing"), "expect")


def agent(value: str | None) -> str | None:
    """Whose lane is looked for, or any; a framework may have named it."""
    return None if value is None else check_name(value, "agent_id", LANE_LIMIT)


def name(value: str | None, what: str) -> str | None:
    """A name to filter by, or none."""
    return None if value is None else check_name(value, what)


def instant(value: datetime | None, what: str) -> int | None:
    """A time to filter by, in microseconds; one without a zone is local, as `datetime.now()` is."""
    if value is not None and not isinstance(value, datetime):
        raise TypeError(f"{what} must be a datetime, not {type(value).__name__}")
    return None if value is None else micros(_local(value))


def _local(when: datetime) -> datetime:
    try:
        return when if when.tzinfo else when.astimezone()
    except (OverflowError, ValueError, OSError):
        return when  # at an end of the calendar, such as `datetime.min`: no hours matter there


def whole_seconds(value: float | timedelta) -> int:
    """How long a cache keeps what it has: a second at least."""
    length = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(length, bool) or not isinstance(length, int | float):
        raise TypeError(f"cache_ttl must be a number or a timedelta, not {type(value).__name__}")
    if not 1 <= length < 3e9:
        raise ValueError(f"cache_ttl must be at least a second, not {value!r}.")
    return int(length)


def period(value: float, what: str) -> None:
    """How often something happens, in seconds."""
    _number(value, what)
    if not 0 < value <= LONGEST:
        raise ValueError(
            f"{what} must be greater than 0 and at most {LONGEST:,} seconds, not {value!r:.60}"
        )


def patience(value: float, what: str) -> None:
    """How long to wait for something, in seconds; for ever is a possible answer."""
    _number(value, what)
    if not value >= 0:
        raise ValueError(f"{what} must be 0 or more, not {value!r:.60}")


def _number(value: object, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number of seconds, not {type(value).__name__}")


def size(value: int, what: str) -> None:
    """A number of bytes."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{what} must be 0 or more, not {value}")


def file(value: object, what: str) -> None:
    """The path of a file."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(
            f"{what} must be the path of a file, not {an(type(value).__name__)}: "
            "connections are opened where they are needed"
        )


def directory(value: object, what: str) -> None:
    """The path of a directory."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{what} must be the path of a directory, not {an(type(value).__name__)}")


def flag(value: object, what: str) -> None:
    """An option that is on or off; a text such as "0", from a setting, would be on."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, not {value!r:.60}")


def function(value: object, what: str) -> None:
    """Something to call."""
    if not callable(value):
        raise TypeError(f"{what} must be a function, not {type(value).__name__}")


def hook(value: object, what: str) -> None:
    """Something to call, or nothing."""
    if value is not None:
        function(value, what)


def classes(value: Iterable[type], what: str) -> tuple[type, ...]:
    """Classes to register."""
    if isinstance(value, type) or not isinstance(value, Iterable):
        raise TypeError(f"{what} must be a list of classes, not {value!r:.60}")
    found = tuple(value)
    for each in found:
        if not isinstance(each, type):
            raise TypeError(f"{what} must be a list of classes; {each!r:.60} is none")
    return found


def made_by_factory(core: object, expected: type, client: type) -> None:
    """Clients are made by their factories."""
    if not isinstance(core, expected):
        name = client.__name__
        raise TypeError(
            f"a {name} is not made of {core!r:.60}. "
            f"Use {name}.sqlite(path), {name}.memory() or {name}.open(url)."
        )


def not_picklable(opened: object) -> NoReturn:
    """Why a client or a run does not travel between processes."""
    raise TypeError(
        f"a {type(opened).__name__} cannot be pickled or copied. "
        "Open one in each process; after a fork the same one goes on working."
    )
