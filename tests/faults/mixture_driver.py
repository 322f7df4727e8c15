"""Writers of two logs, and beside them whoever reads, moves, hands over and tidies up, all at once,
while one process after the other is killed.

Each item of a log says who appended it and in which order. Whatever went on: what was acknowledged
stands in the log once and in order, and what was refused does not. What a writer had in hand when
it was killed may be there. Beside the logs there is a thread in which everything is allowed,
deleting it too.
"""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from forked import Child, Tell, drive, fork
from stores import Stores

from lastgood import (
    BlockingClient,
    BlockingRun,
    CheckpointExpiredError,
    CheckpointNotFoundError,
    StaleWriterError,
    ThreadDeletedError,
)

LOGS = ("log-0", "log-1")
AGENT = "writer"
GONE = (CheckpointNotFoundError, CheckpointExpiredError, ThreadDeletedError, StaleWriterError)
"""What may happen to somebody where others move, expire and delete."""
Work = Callable[[BlockingClient, random.Random, Tell], None]


def write(url: str, name: str, tell: Tell) -> None:
    """Enter a log, append to it in both ways, leave it; again and again."""
    client, rng, numbers = BlockingClient.open(url), random.Random(name), itertools.count()
    while True:
        thread = rng.choice(LOGS)
        initial = {"items": [], "page": ""}
        with (
            suppress(StaleWriterError),
            client.run(thread, agent_id=AGENT, initial=initial) as run,
        ):
            for _ in range(rng.randrange(1, 5)):
                item = f"{name}:{next(numbers)}"
                tell(f"INTENT {thread} {item}")
                try:
                    id = append(run, rng, item)
                except StaleWriterError:
                    tell(f"REFUSED {thread} {item}")
                    raise
                tell(f"ACK {thread} {item} {id}")


def append(run: BlockingRun[Any], rng: random.Random, item: str) -> str:
    if rng.random() < 0.5:
        return run.append("items", item)
    run.state["items"].append(item)
    run.state["page"] = "x" * rng.choice((0, 300, 20_000))
    return run.save()


def look(client: BlockingClient, rng: random.Random, tell: Tell) -> None:
    """What changes no log: looking, forking, handing over, copying, tidying up."""
    thread = rng.choice(LOGS)
    head, older = f"{thread}/{AGENT}@", f"{thread}/{AGENT}@~{rng.randrange(4)}"
    done = rng.randrange(8)
    if done == 0:
        client.fork(older, edits={"page": "fork"})
    elif done == 1:
        client.tag(older, f"tag-{rng.randrange(3)}")
    elif done == 2:
        client.handoff(head, "reader", ttl_seconds=rng.choice((None, 0.05)))
    elif done == 3:
        client.sweep(rng.choice((None, thread)), grace_seconds=0)
    elif done == 4:
        client.diff(older, head)
    elif done == 5:
        check(client.restore(older).state["items"], f"{older} of a store", tell)
    elif done == 6:
        check_report(client, thread, tell)
    else:
        with BlockingClient.memory() as copy:
            client.copy_to(copy, session_ids=thread)
            check_report(copy, None, tell)


def check(items: list[str], where: str, tell: Tell) -> None:
    if len(set(items)) != len(items):
        tell(f"PROBLEM {where} has an item twice")


def check_report(client: BlockingClient, thread: str | None, tell: Tell) -> None:
    report = client.verify(thread)
    if not report.clean:
        tell(f"PROBLEM {thread}: {report}".replace("\n", " "))


def disturb(client: BlockingClient, rng: random.Random, tell: Tell) -> None:
    """Everything that there is, in a thread where all of it is allowed."""
    agent = rng.choice("ab")
    ref = f"rough/{agent}@~{rng.randrange(3)}"
    done = rng.randrange(9)
    if done < 3:
        state = {"text": "y" * rng.randrange(9000), "n": rng.random()}
        ttl = rng.choice((None, 0.05))
        client.save(agent, session_id="rough", execution_state=state, ttl_seconds=ttl)
    elif done == 3:
        client.expire(ref)
    elif done == 4:
        client.rewind("rough", client.resolve(ref).checkpoint_id, agent_id=agent)
    elif done == 5:
        client.undo("rough", agent_id=agent)
    elif done == 6:
        client.fork(ref, switch=True)
    elif done == 7 and rng.random() < 0.2:
        client.delete("rough")
    else:
        check_report(client, "rough", tell)


