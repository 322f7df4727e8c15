"""Bringing data over from LangGraph's own savers and from checkpnt, by the command."""

import asyncio
import json
import operator
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import ormsgpack
import pytest
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from lastgood import BlockingClient
from lastgood.adapters.checkpnt import bring_over as from_checkpnt
from lastgood.adapters.importing import Count
from lastgood.adapters.langgraph import LastgoodSaver
from lastgood.adapters.langgraph.migrating import bring_over
from lastgood.adapters.langgraph.sources import SqliteSource
from lastgood.adapters.langgraph.stock import StockSerde
from lastgood.cli import main
from lastgood.errors import SerializationError, StorageError
from tests.langgraph.states import Order, Other
from tests.langgraph.test_deltas import graph as with_deltas
from tests.langgraph.test_deltas import talk
from tests.test_docs import ROOT, python_blocks

COMING = ROOT / "docs/how-to/coming-from.md"


class State(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    log: Annotated[list[str], operator.add]


def graph() -> StateGraph[Any, Any, Any, Any]:
    def answer(state: State) -> State:
        text = f"answer {len(state['messages'])} " + "x" * 500
        return {"messages": [AIMessage(text)], "log": ["answer"]}

    def ask(_: State) -> State:
        return {"log": [interrupt("sure?")]}

    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    made = StateGraph(State)
    made.add_node("answer", answer)
    made.add_node("inner", inner.compile())
    made.add_edge(START, "answer")
    made.add_edge("answer", "inner")
    return made


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    path = tmp_path / "stock.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        app = graph().compile(checkpointer=saver)
        for thread in ("one", "two"):
            for turn in range(8):
                app.invoke({"messages": [HumanMessage(f"turn {turn}")]}, config(thread))
                if turn < 7:
                    app.invoke(Command(resume=f"yes {turn}"), config(thread))
    return path


def contents(saver: Any, place: Any = None) -> list[Any]:
    found = []
    for each in saver.list(place):
        configurable = each.config["configurable"]
        place = tuple(configurable[key] for key in ("thread_id", "checkpoint_ns", "checkpoint_id"))
        parent = each.parent_config and each.parent_config["configurable"]["checkpoint_id"]
        found.append((place, parent, each.checkpoint, each.metadata, each.pending_writes))
    return sorted(found, key=lambda entry: entry[0])


def test_everything_comes_over(stock: Path, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "ours.db"
    assert main(["import", "langgraph-sqlite", str(stock), "--store", str(target)]) == 0
    assert "2 threads" in capsys.readouterr().out
    with SqliteSaver.from_conn_string(str(stock)) as theirs:
        expected = contents(theirs)
    ours = LastgoodSaver.from_sqlite(str(target))
    found = contents(ours)
    assert [entry[:2] for entry in found] == [entry[:2] for entry in expected]
    for mine, other in zip(found, expected, strict=True):
        assert mine[2] == other[2]
        assert mine[3] == other[3]
        assert mine[4] == other[4]


def test_the_graph_goes_on_with_the_same_result(stock: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "ours.db")
    main(["import", "langgraph-sqlite", str(stock), "--store", target])
    results = []
    with SqliteSaver.from_conn_string(str(stock)) as theirs:
        for saver in (theirs, LastgoodSaver.from_sqlite(target)):
            app = graph().compile(checkpointer=saver)
            assert app.get_state(config("one")).interrupts[0].value == "sure?"
            app.invoke(Command(resume="yes"), config("one"))
            app.invoke({"messages": [HumanMessage("more")]}, config("one"))
            found = app.get_state(config("one")).values
            results.append(([message.content for message in found["messages"]], found["log"]))
    assert results[0] == results[1]


def test_values_that_were_changed_in_place_come_over_as_they_are(tmp_path: Path) -> None:
    """Their savers store every value at every step, also under a version that did not change."""

    class Cart(TypedDict):
        items: dict[str, list[int]]
        n: int

    def add(state: Cart) -> Any:
        state["items"]["all"].append(state["n"])
        return {"n": state["n"] + 1}

    made = StateGraph(Cart)
    made.add_node("add", add)
    made.add_node("once more", add)
    made.add_edge(START, "add")
    made.add_edge("add", "once more")
    path = tmp_path / "theirs.db"
    with SqliteSaver.from_conn_string(str(path)) as theirs:
        app = made.compile(checkpointer=theirs)
        app.invoke({"items": {"all": []}, "n": 0}, config("t"), durability="sync")
        there = [each.values for each in app.get_state_history(config("t"))]
    with BlockingClient.sqlite(tmp_path / "ours.db") as client:
        imported(client, path)
        app = made.compile(checkpointer=LastgoodSaver(client))
        assert [each.values for each in app.get_state_history(config("t"))] == there
    assert there[0] == {"items": {"all": [0, 1]}, "n": 2}


def test_a_dry_run_says_how_much_smaller(stock: Path, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "ours.db"
    words = ["import", "langgraph-sqlite", str(stock), "--store", str(target), "--dry-run"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["threads"] == 2
    assert 0 < told["bytes_after"] < told["bytes_before"]
    assert main(words) == 0
    assert "would become" in capsys.readouterr().out
    assert not target.exists()


def test_an_interrupted_import_is_begun_again(stock: Path, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(count: Count) -> None:
        if count.seen == 17:
            raise Stop

    client = BlockingClient.sqlite(tmp_path / "ours.db")
    source = SqliteSource(stock, StockSerde())
    with pytest.raises(Stop):
        bring_over(client, source, stop)
    done = bring_over(client, source)
    assert (done.skipped, done.seen) == (17, done.of)
    again = bring_over(client, source)
    assert (again.checkpoints, again.skipped) == (0, done.of)
    with SqliteSaver.from_conn_string(str(stock)) as theirs:
        assert contents(LastgoodSaver(client)) == contents(theirs)
    source.close()


class TestWritesThatCameLater:
    """A second import, after tasks have written to checkpoints that the first one brought."""

    @pytest.fixture
    def client(self, stock: Path, tmp_path: Path) -> Iterator[BlockingClient]:
        with BlockingClient.sqlite(tmp_path / "ours.db") as client:
            imported(client, stock)
            yield client

    def test_are_brought_over(self, client: BlockingClient, stock: Path) -> None:
        with SqliteSaver.from_conn_string(str(stock)) as theirs:
            head = theirs.get_tuple(config("one"))
            assert head is not None
            theirs.put_writes(head.config, [("log", ["late"]), ("log", ["later"])], str(uuid4()))
            theirs.put_writes(head.config, [("__error__", ValueError("no"))], str(uuid4()))
            again = imported(client, stock)
            assert (again.checkpoints, again.writes, again.differing) == (0, 3, 0)
            assert contents(LastgoodSaver(client)) == contents(theirs)
        assert imported(client, stock).writes == 0

    def test_that_differ_are_left_and_counted(
        self, client: BlockingClient, stock: Path, capsys: Any
    ) -> None:
        """Whose is newer cannot be told: the graph may have gone on here, or there."""
        ours = LastgoodSaver(client)
        with SqliteSaver.from_conn_string(str(stock)) as theirs:
            head = theirs.get_tuple(config("one"))
            assert head is not None
            theirs.put_writes(head.config, [("__resume__", ["old"])], str(task := uuid4()))
        ours.put_writes(head.config, [("__resume__", ["new"])], str(task))
        again = imported(client, stock)
        assert (again.checkpoints, again.writes, again.differing) == (0, 0, 1)
        found = ours.get_tuple(config("one"))
        assert found is not None
        assert (str(task), "__resume__", ["new"]) in (found.pending_writes or [])
        target = client.url.removeprefix("sqlite:///")
        assert main(["import", "langgraph-sqlite", str(stock), "--store", target]) == 0
        assert "1 write differs" in capsys.readouterr().out

    def test_are_not_added_to_what_prune_left_of_a_delta_channel(self, tmp_path: Path) -> None:
        """There they stand already, under other numbers."""
        path, client = tmp_path / "stock.db", BlockingClient.memory()
        with SqliteSaver.from_conn_string(str(path)) as theirs:
            talk(with_deltas(theirs), 5, config("t"))
            expected = with_deltas(theirs).get_state(config("t"))
        imported(client, path)
        LastgoodSaver(client).prune(["t"])
        assert imported(client, path).writes == 0
        for place in (expected.config, config("t")):
            found = with_deltas(LastgoodSaver(client)).get_state(place)
            assert found.values == expected.values


def test_what_was_removed_here_is_not_brought_again(stock: Path, tmp_path: Path) -> None:
    with BlockingClient.sqlite(tmp_path / "ours.db") as client:
        imported(client, stock)
        ours = LastgoodSaver(client)
        ours.prune(["one"])
        expected = ours.get_tuple(config("one"))
        kept = [each.config for each in ours.list(config("one"))]
        again = imported(client, stock)
        assert again.checkpoints == 0
        assert ours.get_tuple(config("one")) == expected
        assert [each.config for each in ours.list(config("one"))] == kept
        with SqliteSaver.from_conn_string(str(stock)) as theirs:
            graph().compile(checkpointer=theirs).invoke(
                {"messages": [HumanMessage("more")], "log": ["more"]}, config("one")
            )
            assert imported(client, stock).checkpoints > 0
            newest, found = theirs.get_tuple(config("one")), ours.get_tuple(config("one"))
            assert newest is not None
            assert found is not None
            assert found.config["configurable"]["checkpoint_id"] == newest.checkpoint["id"]


def imported(client: BlockingClient, path: Path) -> Count:
    with closing(SqliteSource(path, StockSerde())) as source:
        return bring_over(client, source)


def test_a_class_that_is_not_allowed_is_named(tmp_path: Path, capsys: Any) -> None:
    path, target = tmp_path / "stock.db", tmp_path / "ours.db"

    class Typed(TypedDict):
        basket: dict[str, Any]

    made = StateGraph(Typed)
    made.add_node("a", lambda state: {"basket": {"orders": [1, Order("x")]}})
    made.add_edge(START, "a")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        made.compile(checkpointer=saver).invoke({"basket": {}}, config("t"))
    words = ["import", "langgraph-sqlite", str(path), "--store", str(target)]
    assert main(words) == 4
    told = capsys.readouterr().err
    assert "basket.orders[1]" in told
    assert "--allow tests.langgraph.states:Order" in told
    assert main([*words, "--allow", "tests.langgraph.states:Order"]) == 0
    app = made.compile(checkpointer=LastgoodSaver.from_sqlite(str(target)))
    assert app.get_state(config("t")).values == {"basket": {"orders": [1, Order("x")]}}


class TestThreadsThatCannotBeBrought:
    """They are told of, all at once, and the others come over."""

    @pytest.fixture
    def mixed(self, stock: Path) -> Path:
        """A class that nobody knows in "n", a blob that is none in "one"; a name that is long."""
        made = StateGraph(dict)
        made.add_node("a", lambda _: {"order": Order("x"), "others": [Other("y")]})
        made.add_edge(START, "a")
        with SqliteSaver.from_conn_string(str(stock)) as saver:
            made.compile(checkpointer=saver).invoke({}, config("n"))
            graph().compile(checkpointer=saver).invoke({"messages": []}, config("a" * 300))
        with closing(sqlite3.connect(stock)) as file, file:
            newest = "(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'one')"
            damaged = f"UPDATE checkpoints SET checkpoint = x'c1' WHERE checkpoint_id = {newest}"
            file.execute(damaged)
        return stock

    def test_do_not_stop_the_others(self, mixed: Path, tmp_path: Path, capsys: Any) -> None:
        target = tmp_path / "ours.db"
        words = ["import", "langgraph-sqlite", str(mixed), "--store", str(target)]
        assert main([*words, "--dry-run"]) == 4
        dry = capsys.readouterr().err
        assert not target.exists()
        assert main(words) == 4
        out, told = capsys.readouterr()
        assert told == dry
        assert "of 1 thread." in out
        assert "3 threads could not be brought over" in told
        assert "longer than 255 bytes" in told
        assert "cannot be decoded" in told
        name = Order.__module__
        assert f"--allow {name}:Order --allow {name}:Other" in told
        with SqliteSaver.from_conn_string(str(mixed)) as theirs:
            expected = contents(theirs, config("two"))
        assert contents(LastgoodSaver.from_sqlite(str(target)), config("two")) == expected
        assert main([*words, "--json", "--allow", f"{name}:Order", "--allow", f"{name}:Other"]) == 4
        found = json.loads(capsys.readouterr().out)
        assert [each["thread"] for each in found["refused"]] == ["a" * 300, "one"]

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("checkpoint", None),
            ("checkpoint", ormsgpack.packb([1])),
            ("checkpoint", ormsgpack.packb({"v": 4, "channel_values": {}})),
            ("metadata", b"[]"),
            ("metadata", b"{no"),
        ],
    )
    def test_rows_of_another_shape(self, stock: Path, column: str, value: Any) -> None:
        with closing(sqlite3.connect(stock)) as file, file:
            newest = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'one'"
            (id,) = file.execute(newest).fetchone()
            file.execute(
                f"UPDATE checkpoints SET {column} = ? WHERE checkpoint_id = ?", (value, id)
            )
        with (
            BlockingClient.memory() as client,
            closing(SqliteSource(stock, StockSerde())) as theirs,
        ):
            found = bring_over(client, theirs)
            (refused,) = found.refused
            assert (refused.thread, found.threads) == ("one", len(theirs.threads()) - 1)
            assert f'one["{id}"]' in refused.error

    @pytest.mark.parametrize(
        "change",
        [
            "checkpoints SET metadata = printf('%.*c', 100000, '[')",
            "checkpoints SET parent_checkpoint_id = x'ff'",
            "checkpoints SET thread_id = x'ff'",
            "writes SET idx = idx + (1 << 40)",
            "writes SET task_id = CAST(task_id AS BLOB)",
        ],
    )
    def test_what_no_saver_writes(self, stock: Path, change: str, capsys: Any) -> None:
        with closing(sqlite3.connect(stock)) as file, file:
            file.execute(f"UPDATE {change} WHERE thread_id = 'one'")
        words = ["import", "langgraph-sqlite", str(stock), "--store", f"{stock}.ours", "--json"]
        assert main(words) == 4
        found = json.loads(capsys.readouterr().out)
        assert "not of the shape" in found["refused"][0]["error"]
        assert (len(found["refused"]), found["threads"]) == (1, 1)

    def test_many_are_counted(self, stock: Path, capsys: Any) -> None:
        with closing(sqlite3.connect(stock)) as file, file:
            file.execute("UPDATE checkpoints SET thread_id = printf('%300s', rowid)")
        assert main(["import", "langgraph-sqlite", str(stock), "--store", "o.db", "--dry-run"]) == 4
        told = capsys.readouterr().err
        assert told.count("longer than 255 bytes") == 10
        assert "more; --json lists all of them" in told

    def test_a_store_that_fails_ends_the_import(self, stock: Path, tmp_path: Path) -> None:
        with pytest.raises(StorageError), BlockingClient.sqlite(tmp_path) as client:
            imported(client, stock)


def test_an_allowed_class_must_be_there(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the stock serializer gives its fields, and the graph would go on with a dict."""
    path, target, code = tmp_path / "stock.db", tmp_path / "ours.db", tmp_path / "code"
    code.mkdir()
    (code / "bakery.py").write_text(
        "import dataclasses\n@dataclasses.dataclass\nclass Bread:\n    kind: str\n"
    )
    make = (
        "import bakery, sys\n"
        "from langgraph.checkpoint.sqlite import SqliteSaver\n"
        "from langgraph.graph import START, StateGraph\n"
        "made = StateGraph(dict)\n"
        "made.add_node('a', lambda _: {'bread': bakery.Bread('rye')})\n"
        "made.add_edge(START, 'a')\n"
        "with SqliteSaver.from_conn_string(sys.argv[1]) as saver:\n"
        "    app = made.compile(checkpointer=saver)\n"
        "    app.invoke({}, {'configurable': {'thread_id': 't'}})\n"
    )
    subprocess.run([sys.executable, "-c", make, str(path)], cwd=code, check=True)
    words = ["import", "langgraph-sqlite", str(path), "--store", str(target)]
    words += ["--allow", "bakery:Bread"]
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert main(words) == 4
    assert "bakery.Bread, which cannot be rebuilt" in capsys.readouterr().err
    monkeypatch.chdir(code)
    assert main(words) == 0
    found = LastgoodSaver.from_sqlite(str(target)).get_tuple(config("t"))
    assert found is not None
    assert type(found.checkpoint["channel_values"]["__root__"]["bread"]).__name__ == "Bread"


class Reversing:
    """A cipher."""

    def encrypt(self, plain: bytes) -> tuple[str, bytes]:
        return "reversing", plain[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[::-1]


def test_what_is_encrypted_comes_over_when_it_is_not(tmp_path: Path, capsys: Any) -> None:
    """As the page says: its function is run on a copy."""
    path, sealed = tmp_path / "sealed.db", EncryptedSerializer(Reversing())
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        app = graph().compile(checkpointer=SqliteSaver(connection, serde=sealed))
        app.invoke({"messages": [HumanMessage("hello")]}, config("t"))
        values = app.get_state(config("t")).values
    words = ["import", "langgraph-sqlite", str(path), "--store", str(tmp_path / "ours.db")]
    assert main(words) == 4
    told = capsys.readouterr().err
    assert "is stored as 'msgpack+reversing', which is encrypted." in told
    assert "pickle" not in told
    [block] = [b for b in python_blocks(COMING) if "def without_encryption" in b.text]
    names: dict[str, Any] = {}
    exec(block.text, names)
    names["without_encryption"](path, sealed)
    assert main(words) == 0
    ours = graph().compile(checkpointer=LastgoodSaver.from_sqlite(str(tmp_path / "ours.db")))
    assert ours.get_state(config("t")).values == values
    assert ours.invoke(Command(resume="yes"), config("t"))["log"] == ["answer", "answer", "yes"]


def test_what_cannot_be_rebuilt_is_an_error() -> None:
    """A class that has other fields by now."""
    name = (Order.__module__, "Order")
    packed = JsonPlusSerializer().dumps_typed(Order("x"))[1]
    assert StockSerde([name]).load("msgpack", packed, ("t",)) == Order("x")
    with pytest.raises(SerializationError, match=r"Order, which cannot be rebuilt") as refused:
        StockSerde([name]).load("msgpack", packed.replace(b"\xa4name", b"\xa4size"), ("t",))
    assert refused.value.path == "t"


class TestJsonOfOldFiles:
    """Before msgpack a class was named in a dict: unknown ones came over as such dicts, or None."""

    @staticmethod
    def stored(*id: str, **given: Any) -> dict[str, Any]:
        return {"lc": 2, "type": "constructor", "id": list(id), **given}

    def load(self, value: Any, *allowed: tuple[str, str], channel: str = "c") -> Any:
        return StockSerde(allowed).load("json", json.dumps(value).encode(), ("t", channel))

    def test_values(self) -> None:
        when = self.stored(
            "datetime", "datetime", method="fromisoformat", args=["2024-05-06T00:00:00+00:00"]
        )
        message = dumpd(HumanMessage("hello", id="1"))
        held = self.stored("builtins", "set", args=[[1, 2]])
        found = self.load({"when": when, "messages": [message], "held": held, "plain": {"lc": 2}})
        assert found == {
            "when": datetime(2024, 5, 6, tzinfo=UTC),
            "messages": [HumanMessage("hello", id="1")],
            "held": {1, 2},
            "plain": {"lc": 2},
        }

    def test_classes_must_be_allowed_and_be_there(self) -> None:
        name = Order.__module__
        order = self.stored(*name.split("."), "Order", kwargs={"name": "x"})
        with pytest.raises(SerializationError, match=rf"t\.c\.orders\[1\].*{name}\.Order") as error:
            self.load({"orders": [1, order]})
        assert f"--allow {name}:Order" in str(error.value.hint)
        assert self.load([order], (name, "Order")) == [Order("x")]
        order["kwargs"] = {"fields": "are others"}
        with pytest.raises(SerializationError, match="cannot be rebuilt"):
            self.load([order], (name, "Order"))

    def test_what_was_never_stored_is_refused(self) -> None:
        nothing = {"lc": 1, "type": "not_implemented", "id": ["shop", "Order"], "repr": "Order()"}
        with pytest.raises(SerializationError) as refused:
            self.load([nothing])
        assert refused.value.path == "t.c"

    def test_errors_of_tasks_are_text(self) -> None:
        error = self.stored("builtins", "ValueError", args=["no", 1])
        assert self.load(error, channel="__error__") == "ValueError('no', 1)"


def test_what_is_no_such_file_is_refused(tmp_path: Path, capsys: Any) -> None:
    target = ["--store", str(tmp_path / "ours.db")]
    assert main(["import", "langgraph-sqlite", str(tmp_path / "none.db"), *target]) == 3
    empty = tmp_path / "empty.db"
    with closing(sqlite3.connect(empty)) as other:
        other.execute("CREATE TABLE t (x)")
    assert main(["import", "langgraph-sqlite", str(tmp_path), *target]) == 4
    assert main(["import", "langgraph-sqlite", str(empty), *target]) == 4
    assert main(["import", "langgraph-sqlite", str(empty), "--allow", "x", *target]) == 2
    assert main(["import", "checkpnt", str(empty), *target]) == 4
    assert main(["import", "langgraph-postgres", "host=/nowhere", *target]) == 4
    assert "password" not in capsys.readouterr().err


def test_a_foreign_file_says_how(stock: Path, capsys: Any) -> None:
    assert main(["threads", "--store", str(stock)]) == 4
    assert f"lastgood import langgraph-sqlite {stock}" in capsys.readouterr().err


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    """A schema of its own on the server, as a connection string."""
    import psycopg

    schema = f"stock_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        mark = "&" if "?" in postgres_url else "?"
        yield f"{postgres_url}{mark}options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def test_postgres_comes_over(database: str, tmp_path: Path, capsys: Any) -> None:
    from langgraph.checkpoint.postgres import PostgresSaver

    target = str(tmp_path / "ours.db")
    with PostgresSaver.from_conn_string(database) as theirs:
        theirs.setup()
        app = graph().compile(checkpointer=theirs)
        for turn in range(4):
            app.invoke({"messages": [HumanMessage(f"turn {turn}")]}, config("one"))
            if turn < 3:
                app.invoke(Command(resume=f"yes {turn}"), config("one"))
        words = ["import", "langgraph-postgres", database, "--store", target]
        assert main([*words, "--dry-run"]) == 0
        assert main(words) == 0
        ours = LastgoodSaver.from_sqlite(target)
        assert contents(ours) == contents(theirs)
        assert main([*words, "--json"]) == 0
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (told["checkpoints"], told["writes"], told["differing"]) == (0, 0, 0)
        head = theirs.get_tuple(config("one"))
        assert head is not None
        theirs.put_writes(head.config, [("log", ["late"])], str(uuid4()))
        assert main(words) == 0
        assert "1 write was added" in capsys.readouterr().out
        assert contents(ours) == contents(theirs)
        results = []
        for saver in (theirs, ours):
            app = graph().compile(checkpointer=saver)
            app.invoke(Command(resume="yes"), config("one"))
            results.append(app.get_state(config("one")).values["log"])
        assert results[0] == results[1]


def sending() -> StateGraph[Any, Any, Any, Any]:
    made = StateGraph(State)
    made.add_node("fan", lambda _: {"log": ["fan"]})
    made.add_node("work", lambda sent: {"log": [f"work {sent['n']}"]})
    made.add_edge(START, "fan")
    made.add_conditional_edges("fan", lambda _: [Send("work", {"n": n}) for n in range(3)])
    return made


def test_what_was_sent_before_checkpoints_had_it_comes_over(database: str, tmp_path: Path) -> None:
    """Up to version 3 of checkpoints it was found among the writes of the step before."""
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver

    target = str(tmp_path / "ours.db")
    with PostgresSaver.from_conn_string(database) as theirs:
        theirs.setup()
        app = sending().compile(checkpointer=theirs, interrupt_before=["work"])
        app.invoke({"log": []}, config("one"), durability="sync")
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{v}', '3')"
                " #- '{channel_versions,__pregel_tasks}'"
            )
        assert main(["import", "langgraph-postgres", database, "--store", target]) == 0
        with LastgoodSaver.from_sqlite(target) as ours:
            assert contents(ours) == contents(theirs)
            goes_on = sending().compile(checkpointer=ours)
            assert goes_on.get_state(config("one")).next == ("work", "work", "work")
            found = goes_on.invoke(None, config("one"))
        assert found["log"] == ["fan", "work 0", "work 1", "work 2"]


class TestCheckpnt:
    @pytest.fixture
    def theirs(self, tmp_path: Path) -> Path:
        from checkpnt.backends.sqlite import SQLiteBackend
        from checkpnt.schemas.checkpoint import CheckpointBuilder, Framework

        path = tmp_path / "theirs.db"

        async def fill() -> None:
            backend = SQLiteBackend(str(path))
            parent = None
            for number in range(5):
                builder = CheckpointBuilder("agent", Framework.LANGGRAPH).session("run-1")
                builder.step(number, name=f"step {number}").execution_state({"n": [number] * 50})
                builder.context({"total": number})
                if number in (2, 3):
                    builder.parent(parent)
                parent = await backend.save(builder.build())
            await backend._db.close()

        asyncio.run(fill())
        return path

    def test_a_thread_ends_before_what_cannot_be_read(
        self, theirs: Path, tmp_path: Path, capsys: Any
    ) -> None:
        target = str(tmp_path / "ours.db")
        with closing(sqlite3.connect(theirs)) as file, file:
            file.execute("UPDATE checkpoints SET payload = x'c1' WHERE step_index = 2")
        assert main(["import", "checkpnt", str(theirs), "--store", target, "--json"]) == 4
        found = json.loads(capsys.readouterr().out)
        assert (found["checkpoints"], found["threads"]) == (2, 0)
        assert [each["thread"] for each in found["refused"]] == ["run-1"]
        with BlockingClient.sqlite(target) as client:
            assert [each.state["n"][0] for each in client.timeline("agent", "run-1")] == [1, 0]

    def change(self, theirs: Path, **fields: Any) -> str:
        """Give the checkpoint of step 2 other fields; its id."""
        with closing(sqlite3.connect(theirs)) as file, file:
            row = "FROM checkpoints WHERE step_index = 2"
            id, payload = file.execute(f"SELECT checkpoint_id, payload {row}").fetchone()
            packed = ormsgpack.packb(ormsgpack.unpackb(payload) | fields)
            file.execute("UPDATE checkpoints SET payload = ? WHERE step_index = 2", [packed])
        return str(id)

    def test_what_has_no_place_here_is_not_called_unreadable(
        self, theirs: Path, tmp_path: Path
    ) -> None:
        id = self.change(theirs, step_name="two\nlines")
        with BlockingClient.sqlite(tmp_path / "ours.db") as client:
            (refused,) = from_checkpnt(client, theirs).refused
        assert refused.error.startswith(f"checkpoint {id}: step_name 'two\\nlines' contains")
        assert refused.hint == ""

    def test_times_that_cannot_be_keep_no_other_thread(self, theirs: Path, tmp_path: Path) -> None:
        self.change(theirs, created_at="9999-12-31T23:59:59-12:00")
        with closing(sqlite3.connect(theirs)) as file, file:
            changes = "session_id = 'run-2', expires_at_ms = 'soon'"
            file.execute(f"UPDATE checkpoints SET {changes} WHERE step_index = 0")
        with BlockingClient.sqlite(tmp_path / "ours.db") as client:
            told = {each.thread: each.error for each in from_checkpnt(client, theirs).refused}
            assert "date value out of range" in told["run-1"]
            assert "'soon', which is no time" in told["run-2"]

    def test_an_id_is_not_replaced_by_another(self, theirs: Path, tmp_path: Path) -> None:
        self.change(theirs, checkpoint_id="mine-1")
        with BlockingClient.sqlite(tmp_path / "ours.db") as client:
            for _ in range(2):
                (refused,) = from_checkpnt(client, theirs).refused
                assert refused.error.startswith("checkpoint mine-1: its id is no UUID")
                assert len(client.timeline("agent", "run-1")) == 2

    def test_comes_over(self, theirs: Path, tmp_path: Path, capsys: Any) -> None:
        target = str(tmp_path / "ours.db")
        assert main(["import", "checkpnt", str(theirs), "--store", target]) == 0
        with BlockingClient.sqlite(target) as client:
            found = client.timeline("agent", "run-1")
            assert [each.state["n"][0] for each in found] == [4, 3, 2, 1, 0]
            assert [each.agent_context for each in found] == [
                {"total": n} for n in range(4, -1, -1)
            ]
            assert {each.branch for each in found} == {"main"}
            with closing(sqlite3.connect(theirs)) as rows:
                parents = dict(rows.execute("SELECT checkpoint_id, parent_id FROM checkpoints"))
            assert {each.checkpoint_id for each in found} == set(parents)
            assert all(parents[each.checkpoint_id] in (None, each.parent_id) for each in found)
        assert main(["import", "checkpnt", str(theirs), "--store", target, "--json"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["skipped"] == 5

    def test_what_was_done_anew_from_an_older_step_is_the_latest(
        self, theirs: Path, tmp_path: Path
    ) -> None:
        """There the newest is the latest, whichever step it follows."""
        with closing(sqlite3.connect(theirs)) as file, file:
            rows = file.execute("SELECT checkpoint_id FROM checkpoints ORDER BY step_index")
            ids = [row[0] for row in rows]
        self.change(theirs, parent_id=ids[0])
        with BlockingClient.sqlite(tmp_path / "ours.db") as client:
            assert from_checkpnt(client, theirs).checkpoints == 5
            latest = client.latest(agent_id="agent", session_id="run-1")
            assert latest is not None
            assert latest.checkpoint_id == ids[4]
            line = [each.checkpoint_id for each in client.walk(ids[4])]
            assert line == [ids[4], ids[3], ids[2], ids[0]]
            assert len(client.branches("run-1", agent_id="agent")) == 2

    def test_a_session_that_was_begun_from_another_one_comes_over(
        self, theirs: Path, tmp_path: Path
    ) -> None:
        with closing(sqlite3.connect(theirs)) as file, file:
            id = self.change(theirs, session_id="run-2")
            file.execute("UPDATE checkpoints SET session_id = 'run-2' WHERE step_index = 2")
        with BlockingClient.sqlite(tmp_path / "ours.db") as client:
            count = from_checkpnt(client, theirs)
            assert (count.checkpoints, count.refused) == (5, ())
            latest = client.latest(agent_id="agent", session_id="run-2")
            assert latest is not None
            assert (latest.checkpoint_id, latest.parent_id) == (id, None)
            states = [each.state["n"][0] for each in client.timeline("agent", "run-1")]
            assert states == [4, 3, 1, 0]

    def test_what_was_done_here_since_stays_the_latest(self, theirs: Path, tmp_path: Path) -> None:
        """An import that brings what the old program has added meanwhile."""
        row = "FROM checkpoints WHERE checkpoint_id = ?"
        with closing(sqlite3.connect(theirs)) as file, file:
            ids = file.execute("SELECT checkpoint_id FROM checkpoints ORDER BY step_index")
            (parent,), (id,) = ids.fetchall()[-2:]
            late = file.execute(f"SELECT * {row}", [id]).fetchone()
            payload = ormsgpack.unpackb(file.execute(f"SELECT payload {row}", [id]).fetchone()[0])
            file.execute(f"DELETE {row}", [id])
        with BlockingClient.sqlite(tmp_path / "ours.db") as client:
            assert from_checkpnt(client, theirs).checkpoints == 4
            ours = client.save("agent", session_id="run-1", execution_state={"n": "new"})
            with closing(sqlite3.connect(theirs)) as file, file:
                file.execute(f"INSERT INTO checkpoints VALUES ({', '.join('?' * len(late))})", late)
                followed = [ormsgpack.packb(payload | {"parent_id": parent}), id]
                file.execute("UPDATE checkpoints SET payload = ? WHERE checkpoint_id = ?", followed)
            assert from_checkpnt(client, theirs).checkpoints == 1
            latest = client.latest(agent_id="agent", session_id="run-1")
            assert latest is not None
            assert latest.checkpoint_id == ours
            assert client.restore(id).parent_id == parent
