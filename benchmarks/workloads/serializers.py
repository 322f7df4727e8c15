"""W9, the serializers alone: 2,000 LangChain messages to bytes and back."""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.figures import Outcome, require_equal
from benchmarks.gates import Times
from benchmarks.scenarios import sized
from benchmarks.workloads.table import Workload

TURNS = 15

Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def _stock() -> Pair:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    serializer = JsonPlusSerializer()
    return serializer.dumps_typed, serializer.loads_typed


def _lastgood() -> Pair:
    from lastgood.codec import Codec

    codec = Codec()
    return codec.pack, codec.unpack


SERIALIZERS: dict[str, Callable[[], Pair]] = {"lastgood": _lastgood, "langgraph-stock": _stock}


def langchain_messages(store: str, directory: Path, scale: float) -> Outcome:  # noqa: ARG001
    """Dump and load the same list of messages some times; each result is compared."""
    from benchmarks.messages import messages

    value = messages(sized(2_000, scale))
    dump, load = SERIALIZERS[store]()
    data = dump(value)
    dumps, loads = [], []
    for _ in range(TURNS):
        begun = perf_counter()
        data = dump(value)
        between = perf_counter()
        loaded = load(data)
        loads.append(perf_counter() - between)
        dumps.append(between - begun)
        require_equal(store, loaded, value)
    size = len(data[1] if isinstance(data, tuple) else data)
    dump_ms, load_ms = median(dumps) * 1e3, median(loads) * 1e3
    seconds = sum(dumps) + sum(loads)
    figures = {"seconds": seconds, "save_ms": dump_ms, "load_ms": load_ms, "bytes": size}
    return Outcome(figures, "in memory")


WORKLOADS = {
    "w9-messages": Workload(
        "W9 the serializers alone: a list of 2,000 LangChain messages",
        tuple(SERIALIZERS),
        langchain_messages,
        {"save_ms": "to bytes ms", "load_ms": "from bytes ms", "bytes": "bytes"},
        (
            Times("save_ms", "lastgood", "langgraph-stock", 3),
            Times("load_ms", "lastgood", "langgraph-stock", 2),
        ),
    ),
}