def beside(work: Work) -> Callable[[str, str, Tell], None]:
    """Somebody who does such work for ever."""

    def go_on(url: str, name: str, tell: Tell) -> None:
        client, rng = BlockingClient.open(url), random.Random(name)
        while True:
            with suppress(*GONE):
                work(client, rng, tell)

    return go_on


ROLES = (write, write, beside(look), beside(disturb))


@dataclass
class Told:
    """What the processes said of one log."""

    acked: dict[str, str] = field(default_factory=dict)
    """Items to the ids of their checkpoints."""
    intents: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)


@dataclass
class Mixture:
    """One store, and those who are at work in it."""

    url: str
    rng: random.Random
    told: dict[str, Told] = field(default_factory=lambda: {thread: Told() for thread in LOGS})
    problems: list[str] = field(default_factory=list)
    lives: int = 0

    def born(self, role: int) -> Child:
        self.lives += 1
        name = f"{role}-{self.lives}"
        return fork(lambda tell: ROLES[role](self.url, name, tell))

    def run(self, kills: int) -> None:
        """Let all of them work, kill one after the other, let another one take its place."""
        begin = max(self._beginning() for _ in range(2))
        children = [self.born(role) for role in range(len(ROLES))]
        for _ in range(kills):
            time.sleep(0.05 + begin + self.rng.random() * 0.15)
            role = self.rng.randrange(len(ROLES))
            self._end(children[role])
            children[role] = self.born(role)
        for child in children:
            self._end(child)

    def _beginning(self) -> float:
        """How long it takes here and now until somebody has saved for the first time."""
        begun = time.monotonic()
        with BlockingClient.open(self.url) as client:
            client.save("pace", session_id="pace", execution_state={})
        return min(time.monotonic() - begun, 1)

    def _end(self, child: Child) -> None:
        child.kill()
        for line in child.rest():
            kind, *words = line.split()
            if kind == "INTENT":
                self.told[words[0]].intents.add(words[1])
            elif kind == "REFUSED":
                self.told[words[0]].refused.add(words[1])
            elif kind == "ACK":
                self.told[words[0]].acked[words[1]] = words[2]
            else:
                self.problems.append(line)

    def finish(self) -> None:
        """Look at what they left."""
        with BlockingClient.open(self.url) as client:
            report = client.verify(data=True)
            if not report.clean:
                self.problems.append(f"verify: {report}")
            for thread, told in self.told.items():
                self.problems += [f"{thread}: {wrong}" for wrong in _wrongs(client, thread, told)]


def _wrongs(client: BlockingClient, thread: str, told: Told) -> list[str]:
    latest = client.latest(session_id=thread, agent_id=AGENT)
    items: list[str] = latest.state["items"] if latest else []
    there = set(items)
    wrong = {
        "lost": told.acked.keys() - there,
        "refused, and there": told.refused & there,
        "from nowhere": there - told.intents,
        "twice": {item for item, count in Counter(items).items() if count > 1},
        "out of order": _out_of_order(items),
        "not in its own checkpoint": {
            item
            for item, id in list(told.acked.items())[-20:]
            if item not in client.restore(id).state["items"]
        },
    }
    return [f"{what}: {sorted(found)[:5]}" for what, found in wrong.items() if found]


def _out_of_order(items: list[str]) -> set[str]:
    """Items that stand before an earlier one of the same writer."""
    newest: dict[str, int] = {}
    found = set()
    for item in items:
        name, _, number = item.partition(":")
        if newest.get(name, -1) > int(number):
            found.add(item)
        newest[name] = int(number)
    return found


def mix(base: str, kills: int, seed: str) -> dict[str, Any]:
    """Kill so many times; report what was seen."""
    with Stores(base) as stores:
        one = Mixture(stores.new("mixture"), random.Random(seed))
        one.run(kills)
        one.finish()
    return {
        "acks": sum(len(told.acked) for told in one.told.values()),
        "refused": sum(len(told.refused) for told in one.told.values()),
        "problems": one.problems[:20],
    }


if __name__ == "__main__":
    drive(mix)
