"""Blame and bisect on long lines, of which somebody else removes something meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood import BlockingClient
from lastgood.testing.store import core_of

LINE = 300
"""More than are read at a time."""


@pytest.fixture
def client(tmp_path: Path) -> BlockingClient:
    client = BlockingClient.sqlite(tmp_path / "line.db", durability="relaxed")
    for number in range(LINE):
        client.save("a", session_id="s", execution_state={"goal": "x", "n": number})
    return client


@pytest.fixture(params=[1, 3])
def removal(client: BlockingClient, request: pytest.FixtureRequest) -> None:
    """Where the reader goes on from, and what came before that, goes when it does so."""
    backend = core_of(client).backend
    whole = backend.lineage
    asked: list[bytes] = []

    async def removed_first(tenant: str, id: bytes, limit: int) -> object:
        asked.append(id)
        if len(asked) == 2:
            seq = (await backend.find(tenant, [id]))[id].row.seq
            with BlockingClient.open(client.url) as other:
                for each in range(seq, seq + request.param):
                    other.expire(f"s@{each}")
        return await whole(tenant, id, limit)

    backend.lineage = removed_first  # type: ignore[method-assign,assignment]


@pytest.mark.usefixtures("removal")
def test_blame_goes_back_past_what_was_removed(client: BlockingClient) -> None:
    assert client.blame("s@", "goal").header.seq == 1


@pytest.mark.usefixtures("removal")
def test_bisect_goes_back_past_what_was_removed(client: BlockingClient) -> None:
    found = client.bisect("s", lambda checkpoint: checkpoint.state["n"] >= 20)
    assert found.first is not None
    assert found.first.seq == 21


ORDERS: dict[str, Callable[[dict[str, int]], object]] = {
    "conf": lambda conf: conf,
    "conf[0]": lambda conf: [conf],
    "conf.deep": lambda conf: {"deep": conf},
    "conf[1].deep[0]": lambda conf: [0, {"deep": [conf]}],
}


@pytest.mark.parametrize("path", ORDERS)
def test_the_order_of_keys_is_no_change(path: str) -> None:
    client = BlockingClient.memory()
    for number, conf in enumerate(
        ({"model": 1, "t": 2}, {"t": 2, "model": 1}, {"t": 2, "model": 1})
    ):
        state = {"conf": ORDERS[path](conf), "n": number}
        client.save("a", session_id="s", execution_state=state)
    assert client.blame("s@", path).header.seq == 1
