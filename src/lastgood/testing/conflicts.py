"""Two writers on one head: exactly one wins, or both are kept as visible branches."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from lastgood import (
    CheckpointConflictError,
    CheckpointExpiredError,
    CheckpointNotFoundError,
    StaleWriterError,
)
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, branches, headers, thread_info


@case("S22")
async def two_writers_under_reject(store: Store) -> None:
    """Exactly one succeeds; the other learns both ids; nothing of it is left."""
    one, two = store.client(), store.client()
    head = await save(one, "s", LARGE)
    outcomes = await store.together(
        [
            partial(save, c, "s", {**LARGE, "n": n}, parent_id=head, on_conflict="reject")
            for n, c in enumerate((one, two))
        ]
    )
    lost = [outcome for outcome in outcomes if isinstance(outcome, StaleWriterError)]
    won = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert (len(lost), len(won)) == (1, 1)
    assert (lost[0].expected, lost[0].head) == (head, won[0])
    assert [h.checkpoint_id for h in await headers(one, "s")] == [won[0], head]
    latest = await two.latest(agent_id="a", session_id="s")
    assert latest is not None
    assert latest.checkpoint_id == won[0]


@case("S22")
async def two_writers_under_branch(store: Store) -> None:
    """Both exist; the loser's branch is named, visible and not current."""
    one, two = store.client(), store.client()
    head = await save(one, "s", LARGE)
    first = await save(one, "s", {**LARGE, "n": 1}, parent_id=head)
    second = await save(two, "s", {**LARGE, "n": 2}, parent_id=head)
    found = {h.checkpoint_id: h for h in await headers(one, "s")}
    assert set(found) == {head, first, second}
    assert (found[first].branch, found[second].branch) == ("main", f"main-{second[-6:]}")
    assert found[first].parent_id == found[second].parent_id == head
    latest = await two.latest(agent_id="a", session_id="s")
    assert latest is not None
    assert (latest.checkpoint_id, latest.state) == (first, {**LARGE, "n": 1})
    assert (await one.restore(second)).state == {**LARGE, "n": 2}


@case("S22")
async def many_writers_at_once_lose_nothing(store: Store) -> None:
    """Eight writers from one parent: eight checkpoints, each on a line of its own."""
    clients = [store.client() for _ in range(8)]
    head = await save(clients[0], "s", LARGE)
    saves = await store.together(
        [partial(save, c, "s", {**LARGE, "n": n}, parent_id=head) for n, c in enumerate(clients)]
    )
    assert all(isinstance(saved, str) for saved in saves), saves
    found = await headers(clients[0], "s")
    assert {h.checkpoint_id for h in found} == {head, *saves}
    assert len({h.branch for h in found}) == 8
    for number, saved in enumerate(saves):
        assert (await store.client().restore(saved)).state == {**LARGE, "n": number}


@case("S22")
async def writers_without_a_parent_end_in_one_line(store: Store) -> None:
    """Each takes the head it finds."""
    clients = [store.client() for _ in range(6)]
    saves = await store.together([partial(save, c, "s", {"n": n}) for n, c in enumerate(clients)])
    assert all(isinstance(saved, str) for saved in saves), saves
    found = await headers(clients[0], "s")
    assert {h.checkpoint_id for h in found} == set(saves)
    assert {h.branch for h in found} == {"main"}
    assert [h.parent_id for h in found[:-1]] == [h.checkpoint_id for h in found[1:]]
    assert [h.step_index for h in found] == [5, 4, 3, 2, 1, 0]


@case()
async def a_chosen_id_that_is_over_its_time(store: Store) -> None:
    """It cannot be read any more, so the same save once more is not acknowledged."""
    client, chosen = store.client(), str(uuid4())
    await save(client, "s", {"n": 1}, checkpoint_id=chosen, ttl_seconds=0.2)
    assert await save(client, "s", {"n": 1}, checkpoint_id=chosen) == chosen
    await store.pass_time(0.3)
    with pytest.raises(CheckpointExpiredError, match=r"exists already.*checkpoint_id out"):
        await save(client, "s", {"n": 1}, checkpoint_id=chosen, ttl_seconds=1000)


