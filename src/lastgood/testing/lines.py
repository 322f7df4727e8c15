"""Lines of descent, branches and logs: what was there shows, and what is gone leaves a gap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from lastgood import CheckpointExpiredError, CheckpointNotFoundError
from lastgood.client import Client
from lastgood.model import Gap, Header
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, core_of, headers, line, reachable


def shown(found: list[Header | Gap], ids: list[str]) -> str:
    """A line in one word: digits are places in ids, letters tell gaps."""
    marks = {"removed": "r", "expired": "e"}
    return " ".join(
        str(ids.index(each.checkpoint_id)) + (marks[each.reason] if isinstance(each, Gap) else "")
        for each in found
    )


async def saved(client: Client, count: int, **ttl: Any) -> list[str]:
    """So many steps of "a" in "s"."""
    return [await save(client, "s", {"n": number}, **ttl) for number in range(count)]


@case()
async def walking_a_line(store: Store) -> None:
    """From any ref, newest first, across branches; each follows the next."""
    client = store.client()
    ids = await saved(client, 4)
    ids.append(await client.fork(ids[1], branch="side"))
    ids.append(await save(client, "s", {"n": "x"}, branch="side"))
    assert shown(await line(client, "s@"), ids) == "3 2 1 0"
    assert shown(await line(client, "s@branch:side"), ids) == "5 4 1 0"
    assert shown(await line(client, ids[2]), ids) == "2 1 0"
    assert shown(await line(client, "s@1"), ids) == "0"
    found = await line(client, "s@branch:side")
    assert all(isinstance(each, Header) for each in found)
    for child, parent in pairwise(found):
        assert isinstance(child, Header)
        assert child.parent_id == parent.checkpoint_id
    assert await reachable(client, "s") == set(ids)


@case()
async def walking_page_by_page(store: Store) -> None:
    """Pages of any size give the same line, gaps and all."""
    client = store.client()
    ids = await saved(client, 9)
    for number in (2, 5, 6):
        await client.expire(ids[number])
    whole = await line(client, "s@")
    assert shown(whole, ids) == "8 7 6r 4 3 2r 1 0"
    for limit in (1, 2, 3, 5, 6, 7):
        assert await line(client, "s@", limit=limit) == whole
    page = await client.walk("s@", limit=6)
    assert page.next is None
    page = await client.walk("s@", limit=2)
    await save(client, "s", {"n": "meanwhile"})
    rest = await client.walk("s@", limit=50, after=page.next)
    assert shown([*page, *rest], ids) == "8 7 6r 4 3 2r 1 0"


@case()
async def walking_from_a_page_that_is_gone(store: Store) -> None:
    """An error, not the end of the line; and cursors are checked."""
    client = store.client()
    ids = await saved(client, 4)
    page = await client.walk("s@", limit=2)
    assert page.next == ids[1]
    await client.expire(ids[1])
    with pytest.raises(CheckpointNotFoundError, match="where the page begins, was removed"):
        await client.walk("s@", after=page.next)
    for after in ("", "7", "nonsense"):
        with pytest.raises(ValueError, match="is not a cursor"):
            await client.walk("s@", after=after)
    with pytest.raises(ValueError, match="limit"):
        await client.walk("s@", limit=0)


REMOVALS: dict[str, tuple[list[int], str]] = {
    "the middle": ([2], "5 4 3 2r 1 0"),
    "two apart": ([1, 3], "5 4 3r 2 1r 0"),
    "two neighbours": ([2, 3], "5 4 3r 1 0"),
    "two neighbours, older first": ([3, 2], "5 4 3r 1 0"),
    "the root": ([0], "5 4 3 2 1 0r"),
    "the root and its child": ([0, 1], "5 4 3 2 1r"),
    "all but the head": ([4, 1, 3, 0, 2], "5 4r"),
    "the head": ([5], "4 3 2 1 0"),
}


@case(each=REMOVALS)
async def walking_past_what_was_removed(store: Store, row: tuple[list[int], str]) -> None:
    """A gap where the parent was, then whatever is left of the line."""
    order, expected = row
    client = store.client()
    ids = await saved(client, 6)
    for number in order:
        assert await client.expire(ids[number]) is True
    assert shown(await line(store.client(), "s@"), ids) == expected
    assert await reachable(client, "s") == set(ids) - {ids[number] for number in order}


@case()
async def walking_past_what_expired(store: Store) -> None:
    """Over its time is a gap of its own kind; the line goes on behind it."""
    client = store.client()
    ids = [
        await save(client, "s", {"n": n}, ttl_seconds=10 if n in (0, 2, 3) else None)
        for n in range(6)
    ]
    await store.pass_time(11)
    await client.expire(ids[4])
    assert shown(await line(client, "s@"), ids) == "5 4r 3e 2e 1 0e"
    with pytest.raises(CheckpointExpiredError):
        await client.walk(ids[3])
    assert await line(client, "s@", limit=1) == await line(client, "s@")


@case()
async def walking_across_agents(store: Store) -> None:
    """A handoff follows its source; the line ends where that was removed, and nothing is lost."""
    client = store.client()
    ids = await saved(client, 3)
    ids.append(await client.handoff("s/a@", "b"))
    ids.append(await client.save("b", execution_state={"n": "b"}, session_id="s"))
    ids.append(await client.handoff("s/b@", "a"))
    assert shown(await line(client, "s/a@"), ids) == "5 4 3 2 1 0"
    assert [each.agent_id for each in await line(client, "s/a@") if isinstance(each, Header)] == [
        *"abbaaa"
    ]
    await client.expire(ids[3])
    assert shown(await line(client, "s/a@"), ids) == "5 4 3r 2 1 0"
    await client.expire(ids[4])
    assert shown(await line(store.client(), "s/a@"), ids) == "5 4r"
    assert await reachable(client, "s") == {*ids[:3], ids[5]}
    with pytest.raises(CheckpointNotFoundError):
        await client.walk("s/b@")


@case()
async def branches_of_a_thread(store: Store) -> None:
    """By agent and name, each with what it reads as."""
    client = store.client()
    ids = await saved(client, 2)
    await client.fork(ids[0], branch="z")
    await save(client, "s", {"n": "t"}, branch="ttl", ttl_seconds=10, parent_id=ids[0])
    await client.fork(ids[0], branch="empty")
    await client.save("b", execution_state={}, session_id="s")
    found = await client.branches("s")
    assert [(b.agent_id, b.name) for b in found] == [
        ("a", "empty"), ("a", "main"), ("a", "ttl"), ("a", "z"), ("b", "main"),
    ]  # fmt: skip
    assert [b.current for b in found] == [False, True, False, False, True]
    assert [b.head.seq for b in found if b.head] == [5, 2, 4, 3, 6]
    assert await client.branches("s", agent_id="b") == found[4:]
    assert await client.branches("s", agent_id="nobody") == []
    await store.pass_time(11)
    await client.expire("s/a@branch:empty")
    heads = {b.name: b.head for b in await client.branches("s", agent_id="a")}
    first = await client.resolve(ids[0])
    assert heads["ttl"] == heads["empty"] == first
    with pytest.raises(CheckpointNotFoundError):
        await client.branches("nowhere")


@case()
async def filters_of_a_log(store: Store) -> None:
    """Each alone and together, page by page; never more or less than asked for."""
    client = store.client()
    start = datetime.now(UTC)
    for number in range(12):
        await client.save(
            "ab"[number % 2],
            execution_state={"n": number},
            session_id="s",
            branch="main" if number < 6 else "side",
            step_name=f"step {number % 3}",
            metadata={"even": number % 2 == 0, "n": number},
        )
    every = [h.metadata["n"] for h in await headers(client, "s")]
    assert every == list(range(11, -1, -1))
    middle = (await client.resolve("s@6")).created_at
    filters: list[tuple[dict[str, Any], Any]] = [
        ({"agent_id": "a"}, lambda n: n % 2 == 0),
        ({"branch": "side"}, lambda n: n >= 6),
        ({"step_name": "step 1"}, lambda n: n % 3 == 1),
        ({"metadata": {"even": True}}, lambda n: n % 2 == 0),
        ({"metadata": {"even": True, "n": 4}}, lambda n: n == 4),
        ({"metadata": {"no": 1}}, lambda n: False),  # noqa: ARG005
        ({"since": middle}, lambda n: n >= 5),
        ({"until": middle}, lambda n: n < 5),
        ({"since": start - timedelta(hours=1), "until": start}, lambda n: False),  # noqa: ARG005
        ({"agent_id": "b", "branch": "main", "step_name": "step 0"}, lambda n: n == 3),
        ({"agent_id": "nobody"}, lambda n: False),  # noqa: ARG005
    ]
    for given, wanted in filters:
        expected = [n for n in every if wanted(n)]
        for limit in (1, 2, 3, 50):
            assert await _paged(client, limit, **given) == expected, (given, limit)


async def _paged(client: Client, limit: int, **filters: Any) -> list[Any]:
    page = await client.log("s", limit=limit, **filters)
    found = [header.metadata["n"] for header in page]
    while page.next is not None:
        assert len(page) == limit
        page = await client.log("s", limit=limit, after=page.next, **filters)
        found += [header.metadata["n"] for header in page]
    return found


@case()
async def a_log_that_grows_while_it_is_read(store: Store) -> None:
    """What comes meanwhile is on no later page, and nothing is on two."""
    client, other = store.client(), store.client()
    ids = await saved(client, 6)
    page = await client.log("s", limit=2)
    found = [header.checkpoint_id for header in page]
    while page.next is not None:
        await save(other, "s", {"n": "meanwhile"})
        page = await client.log("s", limit=2, after=page.next)
        found += [header.checkpoint_id for header in page]
    assert found == ids[::-1]


@case("S70")
async def headers_do_not_load_states(store: Store) -> None:
    """The newest twenty, a line, the branches: no page of a state is read, however large it is."""
    client = store.client()
    for number in range(25):
        await save(client, "large", {"m": [*LARGE["messages"], number], "text": "x" * 300_000})
        await save(client, "small", {"n": number})
    fresh = store.client()
    backend = core_of(fresh).backend
    asked: list[Any] = []
    whole = backend.parts

    async def counted(ranges: Any, *, checked: bool = False) -> Any:
        asked.append(ranges)
        return await whole(ranges, checked=checked)

    backend.parts = counted  # type: ignore[method-assign]
    try:
        for thread in ("large", "small"):
            assert len(await fresh.log(thread, limit=20)) == 20
            assert len(await fresh.walk(f"{thread}@", limit=20)) == 20
            assert len(await fresh.branches(thread)) == 1
            assert (await fresh.resolve(f"{thread}@~5")).seq == 20
        assert len(await fresh.threads(metadata={})) == 2
        assert asked == []
        await fresh.restore("large@")
        assert asked != [], "the count counts"
    finally:
        backend.parts = whole  # type: ignore[method-assign]
    sizes = {h.session_id: len(repr(h.metadata)) for h in await fresh.log("large")}
    assert sizes == {"large": 2}
