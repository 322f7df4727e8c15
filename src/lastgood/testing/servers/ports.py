"""Free ports on the loopback interface, below those that the system gives to clients.

A port is only free until somebody takes it: the range keeps other test runs and outgoing
connections away, it does not reserve anything.
"""

from __future__ import annotations

import random
import socket

LOWEST, HIGHEST = 16_000, 22_000
BUS = 10_000
"""A node of a Cluster talks to the others on its port plus this."""


def free_port() -> int:
    """A port that is free, and so is the one of the Cluster's bus that belongs to it."""
    choice = random.SystemRandom()
    while True:
        port = choice.randrange(LOWEST, HIGHEST)
        if _free(port) and _free(port + BUS):
            return port


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