@case("S22")
async def writers_with_one_chosen_id(store: Store) -> None:
    """A real race for an id: one content wins, every other writer gets the conflict."""
    clients, chosen = [store.client() for _ in range(6)], str(uuid4())
    outcomes = await store.together(
        [partial(save, c, "s", {"n": n // 2}, checkpoint_id=chosen) for n, c in enumerate(clients)]
    )
    kept = (await store.client().restore(chosen)).state["n"]
    for number, outcome in enumerate(outcomes):
        if number // 2 == kept:
            assert outcome == chosen
        else:
            assert isinstance(outcome, CheckpointConflictError)
    assert len(await headers(clients[0], "s")) == 1


@case("S22")
async def two_clients_take_turns(store: Store) -> None:
    """Each reads the newest, appends and saves: one line, and no page is stored twice."""
    clients = [store.client(), store.client()]
    await save(clients[0], "s", LARGE)
    for turn in range(40):
        client = clients[turn % 2]
        found = await client.latest(agent_id="a", session_id="s")
        assert found is not None
        messages = [*found.state["messages"], f"turn {turn} " * 20]
        await save(client, "s", {"messages": messages}, parent_id=found.checkpoint_id)
    latest = await store.client().latest(agent_id="a", session_id="s")
    assert latest is not None
    assert latest.state["messages"][100:] == [f"turn {turn} " * 20 for turn in range(40)]
    assert await branches(clients[0], "s") == {"main"}
    info = await thread_info(clients[0], "s")
    assert info is not None
    assert info.size < 60_000


@case()
async def a_branch_goes_on_from_its_own_head(store: Store) -> None:
    """A child of a side branch's head stays on that branch, in any client."""
    client = store.client()
    head = await save(client, "s", {"n": 0})
    await save(client, "s", {"n": 1}, parent_id=head)
    side = await save(client, "s", {"n": 2}, parent_id=head)
    more = await store.client().restore(await save(store.client(), "s", {"n": 3}, parent_id=side))
    assert (more.parent_id, more.branch) == (side, f"main-{side[-6:]}")
    assert len(await branches(client, "s")) == 2
    latest = await client.latest(agent_id="a", session_id="s")
    assert latest is not None
    assert latest.state == {"n": 1}
    third = await client.restore(await save(client, "s", {"n": 4}, parent_id=side))
    assert third.branch == f"main-{side[-6:]}-{third.checkpoint_id[-6:]}"


@case()
async def named_branches(store: Store) -> None:
    """A name that is new begins a branch at the head; one that is there goes on."""
    client = store.client()
    first = await save(client, "s", {"n": 0})
    one = await client.restore(await save(client, "s", {"n": 1}, branch="idea"))
    two = await client.restore(await save(client, "s", {"n": 2}, branch="idea"))
    old = await client.restore(await save(client, "s", {"n": 3}, branch="past", parent_id=first))
    main = await client.restore(await save(client, "s", {"n": 4}))
    assert [one.parent_id, two.parent_id, old.parent_id, main.parent_id] == [
        first,
        one.checkpoint_id,
        first,
        first,
    ]
    assert [one.branch, two.branch, old.branch, main.branch] == ["idea", "idea", "past", "main"]
    assert [h.seq for h in await client.log("s", branch="idea")] == [3, 2]


@case()
async def starting_over(store: Store) -> None:
    """parent_id=None on a non-empty lane: the old line stays, the new root is current."""
    client = store.client()
    await save(client, "s", {"n": 0})
    old = await save(client, "s", {"n": 1})
    root = await client.restore(await save(client, "s", {"n": 2}, parent_id=None))
    assert (root.parent_id, root.step_index) == (None, 0)
    assert root.branch == f"main-{root.checkpoint_id[-6:]}"
    latest = await store.client().latest(agent_id="a", session_id="s")
    assert latest is not None
    assert latest.checkpoint_id == root.checkpoint_id
    follower = await client.restore(await save(client, "s", {"n": 3}))
    assert (follower.parent_id, follower.branch) == (root.checkpoint_id, root.branch)
    assert len(await headers(client, "s")) == 4
    assert (await client.restore(old)).branch == "main"
    with pytest.raises(StaleWriterError):
        await save(client, "s", {}, parent_id=None, on_conflict="reject")


@case()
async def parents_that_do_not_exist(store: Store) -> None:
    """An error before anything is written: dangling, of another thread, not an id."""
    client = store.client()
    other = await save(client, "other", {"n": 0})
    await save(client, "s", {"n": 0})
    with pytest.raises(CheckpointNotFoundError, match="parent_id"):
        await save(client, "s", {}, parent_id=str(uuid4()))
    with pytest.raises(CheckpointNotFoundError):
        await save(client, "new", {}, parent_id=str(uuid4()))
    with pytest.raises(ValueError, match="another thread"):
        await save(client, "s", {}, parent_id=other)
    with pytest.raises(ValueError, match="not a checkpoint id"):
        await save(client, "s", {}, parent_id="nonsense")
    with pytest.raises(ValueError, match="on_conflict"):
        await save(client, "s", {}, on_conflict="fork")
    assert len(await headers(client, "s")) == 1
    assert await thread_info(client, "new") is None


@case()
async def a_parent_in_another_lane(store: Store) -> None:
    """Parents may cross lanes: an agent goes on from another one's checkpoint."""
    client = store.client()
    first = await save(client, "s", LARGE)
    found = await client.restore(
        await client.save("b", execution_state=LARGE, session_id="s", parent_id=first)
    )
    assert (found.agent_id, found.parent_id, found.step_index) == ("b", first, 1)
    latest = await client.latest(agent_id="b", session_id="s")
    assert latest == found


SAME_TAIL = [f"0190000{n}-0000-7000-8000-000000000001" for n in range(1, 5)]


@case()
async def branch_names_that_collide(store: Store) -> None:
    """Side branches are named after six digits of an id: equal ones must not meet."""
    client = store.client()
    head = await save(client, "s", {"n": 0})
    await save(client, "s", {"n": 1})
    saves = [
        await save(client, "s", {"n": 2, "id": id}, parent_id=head, checkpoint_id=id)
        for id in SAME_TAIL[:2]
    ]
    saves.append(await save(client, "s", {"n": 3}, parent_id=None, checkpoint_id=SAME_TAIL[2]))
    found = {h.checkpoint_id: h.branch for h in await headers(store.client(), "s")}
    assert len({found[saved] for saved in saves}) == 3
    for saved in saves[:2]:
        child = await client.restore(await save(client, "s", {"n": 9}, parent_id=saved))
        assert (child.parent_id, child.branch) == (saved, found[saved])


@case()
async def a_moved_head_in_words(store: Store) -> None:
    """The sentence that tells who moved on from where."""
    client = store.client()
    first = await client.save("payments", execution_state={}, session_id="order-42")
    for _ in range(2):
        await client.save("payments", execution_state={}, session_id="order-42")
    with pytest.raises(StaleWriterError) as caught:
        await client.save(
            "payments",
            execution_state={},
            session_id="order-42",
            parent_id=first,
            on_conflict="reject",
        )
    assert str(caught.value) == (
        "order-42/payments moved on: you began at @1, the head is @3 (0 s ago). "
        'Open the run again, or on_conflict="branch".'
    )


@case()
async def two_branches_append_in_turn(store: Store) -> None:
    """Two lines that grow from one list keep apart, whoever wrote a page first."""
    one, two = store.client(), store.client()
    base: list[str] = list(LARGE["messages"])
    root = await save(one, "s", {"m": base})
    heads: dict[int, Any] = {0: root, 1: root}
    lists = {0: list(base), 1: list(base)}
    kept: dict[str, list[str]] = {}
    for turn in range(30):
        line = turn % 2
        lists[line].append(f"line {line} turn {turn} " * 10)
        client = (one, two)[line]
        heads[line] = await save(client, "s", {"m": lists[line]}, parent_id=heads[line])
        kept[heads[line]] = list(lists[line])
    fresh = store.client()
    for saved, messages in kept.items():
        assert (await fresh.restore(saved)).state == {"m": messages}
    info = await thread_info(fresh, "s")
    assert info is not None
    assert info.size < 120_000
    assert len(await branches(fresh, "s")) == 2


@case()
async def who_is_refused_is_told_where_the_lane_went(store: Store) -> None:
    """A rewind or a switch leaves the run's own branch as it was: its end is not the head."""
    client = store.client()
    async with client.run("s", initial={"n": 0}) as run:
        await run.save({"n": 1})
        rewound = await client.rewind("s", 1)
        await client.fork("s@1", branch="idea")
        for branch in (rewound.branch, (await client.switch("s", "idea")).branch):
            await client.switch("s", branch)
            with pytest.raises(StaleWriterError, match=f"on branch {branch!r}") as caught:
                await run.save({"n": 2})
            assert caught.value.head == (await client.resolve("s@")).checkpoint_id
            assert caught.value.expected == run.base
        await client.switch("s", "main")
        await run.save({"n": 2})


@case()
async def a_run_whose_lane_moved_to_a_line_that_ended(store: Store) -> None:
    """Refused, though the current branch has no head; the branch that it left is not moved."""
    client = store.client()
    async with client.run("s", agent_id="a", initial={"n": 0}) as run:
        await run.save({"n": 1})
        base = run.base
        root = await save(client, "s", {"n": "over"}, parent_id=None)
        other = await save(client, "s", {"n": "other"}, parent_id=base)
        await client.expire(root)
        with pytest.raises(StaleWriterError):
            await run.save({"n": 2})
    found = await client.branches("s")
    assert [each.head.checkpoint_id for each in found if each.head] == [other]
    assert (await client.verify(data=True)).clean


@case()
async def a_run_on_a_branch_of_which_nothing_is_left(store: Store) -> None:
    """It goes on from what the branch began from, which is of another one."""
    client = store.client()
    for step in ("first", "second"):
        await save(client, "s", {"done": step})
    branch = (await client.rewind("s", 1)).branch
    await client.expire("s@")
    for number in range(2):
        async with client.run("s", agent_id="a") as run:
            assert (run.state, run.branch) == ({"done": "first"}, branch)
            await run.save(step_name=f"again {number}")
        found = await client.resolve("s@")
        assert (found.step_name, found.branch) == (f"again {number}", branch)


@case()
async def a_parent_that_the_current_branch_reads_as(store: Store) -> None:
    """It is of another branch, but whoever reads the latest and saves upon it goes on with that."""
    client = store.client()
    for step in ("first", "second"):
        await save(client, "s", {"done": step})
    branch = (await client.rewind("s", 1)).branch
    await client.expire("s@")
    for policy in ("branch", "reject"):
        head = await client.resolve("s@")
        saved = await save(client, "s", {}, parent_id=head.checkpoint_id, on_conflict=policy)
        found = await client.resolve("s@")
        assert (found.checkpoint_id, found.branch) == (saved, branch)
    assert len(await client.branches("s")) == 2
