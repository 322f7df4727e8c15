"""The built-in checkpointers: what they take, and that they hold in scripts, forks and crashes."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import pydantic
import pytest
from langchain_core.messages import AIMessage

from lastgood import SerializationError, registry
from lastgood.checkpointers import (
    ClientCheckpointer,
    InMemoryCheckpointer,
    Message,
    PgCheckpointer,
    RedisCheckpointer,
    SqliteCheckpointer,
    ThreadInfo,
    ToolCall,
    ToolCallResponse,
)
from lastgood.messages import spoken

CONFIG = {"thread_id": "t"}


def run_script(text: str, *arguments: object) -> str:
    command = [sys.executable, "-W", "error", "-c", text, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_blocking_calls_in_a_script(tmp_path: Path) -> None:
    printed = run_script(
        "import sys\n"
        "from lastgood.checkpointers import SqliteCheckpointer, Message\n"
        "cp = SqliteCheckpointer(sys.argv[1])\n"
        "cp.setup(); cp.setup()\n"
        "cp.put_checkpoint({'thread_id': 't'}, {'n': 1}, [Message('user', 'hello')])\n"
        "print(cp.get_state({'thread_id': 't'}), len(cp.get_messages({'thread_id': 't'})))\n",
        tmp_path / "a.db",
    )
    assert printed == "{'n': 1} 1\n"


def test_every_method_has_both_colours() -> None:
    names = [name for name in dir(InMemoryCheckpointer) if name.startswith("a")]
    found = InMemoryCheckpointer()
    alone = [name for name in names if not callable(getattr(found, name[1:], None))]
    assert alone == []
    found.put_cache_value("prices", "book", 12)
    assert found.get_cache_value("prices", "book") == 12
    assert found.list_cache_keys("prices") == ["book"]
    assert found.clear_cache_value("prices", "book") is True
    found.put_state(CONFIG | {"user_id": "ann"}, {})
    assert found.get_thread_owner("t") == "ann"


@pytest.mark.parametrize("client", ["memory:", None, InMemoryCheckpointer()])
def test_what_is_no_client_is_refused(client: Any) -> None:
    with pytest.raises(TypeError, match=r"ClientCheckpointer\(Client\.open\(address\)\)"):
        ClientCheckpointer(client)


def test_a_state_type_can_be_declared(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    SqliteCheckpointer(path).put_state(CONFIG, {"role": "user", "content": "hello"})
    declared = SqliteCheckpointer[Message](path)
    found = declared.get_state(CONFIG)
    assert isinstance(found, Message)
    assert found.content == "hello"
    assert SqliteCheckpointer[Any](path).get_state(CONFIG) == {"role": "user", "content": "hello"}


def test_fields_that_do_not_fit_are_named_in_one_line(tmp_path: Path) -> None:
    class Strict(pydantic.BaseModel):
        must: str
        rows: list[int]

    path = tmp_path / "a.db"
    SqliteCheckpointer(path).put_state(CONFIG, {"rows": ["x"]})
    bound = SqliteCheckpointer(path)
    bound.bind_state_type(Strict)
    with pytest.raises(SerializationError) as error:
        bound.get_state(CONFIG)
    assert "state.must: Field required; state.rows[0]: Input should be" in str(error.value)
    assert "\n" not in str(error.value)


class TestPostgresArguments:
    @pytest.mark.parametrize(
        ("arguments", "error", "text"),
        [
            ({}, ValueError, "postgres_dsn or pg_pool"),
            ({"postgres_dsn": "postgresql://x", "pg_pool": object()}, ValueError, "either"),
            ({"postgres_dsn": "postgresql://x", "id_type": "uuid"}, ValueError, "id_type"),
            ({"postgres_dsn": "postgresql://x", "pool_config": {"a": 1}}, ValueError, "pg_pool"),
            ({"postgres_dsn": "postgresql://x", "cache_ttl": 0}, ValueError, "ttl"),
            ({"postgres_dsn": "postgresql://x", "nonsense": 0}, TypeError, "nonsense"),
        ],
    )
    def test_are_checked(self, arguments: Any, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            PgCheckpointer(**arguments)

    def test_another_driver_is_named(self) -> None:
        pool = type("Pool", (), {"__module__": "asyncpg.pool"})()
        with pytest.raises(TypeError, match="psycopg_pool"):
            PgCheckpointer(pg_pool=pool)

    def test_all_id_types_and_a_foreign_scheme_are_accepted(self) -> None:
        for id_type in ("string", "int", "bigint"):
            made: PgCheckpointer[Any] = PgCheckpointer(
                "postgresql+asyncpg://ann:secret@nowhere:1/db",
                pool_config={"min_size": 1, "max_size": 2},
                id_type=id_type,
                user_id_type=id_type,
            )
            assert made.client.url.startswith("postgresql://")
            assert "secret" not in made.client.url

    def test_a_missing_driver_is_told_with_the_command(self) -> None:
        printed = run_script(
            "import sys\n"
            "sys.modules['psycopg'] = None\n"
            "from lastgood.checkpointers import PgCheckpointer\n"
            "try:\n"
            "    PgCheckpointer('postgresql://x')\n"
            "except ImportError as error:\n"
            "    print(error)\n"
        )
        assert 'pip install "lastgood[postgres]"' in printed

    @pytest.mark.server("postgres")
    def test_a_pool_of_yours(self, postgres_url: str, tmp_path: Path) -> None:
        from psycopg_pool import ConnectionPool

        from lastgood.testing.postgres_harness import PostgresHarness

        harness = PostgresHarness(tmp_path)
        with ConnectionPool(postgres_url, min_size=1, max_size=2) as pool:
            made = PgCheckpointer[Any](pg_pool=pool, schema=harness.schema)
            made.put_messages(CONFIG, [Message("user", "hello")])
            assert [message.content for message in made.get_messages(CONFIG)] == ["hello"]
            made.release()
            assert not pool.closed
        harness.close()


def test_threads_in_redis(valkey_url: str, tmp_path: Path) -> None:
    made = [RedisCheckpointer[Any](valkey_url, prefix=f"t{id(tmp_path)}") for _ in range(2)]
    made[0].put_checkpoint(CONFIG, {"n": 1}, [Message("user", "hello")])
    assert made[1].get_state(CONFIG) == {"n": 1}
    assert [message.content for message in made[1].get_messages(CONFIG)] == ["hello"]
    assert made[1].delete_thread(CONFIG)
    for each in made:
        each.release()


def test_a_thread_info_speaks_both_languages() -> None:
    info = ThreadInfo("t", thread_name="Trip", user_id="ann")
    assert (info.title, info.user) == (info.thread_name, info.user_id) == ("Trip", "ann")


@pytest.mark.parametrize("how", ["put_state", "put_messages", "put_state_cache", "put_thread"])
def test_a_thread_that_begins_belongs_to_the_user_of_the_client(how: str) -> None:
    """Unless the config names one."""
    checkpointer = InMemoryCheckpointer(user="ada")
    for config in (CONFIG, {"thread_id": "theirs", "user_id": "bob"}):
        info = ThreadInfo(config["thread_id"])
        given = {"put_messages": [Message("user", "hi")], "put_thread": info}
        getattr(checkpointer, how)(config, given.get(how, {"n": 1}))
    owners = {info.thread_id: info.user for info in checkpointer.get_threads({})}
    assert owners == {"t": "ada", "theirs": "bob"}


def test_a_message_may_have_no_content() -> None:
    """As OpenAI's have none beside tool calls."""
    message = Message("assistant", None)
    assert (message.parts, message.text, message.tool_calls) == ((), "", ())
    checkpointer = InMemoryCheckpointer()
    checkpointer.put_messages(CONFIG, [message])
    assert checkpointer.get_messages(CONFIG) == [message]
    assert checkpointer.get_messages(CONFIG, "x") == []


