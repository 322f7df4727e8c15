"""Kills a copy at random moments, again and again, until it comes to its end.

After each kill the target shows whole threads only, and in the end it is equal to the source: no
checkpoint is missing, none is there twice.
"""

import random
import time
from typing import Any

from forked import Tell, drive, fork

from lastgood import BlockingClient, thread_reading
from lastgood.testing.faults.store import view, whole_log

PAGE = 16
"""Small pieces: many places to be killed at."""


def fill(source: str, threads: int, steps: int) -> None:
    """Threads with branches and tags, of several pieces each."""
    client = BlockingClient.open(source)
    for number in range(threads):
        name = f"thread-{number}"
        with client.run(name, initial={"items": [], "n": -1}) as run:
            for step in range(steps):
                run.append("items", f"{number} {step} " * 30)
        client.fork(f"{name}@{steps // 2}", branch="side", edits={"n": 1})
        client.tag(f"{name}@3", "third")
    client.close()


def copy(source: str, target: str, tell: Tell) -> None:
    """One attempt; tells after every piece."""
    thread_reading.PAGE = PAGE
    tell("BEGIN")
    report = BlockingClient.open(source).copy_to(
        BlockingClient.open(target), progress=lambda done, total: tell(f"{done} {total}")
    )
    tell(f"END {report.threads} {report.same} {len(report.problems)}")


def kill_some(
    source: str, target: str, kills: int, threads: int, steps: int, seed: str
) -> dict[str, Any]:
    """Kill so many attempts, then let one come to its end."""
    fill(source, threads, steps)
    rng, problems, middle = random.Random(seed), [], 0
    for number in range(kills):
        child = fork(lambda tell: copy(source, target, tell))
        for _ in range(rng.randint(1, 6)):
            child.pipe.readline()
        time.sleep(rng.random() * 0.004)
        child.kill()
        rest = child.rest()
        middle += not any(line.startswith("END") for line in rest)
        problems += [f"kill {number}: {line}" for line in rest if line.startswith("ERROR")]
        problems += [f"kill {number}: {wrong}" for wrong in half_seen(target, steps + 2)]
    last = fork(lambda tell: copy(source, target, tell))
    last.wait()
    end = last.rest()[-1]
    client, other = BlockingClient.open(source), BlockingClient.open(target)
    return {
        "middle": middle,
        "end": end,
        "problems": problems,
        "equal": view(client) == view(other),
        "clean": other.verify(data=True).clean,
    }


def half_seen(target: str, expected: int) -> list[str]:
    """Threads that show another number of checkpoints than they have."""
    client = BlockingClient.open(target)
    counts = {info.thread_id: len(whole_log(client, info.thread_id)) for info in client.threads()}
    client.close()
    return [f"{name} shows {count}" for name, count in counts.items() if count != expected]


if __name__ == "__main__":
    drive(kill_some)
