"""One question to a Redis server, without a driver: enough to set servers up and see them ready."""

from __future__ import annotations

import socket
from io import BufferedRWPair
from pathlib import Path

TIMEOUT = 5.0

Address = Path | tuple[str, int]
Reply = bytes | int | None | list["Reply"]


class ReplyError(Exception):
    """The server answered with an error."""


def ask(address: Address, *words: str, password: str | None = None) -> Reply:
    """The server's reply to a command, on a connection of its own. Raises OSError, ReplyError."""
    family = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(TIMEOUT)
        connection.connect(str(address) if isinstance(address, Path) else address)
        with connection.makefile("rwb") as stream:
            if password is not None:
                _exchange(stream, ("AUTH", password))
            return _exchange(stream, words)


def _exchange(stream: BufferedRWPair, words: tuple[str, ...]) -> Reply:
    encoded = [word.encode() for word in words]
    stream.write(b"*%d\r\n" % len(encoded))
    stream.writelines(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)
    stream.flush()
    return _reply(stream)


def _reply(stream: BufferedRWPair) -> Reply:
    line = stream.readline()
    if not line:
        raise ConnectionResetError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"-":
        raise ReplyError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [_reply(stream) for _ in range(int(rest))]
    return rest
