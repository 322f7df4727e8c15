"""Questions about threads, as they are sent to the script that answers them.

On one server a script answers about many threads at once, so that all is of one moment. (A
transaction of several scripts would be too, but a server that is full refuses it, though it only
reads.) In a Cluster each thread is asked by itself.

There a script names every key that it may touch. While a slot is moved key by key, the server then
refuses it; else it would take what was moved already for missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lastgood.backends.redis.keys import touched
from lastgood.backends.redis.queries import Question
from lastgood.backends.redis.scripts import ASK
from lastgood.backends.redis.wire import Command, Wire, Word


class Call(NamedTuple):
    """What is asked about a thread."""

    key: str
    """Of the thread; or of a table of hints, in which `field` says which thread."""
    questions: list[Question]
    field: bytes = b""

    @property
    def words(self) -> list[Word]:
        """As the script takes it."""
        words = [word for question in self.questions for word in question.words]
        return [self.field, len(words), *words]


def clock(reply: Sequence[Any]) -> int:
    """The time that a reply begins with."""
    seconds, micros = reply[:2]
    return int(seconds) * 1_000_000 + int(micros)


async def together(
    wire: Wire, calls: Sequence[Call], shift: int = 0, stem: str = ""
) -> list[list[Any]]:
    """The replies to calls, of one moment if one server has all: the clock, and the answers."""
    apart = wire.clients.cluster or not calls
    groups = [[call] for call in calls] if apart else [calls]
    replies = await wire.send([_command(wire, group, shift, stem) for group in groups])
    return [reply for group in replies for reply in group]


async def one_by_one(wire: Wire, calls: Sequence[Call], shift: int = 0) -> list[list[Any]]:
    """The same, each of its own moment: many threads keep a server from nothing else."""
    replies = await wire.send([_command(wire, [call], shift, "") for call in calls])
    return [reply for (reply,) in replies]


def _command(wire: Wire, calls: Sequence[Call], shift: int, stem: str) -> Command:
    words = [word for call in calls for word in call.words]
    keys = [key for call in calls for key in named(wire, call.key)]
    return ASK.over(keys, shift, stem, *words)


def named(wire: Wire, thread: str, *more: str) -> list[str]:
    """The keys that a script on a thread is sent with: one server needs to be told but one."""
    return [*touched(thread), *more] if wire.clients.cluster else [thread]
