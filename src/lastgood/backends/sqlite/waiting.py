"""Taking the write lock of a file, and waiting for whoever has it.

SQLite's own waiting sleeps longer after each attempt, up to a tenth of a second, while those who
came later take the lock hundreds of times: who has waited long waits longest. Here nobody sleeps
for longer than a few commits of another process take. Nor much shorter: where processes take turns
commit by commit, each finds its memory out of date, and all are slower. And since it is Python
that sleeps, a Ctrl-C is heard.
"""

from __future__ import annotations

import random
import sqlite3
import time
from typing import Any

PATIENCE = 30.0
"""Seconds that an operation waits for another process's lock."""
AT_FIRST, AGAIN = 0.001, 0.005
"""Seconds before the second attempt, and between all others, give or take a half."""
_CHANCE = random.SystemRandom()  # a program that seeds `random` has its numbers for itself


def begin(connection: Any) -> None:
    """Begin a transaction that writes; raises SQLite's error if the lock cannot be had in time."""
    pause, until = AT_FIRST, time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > until:
                raise
        else:
            return
        time.sleep(pause * _CHANCE.uniform(0.5, 1.5))
        pause = AGAIN