def test_what_a_search_looks_into() -> None:
    parts = [{"type": "text", "text": "said"}, {"type": "image", "data": "bytes"}]
    assert spoken({"content": parts}) == "said"
    result = {"type": "tool_result", "output": {"status": "sent", "count": 2}}
    assert spoken({"content": [result]}) == "sent\n2"
    assert spoken({"content": [{"kind": "flight", "to": "Rome"}]}) == "flight\nRome"
    assert spoken({"content": [{"kind": "file", "file": {"bytes": "b64"}}]}) == ""
    assert spoken({"role": "user"}) == ""


def test_a_search_finds_what_is_called_and_answered_whatever_its_keys_are() -> None:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    offer = {"type": "offer", "hotel": "Plaza", "image": {"type": "image", "data": "b64"}}
    checkpointer.put_messages(
        CONFIG,
        [
            Message("assistant", [ToolCall("1", "book", {"type": "hotel", "city": "Rome"})]),
            Message("tool", [ToolCallResponse("1", offer)]),
            Message("tool", [ToolCallResponse("2", 4711)]),
        ],
    )
    found = {
        text: len(checkpointer.get_messages(CONFIG, text))
        for text in ("Rome", "Plaza", "4711", "book", "b64", "offer")
    }
    assert found == {"Rome": 1, "Plaza": 1, "4711": 1, "book": 1, "b64": 0, "offer": 0}


