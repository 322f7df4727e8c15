"""Kills writers at random moments, again and again, and checks what they left behind.

Each writer tells INTENT before a save and ACK after it. After a kill everything that was
acknowledged is there and whole, and beyond it at most the one save that each writer had in hand.
"""

import itertools
import random
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from forked import Child, Tell, drive, fork
from stores import Stores

from lastgood import BlockingClient, Header, ThreadInfo
from lastgood.testing.faults.store import fingerprint, view, whole_log

ROTATE = 8
"""A new store after so many kills, so that the last check does not cost more than the first."""
IMAGE = bytes(range(256)) * 400
NEAR = 3
"""So many states before each kill are read at once; all of them when the store is done with."""


def write_forever(url: str, writer: str, first: int, tell: Tell) -> None:
    """Save in every way there is until the end comes."""
    client = BlockingClient.open(url)
    with client.run(f"own-{writer}", initial={"items": [], "n": -1}) as run:
        for number in itertools.count(first):
            name = f"{writer}:{number}"
            item = {"number": number, "text": f"{name} " * 30}
            tell(f"INTENT {name}")
            if number % 4 == 0:
                run.state["n"] = number
                run.state["items"].append(item)
                id, state = run.save(step_name=name), run.state
            elif number % 4 == 1:
                id, state = run.append("items", item, step_name=name), run.state
            else:
                state = {"items": [item] * (number % 40), "by": name}
                if number % 8 == 3:
                    state["image"] = IMAGE
                thread, agent = (run.session_id, "side") if number % 4 == 2 else ("shared", "all")
                id = client.save(agent, session_id=thread, execution_state=state, step_name=name)
            tell(f"ACK {name} {id} {fingerprint(state)}")
            if number % 64 == 16:
                pass_by(client, writer)


def pass_by(client: BlockingClient, writer: str) -> None:
    """Save something that goes again, with pages that others find by their digest meanwhile."""
    state = {"image": IMAGE}
    brief = client.save(f"brief-{writer}", session_id="shared", execution_state=state)
    client.expire(brief)
    client.sweep("shared", grace_seconds=0)


@dataclass
class Hunt:
    """One store, its writers, and what they said."""

    url: str
    writers: list[str]
    rng: random.Random
    kills: int = 0
    acked: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Step names to (checkpoint id, fingerprint of the state)."""
    unsure: set[str] = field(default_factory=set)
    """Saves that were there though nobody had heard of it."""
    intents: set[str] = field(default_factory=set)
    """What writers had in hand when they were killed: a server may carry it out a moment later."""
    problems: list[str] = field(default_factory=list)

    def round(self) -> None:
        """Let them write, kill them all, look."""
        self.kills += 1
        first = self.kills * 100_000
        children = [
            fork(lambda tell, w=writer: write_forever(self.url, w, first, tell))
            for writer in self.writers
        ]
        first_heard = self.rng.choice(children)
        told = self._until_first_ack(first_heard)
        time.sleep(self.rng.random() * 0.03)
        for child in children:
            child.kill()
        self._look([(told if c is first_heard else []) + c.rest() for c in children])

    def _until_first_ack(self, child: Child) -> list[str]:
        told: list[str] = []
        while not told or not told[-1].startswith("ACK"):
            line = child.pipe.readline()
            if not line:
                self.problems.append(f"kill {self.kills}: a writer could not begin: {told}")
                return told
            told.append(line.rstrip("\n"))
        return told

    def _look(self, told: list[list[str]]) -> None:
        newest: dict[str, tuple[str, str]] = {}
        for lines in told:
            words = [line.split() for line in lines]
            acked = {w[1]: (w[2], w[3]) for w in words if w[0] == "ACK"}
            self.acked |= acked
            newest |= list(acked.items())[-NEAR:]
            self.intents |= {w[1] for w in words[-1:] if w[0] == "INTENT"}
            self.problems += [f"kill {self.kills}: {x}" for x in lines if x.startswith("ERROR")]
        client = BlockingClient.open(self.url)
        present = self._present(client)
        surplus = present - self.acked.keys() - self.unsure
        if nobodys := surplus - self.intents:
            self.problems.append(f"kill {self.kills}: {nobodys} appeared from nowhere")
        self.unsure |= surplus
        self.problems += [f"kill {self.kills}: {wrong}" for wrong in self._wrongs(client, newest)]
        client.close()

    def _present(self, client: BlockingClient) -> set[str]:
        """The names of all saves that are there; checks each thread's order and count."""
        present: set[str] = set()
        for info, log in _at_rest(client):
            ids = {header.checkpoint_id for header in log}
            if len(log) != info.checkpoints:
                self.problems.append(f"{info.thread_id}: {len(log)} of {info.checkpoints} listed")
            if any(header.parent_id and header.parent_id not in ids for header in log):
                self.problems.append(f"{info.thread_id}: a parent is missing")
            for agent in info.agents:
                head = client.latest(agent_id=agent, session_id=info.thread_id)
                newest = next((h.checkpoint_id for h in log if h.agent_id == agent), None)
                if (head and head.checkpoint_id) != newest:
                    self.problems.append(f"{info.thread_id}/{agent}: the head is not the newest")
            present |= {header.step_name for header in log if header.step_name}
        if missing := self.acked.keys() - present:
            self.problems.append(f"kill {self.kills}: lost {sorted(missing)[:5]}")
        return present

    def _wrongs(self, client: BlockingClient, acked: dict[str, tuple[str, str]]) -> list[str]:
        return [
            f"{name} is not what was saved"
            for name, (id, print_) in acked.items()
            if fingerprint(client.restore(id).state) != print_
        ]

    def finish(self) -> None:
        """Look at everything once more, and save without any repair."""
        client = BlockingClient.open(self.url)
        threads = view(client).values()
        states = {id: seen for thread in threads for id, seen in thread.states.items()}
        self.problems += [
            f"{name} is not what was saved, in the end"
            for name, (id, print_) in self.acked.items()
            if states.get(id) != print_
        ]
        client.save("after", session_id="shared", execution_state={"works": True})
        if not (report := client.verify(data=True)).clean:
            self.problems.append(f"verify: {report}")
        client.close()
        if self.url.startswith("sqlite:"):
            self.problems += _file_problems(self.url.removeprefix("sqlite:///"))


def _at_rest(client: BlockingClient) -> list[tuple[ThreadInfo, list[Header]]]:
    """All threads with their logs, when nothing was carried out any more while they were read."""
    while True:
        before = list(client.threads())
        logs = [whole_log(client, info.thread_id) for info in before]
        if before == list(client.threads()):
            return list(zip(before, logs, strict=True))


def _file_problems(path: str) -> list[str]:
    connection = sqlite3.connect(path)
    verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    return [] if verdict == "ok" else [f"integrity_check: {verdict}"]


def hunt(base: str, writers: int, kills: int, seed: str) -> dict[str, Any]:
    """Kill so many times; report what was seen. Of what is done with, only the counts are kept:
    a writer is a fork of this process, and should begin at once.
    """
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    problems: list[str] = []
    with Stores(base) as stores:
        for number in range(0, kills, ROTATE):
            one = Hunt(stores.new(f"hunt-{number}"), [f"w{n}" for n in range(writers)], rng)
            for _ in range(min(ROTATE, kills - number)):
                one.round()
            one.finish()
            seen.update(kills=one.kills, acks=len(one.acked), unsure=len(one.unsure))
            problems += one.problems
    return {**seen, "problems": problems[:20]}


if __name__ == "__main__":
    drive(hunt)
