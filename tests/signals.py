"""What tests of signals share."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def handling(number: int, handler: Callable[..., object]) -> Iterator[None]:
    """A handler for a signal, for as long as the block runs."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
