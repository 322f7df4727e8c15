"""Keeping what stands in an event loop.

A loop knows its tasks and generators by weak references alone. What is to be closed by one of them
must not be gone together with it, when nobody else has either any more.
"""

from __future__ import annotations

import asyncio

_YEAR = 365 * 24 * 3600.0


def held(*what: object) -> asyncio.TimerHandle:
    """Keep something for as long as the running loop, or until the timer is cancelled."""
    return asyncio.get_running_loop().call_later(_YEAR, _nothing, *what)


def _nothing(*_: object) -> None:
    """What a timer would call is there for as long as the timer."""
