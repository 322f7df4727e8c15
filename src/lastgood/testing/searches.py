"""Blame names the step that brought a value in; bisect finds where a predicate began to hold."""

from __future__ import annotations

from asyncio import sleep
from dataclasses import dataclass
from typing import Any

import pytest

from lastgood import Checkpoint, CheckpointNotFoundError
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store


def message(number: int, text: str = "x" * 700) -> dict[str, Any]:
    """A message of which a few dozen fill many pages."""
    return {"id": number, "text": text}


async def conversation(client: Any, steps: int, thread: str = "s") -> None:
    """One message a step, seq = step + 1; the plan changes at step 5."""
    state: dict[str, Any] = {"messages": [], "plan": {"goal": "a", "tries": 0}}
    async with client.run(thread, initial=state) as run:
        for number in range(1, steps):
            run.state["messages"].append(message(number))
            if number == 5:
                run.state["plan"]["goal"] = "b"
            await run.save(step_name=f"step-{number}")


@case()
async def blame_of_fields_and_elements(store: Store) -> None:
    """A field that changed, one that did not, an element, an element from the end."""
    client = store.client()
    await conversation(client, 30)
    found = {
        path: (await client.blame("s@", path)).header.step_name
        for path in ("plan.goal", "plan", "plan.tries", "messages[0]", "messages[20].id")
    }
    assert found == {
        "plan.goal": "step-5",
        "plan": "step-5",
        "plan.tries": None,
        "messages[0]": "step-1",
        "messages[20].id": "step-21",
    }
    last = await client.blame("s@", "messages[-1]")
    assert last.before is not None
    assert (last.header.seq, last.value["id"], last.before.seq) == (30, 29, 29)
    assert (last.header.agent_id, last.header.branch) == ("agent", "main")
    assert "came in with s@30 (step-29, agent, main" in str(last)
    earlier = await client.blame("s@6", "plan.goal")
    assert (earlier.header.seq, earlier.value) == (6, "b")
    assert (await client.blame("s@5", "plan.goal")).header.seq == 1


@case()
async def blame_follows_elements_that_move(store: Store) -> None:
    """Elements keep their origin when others come or go before them, and when edited elsewhere."""
    client = store.client()
    await conversation(client, 20)
    async with client.run("s") as run:
        run.state["messages"].insert(0, message(0))
        run.state["messages"].append(message(20))
        await run.save(step_name="insert")
        run.state["messages"][10]["text"] = "edited"
        run.state["messages"].append(message(21))
        await run.save(step_name="edit")
        del run.state["messages"][3]
        await run.save(step_name="trim")
    assert (await client.blame("s@", "messages[0]")).header.step_name == "insert"
    edited = await client.blame("s@", "messages[9].text")
    assert (edited.header.step_name, edited.path_then) == ("edit", "messages[10].text")
    number = await client.blame("s@", "messages[9].id")
    assert (number.value, number.header.step_name) == (10, "step-10")
    assert (number.path, number.path_then) == ("messages[9].id", "messages[9].id")
    assert (await client.blame("s@", "messages[9]")).header.step_name == "edit"


@case()
async def blame_knows_elements_by_their_id(store: Store) -> None:
    """An element that came where another one was edited is none of that one's past."""
    client = store.client()
    told = [{**message(number), "kind": "chat"} for number in range(4)]
    async with client.run("s", initial={}) as run:
        await run.save({"messages": told[:2]}, step_name="first")
        edited = {**told[1], "text": "edited"}
        await run.save({"messages": [told[0], told[2], edited]}, step_name="second")
        await run.save({"messages": [told[0], told[3]]}, step_name="third")
    for ref, names in (("s@3", ["first", "second", "first"]), ("s@4", ["first", "third"])):
        for index, name in enumerate(names):
            found = await client.blame(ref, f"messages[{index}].kind")
            assert found.header.step_name == name


@case()
async def blame_from_the_end_of_a_list_that_was_cut(store: Store) -> None:
    """An index from the end names one element, also in states where the list is longer."""
    client = store.client()
    rest = [message(number) for number in range(1, 60)]
    await save(client, "s", {"messages": [message(0, "old" * 200), *rest]}, step_name="all")
    edited = await save(client, "s", {"messages": [message(0), *rest]}, step_name="edited")
    for length in range(30, 40):
        cut = [message(0), *rest][:length]
        id = await save(client, "s", {"messages": cut}, parent_id=edited, step_name="cut")
        found = await client.blame(id, "messages[-1]")
        assert (found.header.step_name, found.value) == ("all", cut[-1])
        assert found.path == found.path_then == f"messages[{length - 1}]"


@case()
async def blame_stops_where_a_value_was_away(store: Store) -> None:
    """A value that came, went and came again was brought in by who brought it last."""
    client = store.client()
    for goal in ("a", "b", "a", "a"):
        await save(client, "s", {"goal": goal, "same": 1}, step_name=goal)
    assert (await client.blame("s@", "goal")).header.seq == 3
    assert (await client.blame("s@", "same")).header.seq == 1


@case()
async def blame_across_forks_handoffs_and_gaps(store: Store) -> None:
    """The line is that of parents: over branches and agents, past what was removed."""
    client = store.client()
    await conversation(client, 8)
    fork = await client.fork("s@4", edits={"plan.goal": "fork"}, branch="side")
    assert (await client.blame(fork, "plan.goal")).header.checkpoint_id == fork
    assert (await client.blame(fork, "messages[1]")).header.seq == 3
    given = await client.handoff("s/agent@", "other")
    found = await client.blame(given, "plan.goal")
    assert (found.header.agent_id, found.header.seq) == ("agent", 6)
    await client.expire("s@6")
    found = await client.blame(given, "plan.goal")
    assert found.before is not None
    assert (found.header.seq, found.before.seq) == (7, 5)


