"""`python -m benchmarks.graphs`: real LangGraph graphs on LangGraph's own savers and on ours.

Two shapes, as people run them: 200 steps of one loop, and 200 turns of a conversation. Each step or
turn adds two LangChain messages of about 600 bytes, made before the clock is started, and
`durability="sync"` has every step in the store before the next begins.
The savers take turns, several rounds; a figure is the median. Graphs at the same time on
PostgreSQL are 8 such loops, and 8 conversations of 25 turns, in one event loop.

LangGraph's InMemorySaver is the yardstick: it stores nothing, so its time is the graph's own.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, TypedDict

from benchmarks.data import conversation
from benchmarks.report import RESULTS

STEPS, TURNS, AT_ONCE, EACH = 200, 200, 8, 25
Row = dict[str, Any]
Pairs = list[list[Any]]


def _pairs(count: int, seed: int = 1) -> Pairs:
    """The two messages that each step or turn adds; new objects, for a graph may change them."""
    from benchmarks.messages import as_langchain

    return [list(map(as_langchain, pair)) for pair in conversation(count, seed)]


def _joined(state: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*(state or []), *(message for added in writes for message in added)]


def _state(*, delta: bool) -> Any:
    from langgraph.channels.delta import DeltaChannel
    from langgraph.graph.message import add_messages

    class Delta(TypedDict, total=False):
        messages: Annotated[list[Any], DeltaChannel(_joined, list)]
        n: int

    class Plain(TypedDict, total=False):
        messages: Annotated[list[Any], add_messages]
        n: int

    return Delta if delta else Plain


def _graph(pairs: Pairs, *, loops: bool, delta: bool) -> Any:
    """A node that says what is next: both messages of a step, or the second of a turn."""
    from langgraph.graph import END, START, StateGraph

    def answer(state: Any) -> Any:
        number = state.get("n", 0)
        return {"messages": pairs[number] if loops else pairs[number][1:], "n": number + 1}

    graph = StateGraph(_state(delta=delta))
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    if loops:
        graph.add_conditional_edges("answer", lambda s: "answer" if s["n"] < STEPS else END)
    return graph


def _loop(saver: Any, *, delta: bool) -> Callable[[], int]:
    app = _graph(_pairs(STEPS), loops=True, delta=delta).compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": STEPS + 10}

    def play() -> int:
        app.invoke({"n": 0}, config, durability="sync")
        return STEPS

    return play


def _turns(saver: Any, *, delta: bool) -> Callable[[], int]:
    pairs = _pairs(TURNS)
    app = _graph(pairs, loops=False, delta=delta).compile(checkpointer=saver)

    def play() -> int:
        for question, _ in pairs:
            config = {"configurable": {"thread_id": "t"}}
            app.invoke({"messages": [question]}, config, durability="sync")
        return TURNS

    return play


def _stock(path: Path) -> AbstractContextManager[Any]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    found: AbstractContextManager[Any] = SqliteSaver.from_conn_string(str(path))
    return found


def _ours(path: Path) -> AbstractContextManager[Any]:
    from lastgood.adapters.langgraph import LastgoodSaver

    return LastgoodSaver.from_sqlite(str(path))


def _in_memory(_path: Path) -> AbstractContextManager[Any]:
    from langgraph.checkpoint.memory import InMemorySaver

    return nullcontext(InMemorySaver())


SAVERS: dict[str, tuple[Callable[[Path], AbstractContextManager[Any]], bool]] = {
    "SqliteSaver": (_stock, False),
    "SqliteSaver, DeltaChannel": (_stock, True),
    "LastgoodSaver": (_ours, False),
    "LastgoodSaver, DeltaChannel": (_ours, True),
    "InMemorySaver": (_in_memory, False),
}
SHAPES: dict[str, Callable[..., Callable[[], int]]] = {"loop": _loop, "turns": _turns}


def _rounds(directory: Path, rounds: int) -> Iterator[Row]:
    """Every saver on every shape, in turn."""
    for number in range(rounds):
        for shape, play in SHAPES.items():
            for name, (opened, delta) in SAVERS.items():
                with tempfile.TemporaryDirectory(dir=directory) as place:
                    yield {"round": number, "shape": shape, "saver": name} | _played(
                        Path(place) / "x.db", opened, play, delta=delta
                    )


def _played(path: Path, opened: Any, shape: Callable[..., Any], *, delta: bool) -> Row:
    with opened(path) as saver:
        play = shape(saver, delta=delta)
        begun = perf_counter()
        units = play()
        milliseconds = (perf_counter() - begun) * 1000 / units
    size = sum(file.stat().st_size for file in path.parent.iterdir())
    return {"ms": milliseconds, "bytes": size}


# many graphs on one PostgreSQL


async def _talk(app: Any, pairs: Pairs, config: Any) -> int:
    for question, _ in pairs:
        await app.ainvoke({"messages": [question]}, config, durability="sync")
    return len(pairs)


async def _go_round(app: Any, pairs: Pairs, config: Any) -> int:
    await app.ainvoke({"n": 0}, config, durability="sync")
    return len(pairs)


async def _at_once(saver: Any, play: Callable[..., Any], count: int, *, loops: bool) -> float:
    """Milliseconds per step or turn of several graphs at the same time."""
    work = []
    for number in range(AT_ONCE):
        pairs = _pairs(count, seed=number)
        app = _graph(pairs, loops=loops, delta=False).compile(checkpointer=saver)
        thread = {"thread_id": f"thread {number}"}
        work.append((app, pairs, {"configurable": thread, "recursion_limit": STEPS + 10}))
    begun = perf_counter()
    units: int = sum(await asyncio.gather(*(play(*each) for each in work)))
    return (perf_counter() - begun) * 1000 / units


@asynccontextmanager
async def _postgres_stock(url: str) -> AsyncIterator[Any]:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(url, max_size=20, kwargs=options) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        yield saver


@asynccontextmanager
async def _postgres_ours(url: str) -> AsyncIterator[Any]:
    from lastgood.adapters.langgraph import LastgoodSaver

    async with LastgoodSaver.from_postgres(url) as saver:
        await saver.aget_tuple({"configurable": {"thread_id": "none"}})
        yield saver


@asynccontextmanager
async def _no_server(_url: str) -> AsyncIterator[Any]:
    from langgraph.checkpoint.memory import InMemorySaver

    yield InMemorySaver()


SERVED = {
    "AsyncPostgresSaver": _postgres_stock,
    "LastgoodSaver": _postgres_ours,
    "InMemorySaver": _no_server,
}
AT_ONCE_SHAPES = {
    "loops at once": (_go_round, STEPS, True),
    "turns at once": (_talk, EACH, False),
}


def _server_rounds(rounds: int) -> Iterator[Row]:
    """Every saver on every shape, each on a server of its own."""
    from lastgood.testing.servers import PostgresServer, ServerMissing

    for number, shape, name in product(range(rounds), AT_ONCE_SHAPES, SERVED):
        try:
            with PostgresServer(fsync=True) as server:
                ms = asyncio.run(_served(server.url, shape, name))
        except ServerMissing as missing:
            print(f"left out: {missing}")
            return
        yield {"round": number, "shape": shape, "saver": name, "ms": ms, "bytes": 0}


async def _served(url: str, shape: str, name: str) -> float:
    play, count, loops = AT_ONCE_SHAPES[shape]
    async with SERVED[name](url) as saver:
        return await _at_once(saver, play, count, loops=loops)


# showing


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Medians, and how each saver compares with LangGraph's plain one."""
    yield "| graph | saver | ms per step or turn | compared | file | compared |"
    yield "|---|---|---|---|---|---|"
    for shape in dict.fromkeys(row["shape"] for row in rows):
        of = [row for row in rows if row["shape"] == shape]
        names = list(dict.fromkeys(row["saver"] for row in of))
        medians = {name: _median(of, name) for name in names}
        base = medians[names[0]]
        for name, (ms, size) in medians.items():
            smaller = f"1/{base[1] / size:.0f}" if size else "-"
            shown = f"{size / 1e6:.2f} MB" if size else "-"
            yield f"| {shape} | {name} | {ms:.2f} | {base[0] / ms:.2f} x | {shown} | {smaller} |"


def _median(rows: Sequence[Row], saver: str) -> tuple[float, float]:
    own = [row for row in rows if row["saver"] == saver]
    return statistics.median(r["ms"] for r in own), statistics.median(r["bytes"] for r in own)


def main() -> None:
    """Measure and show the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graphs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=RESULTS, help="where the files are made")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    rows = [*_rounds(options.directory, options.rounds), *_server_rounds(options.rounds)]
    path = RESULTS / "graphs" / "newest.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
