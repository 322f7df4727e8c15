"""What a process holds that has had many large threads in its hands."""

from pathlib import Path
from time import perf_counter

from benchmarks.data import State, conversation
from benchmarks.figures import Outcome, durable, require_equal
from benchmarks.gates import Limit
from benchmarks.scenarios import sized
from benchmarks.stores.lastgood import CACHE, LastgoodThreads
from benchmarks.workloads.table import Workload

STEPS = 900
"""Steps of a conversation that make a megabyte."""
BESIDE = 100_000_000
"""What the process may hold besides the client's cache."""


def open_threads(store: str, directory: Path, scale: float) -> Outcome:
    """Save 1,000 threads of 1 MB through one client, then open each again through it."""
    messages = [message for added in conversation(STEPS) for message in added]
    opened = LastgoodThreads(directory / "memory.db")
    before = resident()
    count = sized(1_000, scale, least=100)
    begun = perf_counter()
    highest = 0
    for number in range(count):
        opened.save(f"thread-{number}", 1, _state(messages, number))
        highest = max(highest, resident())
    for number in range(count):
        require_equal(store, opened.restore(f"thread-{number}"), _state(messages, number))
        highest = max(highest, resident())
    seconds = perf_counter() - begun
    durability = durable(store, opened.synchronous, opened.pragmas())
    opened.close()
    figures = {"seconds": seconds, "before_mb": before / 1e6, "highest_mb": highest / 1e6}
    return Outcome(figures, durability)


def _state(messages: list[State], number: int) -> State:
    """A conversation of its own: no two threads have a message in common."""
    return {"messages": [{**each, "thread": number} for each in messages]}


def resident() -> int:
    """Bytes of memory that this process occupies."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LookupError("/proc/self/status has no VmRSS")


WORKLOADS = {
    "memory": Workload(
        "Memory: 1,000 threads of 1 MB, saved and opened again through one client",
        ("lastgood",),
        open_threads,
        {
            "seconds": "total s",
            "before_mb": "RSS before MB",
            "highest_mb": "highest RSS MB",
        },
        (Limit("highest_mb", "lastgood", (CACHE + BESIDE) / 1e6),),
        once=frozenset({"lastgood"}),
    ),
}
