"""Who owes an answer on a connection, told from the bytes of PostgreSQL's or Redis's protocol.

Invariant: `settled` is true when every request has arrived whole and has its whole reply. What a
client sends then is a new round trip; what it sends before is pipelined, whatever the server has
said meanwhile. Encrypted connections cannot be read.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod


class Exchange(ABC):
    """The requests and replies of one connection."""

    def __init__(self) -> None:
        self._asking = bytearray()
        self._answering = bytearray()
        self.owed = 0
        """How many replies are still to come."""
        self.going_on = False
        """Whether the client has begun what it has yet to close, such as a transaction."""

    @property
    def settled(self) -> bool:
        """Whether nobody is in the middle of anything."""
        return not (self.owed or self.going_on or self._asking or self._answering)

    def asked(self, data: bytes) -> None:
        """The client sent this."""
        self._asking += data
        while (end := self.request_end(self._asking)) is not None:
            self.request(bytes(self._asking[:end]))
            del self._asking[:end]

    def answered(self, data: bytes) -> None:
        """The server sent this."""
        self._answering += data
        while (end := self.reply_end(self._answering)) is not None:
            self.reply(bytes(self._answering[:end]))
            del self._answering[:end]

    @abstractmethod
    def request_end(self, data: bytearray) -> int | None:
        """How long the first piece of a request is; None if it has not arrived whole."""

    @abstractmethod
    def reply_end(self, data: bytearray) -> int | None:
        """How long the first piece of a reply is; None if it has not arrived whole."""

    @abstractmethod
    def request(self, message: bytes) -> None:
        """Take note of a piece of a request."""

    @abstractmethod
    def reply(self, message: bytes) -> None:
        """Take note of a piece of a reply."""


class PostgresExchange(Exchange):
    """Messages of PostgreSQL: a letter, a length, a body; the first ones have no letter."""

    PLEAS = (80877103, 80877104)
    """Requests for encryption, which come before the first real message; one byte answers."""

    def __init__(self) -> None:
        super().__init__()
        self._started = False
        self._pleading = False
        self._copying = False
        self._flushing = False

    def request_end(self, data: bytearray) -> int | None:
        return _message_end(data, letters=1 if self._started else 0)

    def reply_end(self, data: bytearray) -> int | None:
        if self._pleading:
            return 1 if data else None
        return _message_end(data, letters=1)

    def request(self, message: bytes) -> None:
        letter = message[:1]
        if not self._started:
            self._pleading = struct.unpack_from("!i", message, 4)[0] in self.PLEAS
            self._started = not self._pleading
            self.owed += 1
        elif letter in (b"Q", b"S", b"F", b"p"):
            self.owed += 1
            self.going_on = self._flushing = False
        elif letter in (b"P", b"B", b"D", b"E", b"C"):  # answered after a Sync or a Flush
            self.going_on = True
            self._flushing = False
        elif letter == b"H":  # after a Sync it has nothing to flush, and is not answered
            self._flushing = self.going_on
        elif letter in (b"d", b"c", b"f"):
            self.owed = max(self.owed, 1)

    def reply(self, message: bytes) -> None:
        letter = message[:1]
        if self._flushing:
            self.going_on = self._flushing = False
        if self._pleading:
            self._pleading = False
            self.owed -= 1
        elif letter == b"Z":
            # A Sync that arrives while rows are copied in gets no answer of its own.
            self.owed = 0 if self._copying else self.owed - 1
            self._copying = False
        elif letter == b"G":
            self.owed = 0
            self._copying = True
        elif letter == b"R" and struct.unpack_from("!i", message, 5)[0] not in (0, 12):
            self.owed -= 1  # it wants a password, or the next step of one


def _message_end(data: bytearray, *, letters: int) -> int | None:
    if len(data) < letters + 4:
        return None
    end = letters + int(struct.unpack_from("!i", data, letters)[0])
    return end if end <= len(data) else None


class RedisExchange(Exchange):
    """Commands and replies of Redis: values that say how long they are, one inside the other."""

    def request_end(self, data: bytearray) -> int | None:
        return _value_end(data, 0)

    def reply_end(self, data: bytearray) -> int | None:
        return _value_end(data, 0)

    def request(self, message: bytes) -> None:
        self.owed += 1
        command = message.split(b"\r\n", 3)[2:3]
        if command == [b"MULTI"]:
            self.going_on = True
        elif command in ([b"EXEC"], [b"DISCARD"]):
            self.going_on = False

    def reply(self, message: bytes) -> None:
        if message[:1] not in (b">", b"|"):  # told without being asked, or about what follows
            self.owed = max(self.owed - 1, 0)


PARTS = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}
"""How many values follow for each that a value counts."""


def _value_end(data: bytearray, start: int) -> int | None:
    """Where the value ends that begins at `start`; None if it has not arrived whole."""
    line = data.find(b"\r\n", start)
    if line < 0:
        return None
    kind, end = bytes(data[start : start + 1]), line + 2
    if kind in (b"$", b"=", b"!"):
        size = int(data[start + 1 : line])
        end += size + 2 if size >= 0 else 0
        return end if end <= len(data) else None
    for _ in range(PARTS[kind] * int(data[start + 1 : line]) if kind in PARTS else 0):
        following = _value_end(data, end)
        if following is None:
            return None
        end = following
    return end


EXCHANGES: dict[str, type[Exchange]] = {
    **dict.fromkeys(("postgresql", "postgres"), PostgresExchange),
    **dict.fromkeys(("redis", "unix"), RedisExchange),
}
"""By the scheme of an address."""
