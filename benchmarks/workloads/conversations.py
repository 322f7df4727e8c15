"""W11: one message into a thread that is empty, and into one that has 10,000."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.data import conversation
from benchmarks.figures import Outcome, durable, require_equal, spread
from benchmarks.gates import Share
from benchmarks.scenarios import sized
from benchmarks.stores.interface import Store, bytes_in
from benchmarks.stores.spy import spy
from benchmarks.workloads.table import Workload
from lastgood.checkpointers import Message, SqliteCheckpointer

STORE = "lastgood-messages"
FULL = {"thread_id": "full"}


def one_message(store: str, directory: Path, scale: float) -> Outcome:
    """Each is a commit of its own; by turns, so that both meet the same disk."""
    said = [each for turn in conversation(sized(5_500, scale, least=60)) for each in turn]
    messages = [Message(each["role"], each["content"]) for each in said]
    count = len(messages) // 11
    watched = spy()
    checkpointer: SqliteCheckpointer[Any] = SqliteCheckpointer(directory / "messages.db")
    checkpointer.put_messages(FULL, messages[count:])
    checkpointer.put_messages({"thread_id": "warm-up"}, messages[:1])
    empty, full = [], []
    for number, message in enumerate(messages[:count]):
        thread = {"thread_id": f"thread-{number}"}
        empty.append(_timed(lambda m=message, t=thread: checkpointer.put_messages(t, [m])))  # type: ignore[misc]
        full.append(_timed(lambda m=message: checkpointer.put_messages(FULL, [m])))  # type: ignore[misc]
    durability = durable(store, Store.synchronous, watched.pragmas())
    checkpointer.release()
    size = bytes_in(directory)
    again: SqliteCheckpointer[Any] = SqliteCheckpointer(directory / "messages.db")
    require_equal(store, again.get_messages(FULL), [*messages[count:], *messages[:count]])
    again.release()
    figures = {"seconds": sum(full), **spread("empty", empty), **spread("full", full)}
    return Outcome({**figures, "bytes": size}, durability)


def _timed(call: Callable[[], object]) -> float:
    before = perf_counter()
    call()
    return perf_counter() - before


WORKLOADS = {
    "w11": Workload(
        "W11 one message into a thread: with 10,000 messages, and with none",
        (STORE,),
        one_message,
        {
            "empty_p50_ms": "empty p50 ms",
            "full_p50_ms": "10,000 p50 ms",
            "empty_p99_ms": "empty p99 ms",
            "full_p99_ms": "10,000 p99 ms",
            "bytes": "at rest",
        },
        (Share("full_p50_ms", "empty_p50_ms", STORE, 1.1),),
    ),
}
