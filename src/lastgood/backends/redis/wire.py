"""Sending commands to Redis, in either colour, and what goes wrong on the way.

Several commands are one round trip, each of its own moment. A script is sent by its hash, and as
text to a server that does not know it yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from redis import exceptions

from lastgood.backends.redis.clients import Clients
from lastgood.driver import cancellable, is_blocking
from lastgood.errors import (
    BackendConnectionError,
    CheckpointIntegrityError,
    LastgoodError,
    StorageError,
    StorageFullError,
    TransientStorageError,
)

Word = bytes | str | int | float
Command = tuple[Word, ...]


class Script:
    """A Lua script."""

    known: ClassVar[dict[str, Script]] = {}

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.known[self.sha] = self

    def call(self, key: str, *args: Word) -> Command:
        """The command that runs it."""
        return self.over([key], *args)

    def over(self, keys: Sequence[str], *args: Word) -> Command:
        """The same with several keys, which are on one server."""
        return ("EVALSHA", self.sha, len(keys), *keys, *args)


class Wire:
    """Round trips to one store."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.opened = False
        """Whether the server has answered before: then it is there, and may be back soon."""

    async def look(self) -> None:
        """See what kind of server it is."""
        with translated(self.clients.label, opened=self.opened):
            await self.clients.look()

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands."""
        if not commands:
            return []
        with translated(self.clients.label, opened=self.opened), cancellable():
            async with self.clients.room.place():
                replies = await self._sent(commands)
                if any(isinstance(reply, exceptions.NoScriptError) for reply in replies):
                    replies = await self._with_texts(commands, replies)
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
            self.opened = True
            return replies

    async def one(self, *command: Word) -> Any:
        """The reply to one command."""
        return (await self.send([command]))[0]

    async def everywhere(self, *command: Word) -> list[Any]:
        """The replies of all servers that take writes."""
        with translated(self.clients.label, opened=self.opened):
            client = self.clients.blocking() if is_blocking() else await self.clients.native()
            how = {"target_nodes": client.PRIMARIES} if self.clients.cluster else {}
            reply = client.execute_command(*command, **how)
            reply = reply if is_blocking() else await reply
        return list(reply.values()) if self.clients.cluster else [reply]

    async def _with_texts(self, commands: Sequence[Command], replies: list[Any]) -> list[Any]:
        """Send scripts as text, where one was not known."""
        again = [
            index
            for index, reply in enumerate(replies)
            if isinstance(reply, exceptions.NoScriptError)
        ]
        sent = await self._sent([_as_text(commands[index]) for index in again])
        found = dict(zip(again, sent, strict=True))
        return [found.get(index, reply) for index, reply in enumerate(replies)]

    async def _sent(self, commands: Sequence[Command]) -> list[Any]:
        if is_blocking():
            with self.clients.interruptible() as client:
                return await self._answered(client, commands)
        return await self._answered(await self.clients.native(), commands)

    async def _answered(self, client: Any, commands: Sequence[Command]) -> list[Any]:
        if self.clients.cluster:
            with _closed_as_lost():
                return await self._replies(client, commands)
        replies = await self._replies(client, commands)
        if any(isinstance(each, Exception) and _is_of_replica(each) for each in replies):
            await self.clients.renew(client)
        return replies

    async def _replies(self, client: Any, commands: Sequence[Command]) -> list[Any]:
        if len(commands) == 1:
            try:
                reply = client.execute_command(*commands[0])
                return [reply if is_blocking() else await reply]
            except exceptions.ResponseError as error:
                return [error]
        how = {} if self.clients.cluster else {"transaction": False}
        pipe = client.pipeline(**how)
        for command in commands:
            pipe.execute_command(*command)
        replies = pipe.execute(raise_on_error=False)
        return list(replies if is_blocking() else await replies)


@contextmanager
def _closed_as_lost() -> Iterator[None]:
    """The driver of a Cluster closes the connections of all tasks when one of them learns that
    slots have moved. Who is about to use one meets None in its place.
    """
    try:
        yield
    except AttributeError as error:
        raise exceptions.ConnectionError("Connection closed: slots have moved.") from error


def _as_text(command: Command) -> Command:
    if command[0] != "EVALSHA":
        return command
    return ("EVAL", Script.known[str(command[1])].text, *command[2:])


def _is_of_replica(error: Exception) -> bool:
    return isinstance(error, exceptions.ReadOnlyError) or "READONLY" in str(error)


def is_refusal(error: StorageError) -> bool:
    """Whether the server has answered, with a no."""
    return isinstance(error.__cause__, exceptions.ResponseError)


_WRONG = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
)
_LATER = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.ClusterError,
    exceptions.RedisClusterException,
    exceptions.TryAgainError,
    OSError,
)
_BUSY = (
    "LOADING",
    "MASTERDOWN",
    "BUSY ",
    "NOREPLICAS",
    "UNBLOCKED",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "READONLY",
)
_MOVING = ("rehashing of slot", "TTL exhausted", "non local key")
"""What servers and driver say of a slot of which a part is on another server by now."""
_FULL = ("OOM command not allowed", "MISCONF")
"""Redis 6.2 has these words in the middle, where a script met them."""
_NO_SUCH_TEXT = "DB index"
_DENIED = (
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "invalid username-password",
    "without any password",
    "ACL failure in script",
    "The user executing the script",
    _NO_SUCH_TEXT,
)
_STARTING = "The server may be starting; try again."
_ADVICE: tuple[tuple[str, str], ...] = (
    ("READONLY", "It is a replica: use the address of its primary."),
    ("read only replica", "It is a replica: use the address of its primary."),
    ("NOREPLICAS", "It takes no writes while fewer replicas follow it than min-replicas-to-write."),
    ("BUSY ", "A script keeps it busy; try again."),
)
"""What else it may be, by what the server says; the driver leaves out some of the first words."""
_ON_ITS_WAY = "A slot of the Cluster is on its way; try again."
_CHECK = "Check the address, the user and its rights."
_NO_SUCH = "The address ends with the number of a database that is not there. A Cluster has 0 only."


@contextmanager
def translated(label: str, *, opened: bool) -> Iterator[None]:
    """Raise what the server and its driver raise as our own errors."""
    try:
        yield
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        raise translation(error, label, opened=opened) from error


def translation(error: Exception, label: str, *, opened: bool) -> LastgoodError:
    """Our own error for one of theirs."""
    text = str(error).strip().split("\n", maxsplit=1)[0].removesuffix(".") + "."
    said = f"{label}: {text}"
    if isinstance(error, _WRONG) or any(word in text for word in _DENIED):
        return BackendConnectionError(said, hint=_NO_SUCH if _NO_SUCH_TEXT in text else _CHECK)
    if isinstance(error, exceptions.OutOfMemoryError) or any(word in text for word in _FULL):
        cause = "Look at the disk of the server. " if "MISCONF" in text else ""
        return StorageFullError(said, hint=f"{cause}Nothing of this save was kept.")
    if "WRONGTYPE" in text:
        hint = "Find out what it was, and give Lastgood a prefix of its own."
        return CheckpointIntegrityError(f"{said} Something else wrote to this key.", hint=hint)
    moving = any(word in text for word in _MOVING)
    if moving or isinstance(error, _LATER) or any(word in text for word in _BUSY):
        if not opened:
            return BackendConnectionError(said, hint="Check the address, and that a server runs.")
        passing = TransientStorageError(said, hint=_ON_ITS_WAY if moving else _advice(text))
        passing.refused = isinstance(error, exceptions.ResponseError) or _is_before_the_door(text)
        return passing
    return StorageError(said)


def _is_before_the_door(text: str) -> bool:
    """Whether the driver had no connection; it tells that in words only."""
    return " connecting to " in text or text.startswith(("No connection", "Too many connections"))


def _advice(text: str) -> str:
    return next((hint for word, hint in _ADVICE if word in text), _STARTING)