class Call(pydantic.BaseModel):
    name: str
    args: dict[str, Any]


class Part(pydantic.BaseModel):
    text: str | None = None
    function_call: Call | None = None


class Root(pydantic.RootModel[Part]):
    """As A2A has its parts."""


class Content(pydantic.BaseModel):
    role: str = "model"
    parts: list[Part | Root]


class Event(pydantic.BaseModel):
    """As the messages of ADK are, with the contents of google-genai."""

    content: Content


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", tool_calls=[{"name": "book", "args": {"city": "Rome"}, "id": "call"}]),
        {
            "content": None,
            "tool_calls": [
                {
                    "id": "call",
                    "type": "function",
                    "function": {"name": "book", "arguments": '{"city": "Rome"}'},
                }
            ],
        },
        {"content": [{"type": "tool_use", "id": "call", "name": "book", "input": {"to": "Rome"}}]},
        {"content": [{"type": "thinking", "thinking": "To book a room in Rome", "signature": "s"}]},
        {"content": "Done.", "reasoning_content": "To book a room in Rome"},
        {"type": "function_call", "call_id": "call", "name": "book", "arguments": '{"to": "Rome"}'},
        {"type": "function_call_output", "call_id": "call", "output": "a book on Rome"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "book in Rome"}]},
        {"role": "user", "parts": [{"type": "text", "text": "To book a room in Rome"}]},
        {"role": "user", "parts": [{"kind": "text", "text": "To book a room in Rome"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "book", "args": {"to": "Rome"}}}]},
        {"parts": [{"text": "a book on Rome"}, {"inlineData": {"data": "call"}}]},
        Event(content=Content(parts=[Part(function_call=Call(name="book", args={"to": "Rome"}))])),
        Content(parts=[Root(Part(text="To book a room in Rome"))]),
    ],
    ids=[
        *("langchain", "openai", "anthropic", "thought", "deepseek"),
        *("item", "answer", "reasoning", "vercel", "a2a", "gemini", "picture", "adk", "root"),
    ],
)
def test_a_search_finds_what_messages_of_frameworks_call_and_think(message: Any) -> None:
    words = spoken(message)
    assert "Rome" in words
    assert "book" in words
    assert "call" not in words


@dataclass
class Cart:
    items: list[str] = field(default_factory=list)
    total: int = field(init=False, default=0)


class Old(pydantic.BaseModel):
    model_config = {"extra": "allow"}
    user_id: str = pydantic.Field(alias="userId")


class Loose(pydantic.BaseModel):
    model_config = {"extra": "allow"}
    user_id: str = ""


class Strict(pydantic.BaseModel):
    user_id: str = pydantic.Field(validation_alias=pydantic.AliasChoices("userId", "user"))


class Typed(TypedDict):
    n: int


@pytest.mark.parametrize(
    ("state", "bound", "expected"),
    [
        ({"items": ["a"], "total": 12}, Cart, {"items": ["a"], "total": 12}),
        (Old(userId="ann", more=5), Loose, {"user_id": "ann", "more": 5}),  # type: ignore[call-arg]
        (Old(userId="ann"), Strict, {"user_id": "ann"}),
        ({"n": 1}, Typed, {"n": 1}),
    ],
)
def test_no_field_is_lost_on_the_way_into_another_class(
    state: Any, bound: Any, expected: dict[str, Any]
) -> None:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    checkpointer.put_state(CONFIG, state)
    checkpointer.bind_state_type(bound)
    found = checkpointer.get_state(CONFIG)
    fields = found.model_dump() if isinstance(found, pydantic.BaseModel) else found
    assert (asdict(fields) if isinstance(fields, Cart) else fields) == expected