@dataclass
class Plan:
    """A record inside a state."""

    goal: str
    steps: tuple[str, ...] = ()


@case()
async def blame_inside_records_and_tuples(store: Store) -> None:
    """Every type of the codec that has an inside can be looked into."""
    client = store.client()
    for goal, steps in (("a", ("one",)), ("a", ("one", "two")), ("b", ("one", "two"))):
        await save(client, "s", {"plan": Plan(goal, steps)})
    assert (await client.blame("s@", "plan.goal")).header.seq == 3
    assert (await client.blame("s@", "plan.steps[1]")).header.seq == 2
    assert (await client.blame("s@", "plan.steps[0]")).header.seq == 1


@case()
async def blame_of_members_of_sets(store: Store) -> None:
    """A member of a set is named by itself, as in a diff, also where the set is large."""
    client = store.client()
    many = set(range(1000, 3000))
    for tags, numbers in (({"a"}, many), ({"a", "z"}, many), ({"z"}, many | {7})):
        await save(client, "s", {"tags": tags, "numbers": numbers})
    assert {change.path for change in await client.diff("s@1", "s@2")} == {"tags.z"}
    assert (await client.blame("s@", "tags.z")).header.seq == 2
    assert (await client.blame("s@", "numbers[7]")).header.seq == 3
    assert (await client.blame("s@", "numbers[2999]")).header.seq == 1
    with pytest.raises(KeyError, match=r"no numbers\[0\] in the state"):
        await client.blame("s@", "numbers[0]")


@case()
async def blame_of_nothing(store: Store) -> None:
    """A path that is not there, or not a path, is an error that names it."""
    client = store.client()
    await save(client, "s", {"plan": {"goal": 1}})
    for path in ("plan.missing", "plan[0]", "messages", "plan.goal.deeper"):
        with pytest.raises(KeyError, match="there is no"):
            await client.blame("s@", path)
    with pytest.raises(ValueError, match="not a path"):
        await client.blame("s@", "plan..goal")
    with pytest.raises(CheckpointNotFoundError):
        await client.blame("nowhere@", "plan")


@case()
async def bisect_finds_the_first(store: Store) -> None:
    """At every place of the line, with few restores; the predicate gets whole checkpoints."""
    client = store.client()
    await conversation(client, 40)
    for wanted in (1, 2, 17, 39, 40):
        seen: list[int] = []

        def holds(checkpoint: Checkpoint, wanted: int = wanted, seen: list[int] = seen) -> bool:
            seen.append(checkpoint.seq)
            return len(checkpoint.state["messages"]) >= wanted - 1

        found = await client.bisect("s", holds)
        assert found.first is not None
        assert (found.first.seq, found.certain) == (wanted, True)
        assert (found.before.seq if found.before else 0) == wanted - 1
        assert found.tested == len(seen) == len(set(seen)) <= 3 * 6 + 4
    with pytest.raises(ZeroDivisionError):
        await client.bisect("s", lambda _: 1 / 0 > 0)


@case()
async def bisect_on_the_current_line_only(store: Store) -> None:
    """What was left by a rewind is not looked at; an empty answer is one."""
    client = store.client()
    await conversation(client, 10)
    await client.rewind("s", 4)
    found = await client.bisect("s", lambda c: c.state["plan"]["goal"] == "b")
    assert (found.first, found.certain) == (None, True)
    assert "none" in str(found)
    found = await client.bisect("s", lambda c: len(c.state["messages"]) >= 2)
    assert found.first is not None
    assert found.first.seq == 3
    with pytest.raises(CheckpointNotFoundError):
        await client.bisect("nowhere", lambda _: True)


@case()
async def bisect_of_what_is_not_there(store: Store) -> None:
    """A mistyped name is not told as a line without a bad step; a line that has ended is one."""
    client = store.client()
    saved = await save(client, "s", {"n": 1})
    with pytest.raises(CheckpointNotFoundError, match="no agent 'b', but a"):
        await client.bisect("s", lambda _: True, agent_id="b")
    with pytest.raises(CheckpointNotFoundError, match="'nowhere/a@'"):
        await client.bisect("nowhere", lambda _: True, agent_id="a")
    await client.expire(saved)
    assert (await client.bisect("s", lambda _: True, agent_id="a")).tested == 0


@case()
async def bisect_notices_more_than_one_flip(store: Store) -> None:
    """It says where else the answer changes, also when it does not hold at the head."""
    client = store.client()
    await conversation(client, 60)
    found = await client.bisect("s", lambda c: 20 <= len(c.state["messages"]) < 40)
    assert found.first is not None
    assert not found.certain
    assert found.first.seq == 21
    assert found.flips[0].seq == 21
    assert "does not flip once" in str(found)


@case()
async def an_async_predicate(store: Store) -> None:
    """A predicate may be a coroutine function."""
    client = store.client()
    await conversation(client, 6)

    async def holds(checkpoint: Checkpoint) -> bool:
        return len(checkpoint.state["messages"]) >= 3

    found = await client.bisect("s", holds)
    assert found.first is not None
    assert found.first.seq == 4

    async def waits(checkpoint: Checkpoint) -> bool:
        await sleep(0)
        return await holds(checkpoint)

    if store.colour == "async":
        assert await client.bisect("s", waits) == found
        return
    with pytest.raises(RuntimeError, match="Pass plain functions to a blocking client"):
        await client.bisect("s", waits)
