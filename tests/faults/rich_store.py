"""A small store with one of everything, and the questions that can be asked of it."""

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from lastgood import BlockingClient, CheckpointNotFoundError, Header
from lastgood.backends.files.backend import FilesBackend
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.testing.faults.store import all_threads, fingerprint, whole_log

HOUR = 3600 * 10**9
NOON = 1_800_000_000 * 10**9
AGENTS = {"chat": ("agent", "nobody"), "team": ("planner", "coder", "critic")}
Question = tuple[str, Callable[[BlockingClient], Any]]


def open_store(path: Path, now: int = NOON) -> BlockingClient:
    """A client at a fixed time, whose runs never go stale; on files, if it is no `.db`."""
    kind = SqliteBackend if path.suffix == ".db" else FilesBackend
    backend = kind(path, durability="relaxed", clock=lambda: now)
    return BlockingClient.on(backend, stale_after_seconds=1e12)


def message(number: int, size: int = 300) -> dict[str, Any]:
    return {"number": number, "text": f"{number} " * (size // 4)}


@contextmanager
def same_every_time() -> Iterator[None]:
    """Ids and times are not left to chance: the file comes out the same, byte for byte."""
    ticks = itertools.count(NOON, 10**6)
    with (
        mock.patch("time.time_ns", ticks.__next__),
        mock.patch("os.urandom", random.Random(0).randbytes),
    ):
        yield


def build(path: Path) -> dict[str, list[str]]:
    """Fill a store; gives the ids of every checkpoint that was ever saved, by thread."""
    with same_every_time():
        return fill(open_store(path))


def fill(client: BlockingClient) -> dict[str, list[str]]:
    """One of everything; closes the client."""
    made: dict[str, list[str]] = {"chat": [], "team": [], "brief": [], "gone": [], "short": []}
    _chat(client, made["chat"])
    _team(client, made["team"])
    for number in range(12):
        made["brief"].append(
            client.save("solo", session_id="brief", execution_state={"n": number}, step_name="tick")
        )
    client.expire(made["brief"][5])
    client.expire(made["brief"][-1])
    large = {"a": message(1, 9000)}
    made["gone"].append(client.save("solo", session_id="gone", execution_state=large))
    client.delete("gone")
    made["short"].append(client.save("solo", session_id="short", execution_state={"kept": True}))
    made["short"].append(
        client.save("solo", session_id="short", execution_state={"kept": False}, ttl_seconds=60)
    )
    _moved(client, made.setdefault("moved", []))
    hers = BlockingClient.on(client._core.backend, user="ada")
    for number in range(12):
        name = f"many-{number:02}"
        whose = hers if number % 3 else client
        made[name] = [whose.save("solo", session_id=name, execution_state={"n": number})]
    client.close()
    return made


def _chat(client: BlockingClient, ids: list[str]) -> None:
    """A run with a growing list beside a changing field, and one that failed."""
    with client.run("chat", initial={"messages": [], "cursor": 0}) as run:
        ids.append(run.base)
        for number in range(8):
            run.state["messages"].append(message(number))
            run.state["cursor"] = number
            ids.append(run.save(step_name=f"step {number}", metadata={"even": number % 2 == 0}))
            ids.append(run.append("messages", message(-number)))
    try:
        with client.run("chat") as run:
            ids.append(run.save({**run.state, "picture": bytes(range(256)) * 300}))
            ids.append(run.append("messages", {"picture": bytes(range(255)) * 300}))
            raise RuntimeError("the tool broke")
    except RuntimeError:
        pass


def _team(client: BlockingClient, ids: list[str]) -> None:
    """Several lanes, a handoff, branches."""
    state = {"log": [message(number) for number in range(20)], "n": 0}

    def save(agent: str, **options: Any) -> None:
        ids.append(client.save(agent, session_id="team", **options))

    for number in range(3):
        save("planner", execution_state={**state, "n": number})
    ids.append(client.handoff(ids[-1], "coder", note="yours"))
    for number in range(3):
        save("coder", execution_state={**state, "c": number})
    ids.append(client.handoff(ids[2], "coder"))
    for number in range(2):
        save("planner", execution_state={"aside": number}, parent_id=ids[0])
    save("critic", execution_state={"verdict": "good"})


def _moved(client: BlockingClient, ids: list[str]) -> None:
    """Forks, moves and tags."""
    for number in range(4):
        ids.append(client.save("solo", session_id="moved", execution_state={"n": number}))
        client.tag(ids[-1], f"step {number}")
    ids.append(client.fork(ids[1], branch="idea", edits={"n": "edited"}))
    for to in (0, 2, 1):
        move = client.rewind("moved", ids[to])
        ids.append(move.head.checkpoint_id if move.head else "")
        client.switch("moved", "idea")
    client.untag("moved", "step 2")
    client.expire(ids[0])


REFS = (
    "moved@", "moved@~1", "moved@step:1", "moved@3", "moved@99", "moved@tag:step 1",
    "moved@tag:step 2", "moved@branch:main", "moved@branch:none", "team/coder@~3", "short@~1",
)  # fmt: skip


def questions(made: dict[str, list[str]]) -> Iterator[Question]:
    """Everything that can be asked; each gives a comparable answer."""
    for thread, ids in made.items():
        for id in ids:
            yield f"restore {thread} {id}", lambda client, id=id: _restored(client, id)
    for thread in made:
        for agent in AGENTS.get(thread, ("solo",)):
            yield f"latest {thread}/{agent}", lambda c, t=thread, a=agent: _latest(c, t, a)
            yield f"timeline {thread}/{agent}", lambda c, t=thread, a=agent: _timeline(c, t, a)
        yield f"log {thread}", lambda client, thread=thread: whole_log(client, thread)
        yield f"branches {thread}", lambda c, t=thread: _or_absent(lambda: c.branches(t))
        yield f"tags {thread}", lambda c, t=thread: _or_absent(lambda: c.tags(t))
    for ref in REFS:
        yield f"resolve {ref}", lambda c, ref=ref: _or_absent(lambda: c.resolve(ref))
        yield f"walk {ref}", lambda c, ref=ref: _or_absent(lambda: list(c.walk(ref)))
    yield "threads by name", lambda client: list(all_threads(client, "name"))
    yield "threads by age", lambda client: list(all_threads(client, "created"))
    yield "log of a branch", lambda client: list(client.log("team", branch="main"))
    yield "log by step", lambda client: list(client.log("brief", step_name="tick"))
    yield "log by metadata", lambda client: list(client.log("chat", metadata={"even": True}))
    yield "log by agent", lambda client: list(client.log("team", agent_id="coder"))
    yield "threads", lambda client: list(all_threads(client))


def about_users() -> Iterator[Question]:
    """Whose is what; a store without an index may not know it of a damaged thread."""
    for user in ("ada", "nobody"):
        for sort in ("updated", "created", "name"):
            yield (
                f"threads of {user} by {sort}",
                lambda client, user=user, sort=sort: list(all_threads(client, sort, user)),
            )


def _seen(found: Any) -> tuple[Any, ...]:
    fields = [getattr(found, name) for name in Header.__dataclass_fields__]
    return (*fields, fingerprint(found.execution_state))


def _restored(client: BlockingClient, id: str) -> Any:
    return _or_absent(lambda: _seen(client.restore(id)))


def _or_absent(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except CheckpointNotFoundError as error:
        return type(error).__name__  # right for what was removed, and wrong for what was not


def _latest(client: BlockingClient, thread: str, agent: str) -> Any:
    found = client.latest(agent_id=agent, session_id=thread)
    return None if found is None else _seen(found)


def _timeline(client: BlockingClient, thread: str, agent: str) -> Any:
    return [_seen(found) for found in client.timeline(agent, thread, limit=200)]
