"""A hundred writers over one pool, for a while: how much they saved, what failed, what it took."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

from forked import drive
from stores import Stores

from lastgood import BlockingClient, Client
from lastgood.testing.faults.store import whole_log

WRITERS = 100
CACHE = 4 << 20
PAGE = 4096


def resident() -> int:
    """Bytes of memory that this process takes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Load:
    """The writers' common record."""

    def __init__(self, seconds: float) -> None:
        self.began = time.monotonic()
        self.seconds = seconds
        self.saved = [0] * WRITERS
        self.errors: list[str] = []
        self.memory: list[int] = []

    @property
    def over(self) -> bool:
        return time.monotonic() > self.began + self.seconds

    def state(self, number: int) -> dict[str, Any]:
        return {"n": number, "recent": [f"{number - n} " * 40 for n in range(40)]}

    def measure(self) -> None:
        """From another thread: memory, ten times, from a third of the time on."""
        time.sleep(self.seconds / 3)
        for _ in range(10):
            self.memory.append(resident())
            time.sleep(self.seconds * 2 / 3 / 10)


async def write(client: Client, load: Load, writer: int) -> None:
    try:
        async with client.run(f"thread {writer}", initial=load.state(0)) as run:
            while not load.over:
                await run.save(load.state(load.saved[writer] + 1))
                load.saved[writer] += 1
    except BaseException as error:
        load.errors.append(f"{type(error).__name__}: {error}")


def write_blocking(client: BlockingClient, load: Load, writer: int) -> None:
    try:
        with client.run(f"thread {writer}", initial=load.state(0)) as run:
            while not load.over:
                run.save(load.state(load.saved[writer] + 1))
                load.saved[writer] += 1
    except BaseException as error:
        load.errors.append(f"{type(error).__name__}: {error}")


async def all_async(url: str, load: Load) -> None:
    async with Client.open(url, cache_bytes=CACHE) as client:
        await asyncio.gather(*(write(client, load, writer) for writer in range(WRITERS)))


def all_blocking(url: str, load: Load) -> None:
    with BlockingClient.open(url, cache_bytes=CACHE) as client:
        threads = [
            threading.Thread(target=write_blocking, args=(client, load, writer))
            for writer in range(WRITERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def run(base: str, seconds: float, colour: str) -> dict[str, Any]:
    with Stores(base) as stores:
        url = stores.new("load")
        load = Load(seconds)
        measuring = threading.Thread(target=load.measure)
        measuring.start()
        if colour == "async":
            asyncio.run(all_async(url, load))
        else:
            all_blocking(url, load)
        measuring.join()
        with BlockingClient.open(url) as reader:
            kept = [len(whole_log(reader, f"thread {writer}")) - 1 for writer in range(WRITERS)]
    return {
        "saved": load.saved,
        "kept": kept,
        "errors": load.errors[:5],
        "memory": load.memory,
    }


if __name__ == "__main__":
    drive(run)
