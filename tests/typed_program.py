"""What a type checker makes of a user's program: `make check` reads this file, nobody runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from lastgood import (
    BlockingClient,
    BlockingRun,
    Checkpoint,
    Client,
    Diff,
    Header,
    Page,
    Run,
    ThreadInfo,
    testing,
)
from lastgood.checkpointers import SqliteCheckpointer


class Plan(TypedDict):
    done: list[str]


@dataclass
class Order:
    total: int = 0


def blocking() -> None:
    with Client.sqlite() as client:
        assert_type(client, BlockingClient)
        start: Plan = {"done": []}
        with client.run("plan", initial=start) as run:
            assert_type(run, BlockingRun[Plan])
            run.state["done"].append("fetch")
            assert_type(run.save(step_name="fetch"), str)
            run.save({"done": []})
            run.save({"odne": []})  # type: ignore[arg-type]
        with client.run("order", initial=Order) as order:
            assert_type(order.state, Order)
            order.save(Order(7))
            order.save("seven")  # type: ignore[arg-type]
        with client.run("whatever") as free:
            free.state["n"] = 1
            free.save({"n": 2})
        saved = client.save("clerk", execution_state={"n": 1}, team="ap")
        assert_type(client.restore(saved), Checkpoint)
        assert_type(client.latest(agent_id="clerk", session_id="s"), Checkpoint | None)
        assert_type(client.log("s"), Page[Header])
        assert_type(client.threads(), Page[ThreadInfo])
        assert_type(client.diff(saved, saved), Diff)
        assert_type(client.aio, Client)


async def not_blocking() -> None:
    async with Client.sqlite() as client:
        assert_type(client, Client)
        start: Plan = {"done": []}
        async with client.run("plan", initial=start) as run:
            assert_type(run, Run[Plan])
            assert_type(await run.save(), str)
            await run.save({"odne": []})  # type: ignore[arg-type]
        assert_type(await client.restore("plan@"), Checkpoint)
        assert_type(client.blocking, BlockingClient)


def threads_of_messages() -> None:
    anything = SqliteCheckpointer("lastgood.db")
    assert_type(anything, SqliteCheckpointer[Any])
    anything.put_state({"thread_id": "t"}, {"total": 1})
    orders = SqliteCheckpointer[Order]("lastgood.db")
    assert_type(orders.get_state({"thread_id": "t"}), Order | None)


def the_contract() -> None:
    testing.contract_params(only=[])  # type: ignore[call-arg]
    testing.run_contract()  # type: ignore[attr-defined]
