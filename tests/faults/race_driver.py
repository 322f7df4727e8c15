"""Eight processes save on the same head at the same moment, round after round."""

import os
from pathlib import Path
from typing import Any

from forked import Child, Tell, drive, fork

from lastgood import BlockingClient, StaleWriterError

WRITERS = 8


def serve(path: str, writer: int, orders: int, policy: str, tell: Tell) -> None:
    """Wait for a head to follow, try to save on it, tell the outcome; until the orders end."""
    client = BlockingClient.sqlite(path)
    with os.fdopen(orders, encoding="utf-8") as lines:
        for line in lines:
            head = line.strip()
            state = {"parent": head, "writer": writer}
            try:
                place = {"session_id": "t", "parent_id": head, "on_conflict": policy}
                id = client.save("solo", execution_state=state, **place)
                tell(f"WON {writer} {id}")
            except StaleWriterError as error:
                tell(f"STALE {writer} {error.expected} {error.head}")


def start(path: str, writer: int, policy: str) -> tuple[Child, int]:
    reading, writing = os.pipe()

    def work(tell: Tell) -> None:
        os.close(writing)
        serve(path, writer, reading, policy, tell)

    child = fork(work)
    os.close(reading)
    return child, writing


def race(directory: str, rounds: int, policy: str) -> dict[str, Any]:
    """The outcomes of every round, and what the store holds in the end."""
    path = str(Path(directory) / "store.db")
    client = BlockingClient.sqlite(path)
    head = client.save("solo", session_id="t", execution_state={"parent": None})
    client.close()
    children = []
    for writer in range(WRITERS):
        child, orders = start(path, writer, policy)
        children.append((child, orders))
    outcomes = []
    for _ in range(rounds):
        for _, orders in children:
            os.write(orders, f"{head}\n".encode())
        told = [child.pipe.readline().split() for child, _ in children]
        outcomes.append([head, told])
        head = next((words[2] for words in told if words and words[0] == "WON"), head)
        if policy == "branch":
            head = _head(path)
    for _, orders in children:
        os.close(orders)
    for child, _ in children[::-1]:
        child.kill()
    return {"outcomes": outcomes, "log": _log(path)}


def _head(path: str) -> str:
    client = BlockingClient.sqlite(path)
    found = client.latest(agent_id="solo", session_id="t")
    client.close()
    assert found is not None
    return found.checkpoint_id


def _log(path: str) -> list[Any]:
    client = BlockingClient.sqlite(path)
    log = client.log("t", limit=100_000)
    found = [
        [h.checkpoint_id, h.parent_id, h.branch, client.restore(h.checkpoint_id).state["parent"]]
        for h in log
    ]
    client.close()
    return found


if __name__ == "__main__":
    drive(race)
