"""Eight processes save on the same head at the same moment, round after round."""

import os
from typing import Any

from forked import Child, Tell, drive, fork
from stores import Stores

from lastgood import BlockingClient, StaleWriterError

WRITERS = 8


def serve(url: str, writer: int, orders: int, policy: str, tell: Tell) -> None:
    """Wait for a head to follow, try to save on it, tell the outcome; until the orders end."""
    client = BlockingClient.open(url)
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


def start(url: str, writer: int, policy: str) -> tuple[Child, int]:
    reading, writing = os.pipe()

    def work(tell: Tell) -> None:
        os.close(writing)
        serve(url, writer, reading, policy, tell)

    child = fork(work)
    os.close(reading)
    return child, writing


def race(base: str, rounds: int, policy: str) -> dict[str, Any]:
    """The outcomes of every round, and what the store holds in the end."""
    with Stores(base) as stores:
        return _raced(stores.new("store"), rounds, policy)


def _raced(url: str, rounds: int, policy: str) -> dict[str, Any]:
    client = BlockingClient.open(url)
    head = client.save("solo", session_id="t", execution_state={"parent": None})
    client.close()
    children = []
    for writer in range(WRITERS):
        child, orders = start(url, writer, policy)
        children.append((child, orders))
    outcomes = []
    for _ in range(rounds):
        for _, orders in children:
            os.write(orders, f"{head}\n".encode())
        told = [child.pipe.readline().split() for child, _ in children]
        outcomes.append([head, told])
        head = next((words[2] for words in told if words and words[0] == "WON"), head)
        if policy == "branch":
            head = _head(url)
    for _, orders in children:
        os.close(orders)
    for child, _ in children[::-1]:
        child.kill()
    return {"outcomes": outcomes, "log": _log(url)}


def _head(url: str) -> str:
    client = BlockingClient.open(url)
    found = client.latest(agent_id="solo", session_id="t")
    client.close()
    assert found is not None
    return found.checkpoint_id


def _log(url: str) -> list[Any]:
    client = BlockingClient.open(url)
    log = client.log("t", limit=100_000)
    found = [
        [h.checkpoint_id, h.parent_id, h.branch, client.restore(h.checkpoint_id).state["parent"]]
        for h in log
    ]
    client.close()
    return found


if __name__ == "__main__":
    drive(race)
