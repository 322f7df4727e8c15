"""A timeline of states that grew out of one another: whole, exact and, by default, their own."""

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient

STEPS = 6
LONG = 150
"""Messages that a list begins with: enough to be stored as pages in several chunks."""


def message(number: int) -> dict[str, Any]:
    content = [{"type": "text", "text": f"message {number} " * 20}, {"type": "usage", "n": [1, 2]}]
    return {"id": number, "role": "user", "content": content, "score": number / 7, "seen": None}


def appended(state: dict[str, Any], step: int) -> None:
    state["messages"] += [message(LONG + 2 * step), message(LONG + 2 * step + 1)]


def cleared_once(state: dict[str, Any], step: int) -> None:
    if step == 3:
        del state["messages"][:]
    appended(state, step)


def edited_at_the_end(state: dict[str, Any], step: int) -> None:
    state["messages"][-1]["content"] = [{"step": step}]


def edited_in_the_middle(state: dict[str, Any], step: int) -> None:
    appended(state, step)
    state["messages"][LONG // 2]["score"] = step


def stamped(state: dict[str, Any], step: int) -> None:
    state["messages"].append({"at": datetime(2026, 1, step + 1, tzinfo=UTC), "set": {step}})


def with_a_second_list(state: dict[str, Any], step: int) -> None:
    appended(state, step)
    state["copies"] = copy.deepcopy(state["messages"][: LONG + step])


def unchanged(state: dict[str, Any], step: int) -> None:
    state["step"] = step


CHANGES = [
    appended,
    cleared_once,
    edited_at_the_end,
    edited_in_the_middle,
    stamped,
    with_a_second_list,
    unchanged,
]


def containers(value: Any) -> Iterator[int]:
    """The identity of everything in a value that can be changed."""
    if isinstance(value, dict | list):
        yield id(value)
        for part in value.values() if isinstance(value, dict) else value:
            yield from containers(part)


Line = tuple[BlockingClient, list[dict[str, Any]]]


@pytest.fixture(params=[True, False], ids=["cold", "warm"])
def line(request: pytest.FixtureRequest, tmp_path: Path, change: Any) -> Iterator[Line]:
    """A client, and the states that it has saved, or that another one has."""
    state: dict[str, Any] = {"messages": [message(number) for number in range(LONG)], "step": -1}
    client = BlockingClient.sqlite(tmp_path / "x.db", durability="relaxed")
    expected = []
    for step in range(STEPS):
        change(state, step)
        client.save("a", session_id="s", execution_state=state)
        expected.append(copy.deepcopy(state))
    if request.param:
        client.close()
        client = BlockingClient.sqlite(tmp_path / "x.db")
    with client:
        yield client, expected


@pytest.mark.parametrize("change", CHANGES)
def test_states_of_a_timeline_are_exact_and_share_nothing(line: Line) -> None:
    client, expected = line
    found = [checkpoint.state for checkpoint in client.timeline("a", "s")][::-1]
    assert found == expected
    assert [list(each) for each in found] == [list(each) for each in expected], "order of keys"
    everything = [identity for each in found for identity in containers(each)]
    assert len(everything) == len(set(everything))
    again = client.timeline("a", "s")
    assert all(checkpoint.verify_integrity() for checkpoint in again)


@pytest.mark.parametrize("change", CHANGES)
def test_states_of_a_shared_timeline_are_exact_and_each_has_its_own_lists(line: Line) -> None:
    client, expected = line
    checkpoints = client.timeline("a", "s", shared=True)
    found = [checkpoint.state for checkpoint in checkpoints][::-1]
    assert found == expected
    assert [list(each) for each in found] == [list(each) for each in expected], "order of keys"
    assert all(checkpoint.verify_integrity() for checkpoint in checkpoints)
    found[-1]["messages"].clear()  # nobody should; the store and the next caller do not mind
    assert [each.state for each in client.timeline("a", "s", shared=True)][::-1] == expected


@pytest.mark.parametrize("change", [appended, stamped, with_a_second_list, unchanged])
def test_states_of_a_shared_timeline_share_what_did_not_change(line: Line) -> None:
    client, _ = line
    first, *others = [each.state for each in client.timeline("a", "s", shared=True)][::-1]
    begins = first["messages"][:LONG]
    for other in others:
        pairs = zip(begins, other["messages"], strict=False)
        assert all(mine is theirs for mine, theirs in pairs)