def test_a_checkpointer_in_a_forked_child(tmp_path: Path) -> None:
    made: SqliteCheckpointer[Any] = SqliteCheckpointer(tmp_path / "a.db")
    made.put_state(CONFIG, {"n": 1})
    child = os.fork()
    if not child:
        made.put_messages(CONFIG, [Message("user", "from the child")])
        os._exit(0 if made.get_state(CONFIG) == {"n": 1} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [message.content for message in made.get_messages(CONFIG)] == ["from the child"]


WRITER = """
import itertools, sys
from lastgood.checkpointers import Message, SqliteCheckpointer
cp = SqliteCheckpointer(sys.argv[1])
for n in itertools.count():
    cp.put_checkpoint({"thread_id": "t"}, {"n": n}, [Message("user", str(n), message_id=n)])
    print(n, flush=True)
"""


@pytest.mark.fault
def test_a_killed_writer_leaves_whole_checkpoints(tmp_path: Path) -> None:
    """Every acknowledged one is there; of the last one both state and message, or neither."""
    path = tmp_path / "a.db"
    command = [sys.executable, "-c", WRITER, str(path)]
    for _ in range(5):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            told = [int(writer.stdout.readline()) for _ in range(20)]
            writer.send_signal(signal.SIGKILL)
            told += [int(line) for line in writer.stdout.read().split()]
        made: SqliteCheckpointer[Any] = SqliteCheckpointer(path)
        numbers = [message.message_id for message in made.get_messages(CONFIG)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) in (told[-1] + 1, told[-1] + 2)
        assert made.get_state(CONFIG) == {"n": numbers[-1]}
        assert made.client.blocking.verify(data=True).clean
        made.delete_thread(CONFIG)
        made.release()


APPENDER = """
import sys
from lastgood.checkpointers import Message, SqliteCheckpointer
cp = SqliteCheckpointer(sys.argv[1])
for n in range(25):
    shared = Message("user", "shared", message_id=f"shared {n}")
    cp.put_messages({"thread_id": "t"}, [Message("user", f"{sys.argv[2]} {n}"), shared])
"""


def test_processes_append_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", APPENDER, str(path), str(number)])
        for number in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    made: SqliteCheckpointer[Any] = SqliteCheckpointer(path)
    found = [message.content for message in made.get_messages(CONFIG)]
    assert len(found) == 4 * 25 + 25
    for number in range(4):
        mine = [text for text in found if text.startswith(f"{number} ")]
        assert mine == [f"{number} {n}" for n in range(25)]


def test_every_kind_of_store_has_a_checkpointer() -> None:
    """Those of the registry that promise something; files are for the object door."""
    built_in = {"memory": InMemoryCheckpointer, "sqlite": SqliteCheckpointer}
    built_in |= {"postgresql": PgCheckpointer, "redis": RedisCheckpointer}
    schemes = {name for name, entry in registry.BACKENDS.items() if entry.contract}
    assert schemes - {"files"} <= built_in.keys()


@pytest.mark.parametrize(
    ("made", "options", "text"),
    [
        (SqliteCheckpointer, {"path": "x.db"}, "'path': did you mean db_path? There are: "),
        (SqliteCheckpointer, {"durabilty": "strict"}, "did you mean durability?"),
        (RedisCheckpointer, {"url": "redis://h"}, "unknown option 'url'. There are: redis_url, "),
        (
            PgCheckpointer,
            {"dsn": "postgresql://h/d"},
            "'dsn'. There are: postgres_dsn",
        ),
        (InMemoryCheckpointer, {"ttl": 1}, "unknown option 'ttl'. There are: cache_ttl"),
        (SqliteCheckpointer, {"db_path": ":memory:"}, "InMemoryCheckpointer"),
        (SqliteCheckpointer, {"db_path": None}, "InMemoryCheckpointer"),
        (InMemoryCheckpointer, {"cache_ttl": 0}, "cache_ttl must be greater than 0"),
        (InMemoryCheckpointer, {"durability": "relaxed"}, "durability"),
    ],
)
def test_a_wrong_option_is_told_in_the_words_of_this_door(
    made: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        made(**options)


def test_options_of_the_store_are_taken_too(tmp_path: Path) -> None:
    options: Any = {"durability": "relaxed"}
    with SqliteCheckpointer(tmp_path / "s.db", **options).client.blocking as client:
        assert client.durability == "relaxed"
