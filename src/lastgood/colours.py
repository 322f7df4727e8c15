"""Entering with the wrong colour: `with` where `async with` belongs, and the other way round.

Python itself says no more than that a protocol is missing. Type checkers see nothing of this, so
that they go on to find the slip before it happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn


def _needs_async(entered: object, *_: object) -> NoReturn:
    raise TypeError(
        f"a {type(entered).__name__} is entered with `async with`. "
        "In code without async use a BlockingClient, or client.blocking.run(...)."
    )


def _needs_blocking(entered: object, *_: object) -> NoReturn:
    raise TypeError(
        f"a {type(entered).__name__} is entered with `with`. "
        "In async code use a Client, or client.aio: `async with Client.sqlite(path) as client`."
    )


class AsyncOnly:
    """What is entered with `async with` alone."""

    if not TYPE_CHECKING:
        __enter__ = __exit__ = _needs_async


class BlockingOnly:
    """What is entered with `with` alone."""

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = _needs_blocking
