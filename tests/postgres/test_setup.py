"""Setting up: by roles with more and with fewer rights, next to newer and older versions."""

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

from lastgood import BackendConnectionError, BlockingClient, IncompatibleCheckpointError
from lastgood.backends.postgres import schema
from lastgood.cli import main

pytestmark = pytest.mark.server("postgres")

LARGE = {"messages": [{"n": n, "text": f"{n} " * 200} for n in range(60)]}
Sql = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    """A database of our own, in which nobody may do anything but its owner."""
    name = f"db_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
    yield urlunsplit(urlsplit(postgres_url)._replace(path=f"/{name}"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def sql(database: str) -> Sql:
    def run(*statements: str) -> list[tuple[object, ...]]:
        with psycopg.connect(database, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def role(database: str, postgres_url: str, sql: Sql) -> Iterator[str]:
    """A role that may connect, and nothing else; gives its name."""
    name = f"app_{uuid4().hex[:8]}"
    sql(f"CREATE ROLE {name} LOGIN", f"GRANT CONNECT ON DATABASE {_name(database)} TO {name}")
    yield name
    sql(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def as_role(url: str, role: str) -> str:
    return url.replace("postgresql://postgres@", f"postgresql://{role}@")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    told = capsys.readouterr()
    return code, told.out, told.err


def work(client: BlockingClient) -> None:
    """Everything that writes in one table or another."""
    with client.run("w", initial=LARGE) as run:
        run.append("messages", "word " * 30_000)
    client.handoff("w@1", "other")
    client.fork("w@1", branch="idea", switch=True)
    client.rewind("w", "w@1", agent_id="agent")
    client.tag("w@1", "good")
    client.untag("w", "good")
    client.expire("w@2")
    client.delete("w")
    client.save("a", session_id="w", execution_state=LARGE)
    client.delete("w")
    client.save("a", session_id="t", execution_state={"n": 1}, ttl_seconds=60)
    assert client.verify(data=True).clean


def test_a_role_with_the_grants_and_nothing_else_can_do_everything(
    database: str, role: str, sql: Sql, capsys: pytest.CaptureFixture[str]
) -> None:
    """An administrator ran what `lastgood db sql` prints."""
    code, script, _ = printed(capsys, "db", "sql", "--schema", "agents", "--role", role)
    assert code == 0
    sql(script)
    with BlockingClient.postgres(as_role(database, role), schema="agents") as client:
        work(client)
    with (
        psycopg.connect(as_role(database, role)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("CREATE TABLE agents.own (x int)")


def test_a_role_that_may_only_read_can_look(database: str, role: str, sql: Sql) -> None:
    BlockingClient.postgres(database).save("a", session_id="s", execution_state=LARGE)
    sql(
        f"GRANT USAGE ON SCHEMA lastgood TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA lastgood TO {role}",
    )
    with BlockingClient.postgres(as_role(database, role)) as client:
        assert client.latest(agent_id="a", session_id="s").state == LARGE
        assert len(client.log("s")) == 1
        with pytest.raises(BackendConnectionError, match=r"permission denied.*lastgood db sql"):
            client.save("a", session_id="s", execution_state={})


@pytest.mark.parametrize("there", [False, True], ids=["no tables", "tables"])
def test_a_role_without_rights_is_told_what_to_ask_for(
    there: bool, database: str, role: str, capsys: pytest.CaptureFixture[str], sql: Sql
) -> None:
    if there:
        BlockingClient.postgres(database, schema="agents").threads()
    client = BlockingClient.postgres(as_role(database, role), schema="agents")
    with pytest.raises(BackendConnectionError) as caught:
        client.save("a", session_id="s", execution_state={})
    command = f"lastgood db sql --schema agents --role {role}" + (" --since 2" if there else "")
    assert role in caught.value.message
    assert "permission denied" in caught.value.message
    assert caught.value.hint.endswith(command)
    _, script, _ = printed(capsys, *command.split()[1:])
    sql(script)
    client.save("a", session_id="s", execution_state={})
    client.close()


def test_tables_that_were_dropped_under_a_client_are_told(database: str, sql: Sql) -> None:
    client = BlockingClient.postgres(database)
    client.save("a", session_id="s", execution_state={})
    sql("DROP SCHEMA lastgood CASCADE")
    with pytest.raises(BackendConnectionError, match=r"does not exist\. The tables are not there"):
        client.save("a", session_id="s", execution_state={})
    client.close()


def test_a_role_that_owns_its_schema_needs_no_rights_on_the_database(
    database: str, role: str, sql: Sql
) -> None:
    sql(f"CREATE SCHEMA agents AUTHORIZATION {role}")
    with BlockingClient.postgres(as_role(database, role), schema="agents") as client:
        work(client)


@pytest.mark.parametrize("name", ["x" * 64, "é" * 32, "pg_agents"])
def test_a_name_that_postgres_would_change_or_refuse_is_no_schema(
    name: str, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It cuts long ones off: two stores would be one."""
    with pytest.raises(ValueError, match="63 bytes"):
        BlockingClient.postgres(database, schema=name)
    assert printed(capsys, "db", "sql", "--schema", name)[0] == 2
    assert "CREATE" in printed(capsys, "db", "sql", "--schema", "x" * 63)[1]


def test_strict_refuses_a_server_that_may_lose_saves(database: str, sql: Sql) -> None:
    """The servers of the tests do not sync."""
    for client in (
        BlockingClient.postgres(database, durability="strict"),
        BlockingClient.open(database, durability="strict"),
    ):
        with pytest.raises(BackendConnectionError, match=r"'cache', not 'strict'.*fsync"):
            client.threads()
        client.close()
    assert sql("SELECT 1 FROM pg_namespace WHERE nspname = 'lastgood'") == [], "nothing is made"
    with pytest.raises(ValueError, match='write "strict"'):
        BlockingClient.open(database, durability="relaxed")


def test_a_newer_store_is_refused(
    database: str, sql: Sql, capsys: pytest.CaptureFixture[str]
) -> None:
    BlockingClient.postgres(database).threads()
    sql("UPDATE lastgood.meta SET value = '7' WHERE name IN ('format', 'oldest')")
    with pytest.raises(IncompatibleCheckpointError, match=r"has format 7.*Upgrade lastgood"):
        BlockingClient.postgres(database).threads()
    code, out, err = printed(capsys, "db", "status", "--store", database)
    assert (code, "newer than ours" in out, "Upgrade lastgood" in out + err) == (1, True, True)
    assert (
        json.loads(printed(capsys, "db", "status", "--json", "--store", database)[1])["usable"]
        is False
    )


def test_a_newer_store_that_we_can_still_use_is_used(
    database: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a new version is rolled out: it adds a column, and the one before goes on."""
    before = BlockingClient.postgres(database)
    before.save("a", session_id="s", execution_state=LARGE)
    step = ["ALTER TABLE {schema}.thread ADD COLUMN colour text NOT NULL DEFAULT 'none'"]
    with monkeypatch.context() as newer:
        newer.setattr(schema, "FORMAT", 3)
        newer.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
        with BlockingClient.postgres(database) as client:
            client.save("a", session_id="s", execution_state={"n": 1})
            work(client)
    found = sql("SELECT value FROM lastgood.meta WHERE name IN ('format', 'oldest') ORDER BY name")
    assert found == [("3",), ("1",)]
    before.save("a", session_id="u", execution_state={"n": 2})
    with BlockingClient.postgres(database) as fresh:
        work(fresh)
        assert fresh.latest(agent_id="a", session_id="u").state == {"n": 2}
    before.close()


def test_a_migration_that_fails_leaves_what_was_there(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    BlockingClient.postgres(database).save("a", session_id="s", execution_state={"n": 1})
    steps = ["ALTER TABLE {schema}.thread ADD COLUMN colour text", "SELECT 1 / 0"]
    with monkeypatch.context() as newer:
        newer.setattr(schema, "FORMAT", 3)
        newer.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, steps))
        with pytest.raises(Exception, match="division by zero"):
            BlockingClient.postgres(database).threads()
    with BlockingClient.postgres(database) as client:
        assert client.latest(agent_id="a", session_id="s").state == {"n": 1}


@pytest.fixture
def first_format(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store as the first version made it, with a thread; gives its address."""
    with monkeypatch.context() as older:
        older.setattr(schema, "FORMAT", 1)
        older.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        with BlockingClient.postgres(database) as client:
            client.save("a", session_id="s", execution_state=LARGE)
    return database


def test_an_older_store_is_brought_up_to_date(first_format: str, sql: Sql) -> None:
    with BlockingClient.postgres(first_format) as client:
        work(client)
        assert "s" in [info.thread_id for info in client.threads(sort="created")]
    found = sql("SELECT value FROM lastgood.meta WHERE name IN ('format', 'oldest') ORDER BY name")
    assert found == [("2",), ("1",)]
    found = sql("SELECT indexname FROM pg_indexes WHERE tablename = 'thread' ORDER BY 1")
    names = [str(name) for (name,) in found]
    assert names == ["thread_active", "thread_age", "thread_name", "thread_owner", "thread_pkey"]


def test_a_role_that_may_not_do_that_goes_on_with_what_is_there(
    first_format: str, role: str, sql: Sql
) -> None:
    sql(*schema.grants("lastgood", role))
    with BlockingClient.postgres(as_role(first_format, role)) as client:
        work(client)
        assert "s" in [info.thread_id for info in client.threads(sort="created")]
    with psycopg.connect(first_format) as connection:
        connection.read_only = True
        assert len(BlockingClient.postgres(connection).threads(sort="created")) == 2
    assert sql("SELECT value FROM lastgood.meta WHERE name = 'format'") == [("1",)]


@pytest.fixture
def dump(first_format: str) -> Iterator[psycopg.Connection]:
    """Somebody who reads the tables in a transaction that takes long."""
    with psycopg.connect(first_format) as connection:
        connection.execute("SELECT count(*) FROM lastgood.thread")
        yield connection


def test_tables_that_somebody_reads_for_long_are_used_as_they_are(
    first_format: str, dump: psycopg.Connection, sql: Sql
) -> None:
    """Nobody waits for a lock, for all others would wait behind it until the dump has ended."""
    with BlockingClient.postgres(first_format) as client:
        work(client)
        sql("SET lock_timeout = 2000", "UPDATE lastgood.thread SET version = version + 1")
        assert sql("SHOW lock_timeout") == [("0",)]
    assert sql("SELECT value FROM lastgood.meta WHERE name = 'format'") == [("1",)]
    dump.rollback()
    with BlockingClient.postgres(first_format) as client:
        client.threads()
    assert sql("SELECT value FROM lastgood.meta WHERE name = 'format'") == [("2",)]


def test_a_migration_leaves_the_settings_of_a_transaction_alone(first_format: str) -> None:
    with psycopg.connect(first_format) as connection:
        connection.execute("SET LOCAL lock_timeout = 4000")
        BlockingClient.postgres(connection).threads()
        found = connection.execute("SHOW lock_timeout").fetchall()
        assert found == [("4s",)]
        assert connection.execute("SHOW statement_timeout").fetchall() == [("0",)]


# the command line


@pytest.mark.usefixtures("dump")
def test_db_migrate_says_that_it_cannot_be_done_now(
    first_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["db", "migrate", "--store", first_format]) not in (0, None)
    assert "others use the tables" in capsys.readouterr().err


def test_db_migrate_says_that_the_role_may_not(
    first_format: str, role: str, sql: Sql, capsys: pytest.CaptureFixture[str]
) -> None:
    sql(*schema.grants("lastgood", role))
    assert main(["db", "migrate", "--store", as_role(first_format, role)]) not in (0, None)
    assert "--since 1" in capsys.readouterr().err


def test_db_status_and_migrate(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = ("--store", f"{database}&schema=agents")
    code, out, err = printed(capsys, "db", "status", *store)
    assert (code, "no tables of Lastgood yet" in out) == (1, True)
    assert "lastgood db migrate --store" in err + out
    code, _, err = printed(capsys, "threads", *store)
    assert (code, f"`lastgood db migrate {shlex.join(store)}`" in err) == (3, True)
    made = json.loads(printed(capsys, "db", "status", "--json", *store)[1])["format"]
    assert made is None, "looking makes nothing"
    code, out, _ = printed(capsys, "db", "migrate", *store)
    assert (code, "schema agents: format 2 (current)" in out) == (0, True)
    assert printed(capsys, "db", "migrate", *store)[0] == 0
    code, out, _ = printed(capsys, "db", "status", "--json", *store)
    found = json.loads(out)
    assert (code, found["current"], found["format"], found["schema"]) == (0, True, 2, "agents")
    assert printed(capsys, "threads", *store)[0] == 0


def test_db_sql_needs_no_database(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = printed(capsys, "db", "sql")
    assert code == 0
    assert 'CREATE TABLE "lastgood".checkpoint' in out
    assert "GRANT" not in out
    nowhere = "postgresql://me:hunter2@nowhere.invalid/db?schema=team"
    code, out, _ = printed(capsys, "db", "sql", "--store", nowhere, "--role", 'o"dd')
    assert 'GRANT USAGE ON SCHEMA "team" TO "o""dd";' in out
    assert json.loads(printed(capsys, "db", "sql", "--json")[1])["schema"] == "lastgood"
    code, _, err = printed(capsys, "db", "status", "--store", "agents.db")
    assert (code, "is no store in PostgreSQL" in err) == (2, True)
    code, _, err = printed(capsys, "db", "status", "--store", nowhere)
    assert (code, "hunter2" in err) == (4, False)


def test_commands_find_a_store_on_a_server(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = BlockingClient.open(database)
    client.save("a", session_id="order-42", execution_state={"n": 1}, step_name="first")
    client.close()
    monkeypatch.setenv("LASTGOOD_URL", database)
    assert "order-42" in printed(capsys, "threads")[1]
    assert "first" in printed(capsys, "log", "order-42")[1]
    assert printed(capsys, "verify", "--data")[0] == 0
    alias = database.replace("postgresql://", "postgres://")
    assert "order-42" in printed(capsys, "threads", "--store", alias)[1]


def test_the_doctor_looks_at_the_server(
    database: str, pgbouncer_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = printed(capsys, "doctor", "--json", "--store", database)
    assert code == 0
    found = {each["what"]: each for each in json.loads(out)["findings"]}
    assert found["server"]["found"].startswith("PostgreSQL ")
    assert found["round trip"]["found"].endswith(" ms")
    assert found["pooler"]["found"] == "none seen"
    assert "synchronous_commit off" in found["durability"]["found"]
    assert found["durability"]["level"] == "warning"
    assert "no tables in schema lastgood yet" in found["format"]["found"]
    BlockingClient.open(database).threads()
    assert "format" in printed(capsys, "doctor", "--store", database)[1]
    out = printed(capsys, "doctor", "--json", "--store", pgbouncer_url)[1]
    poolers = [each for each in json.loads(out)["findings"] if each["what"] == "pooler"]
    assert "PgBouncer" in poolers[0]["found"]


def test_the_doctor_says_that_a_role_may_not_make_the_tables(
    database: str, role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = printed(capsys, "doctor", "--store", as_role(database, role))
    assert code == 1
    assert f"role {role} may not make them" in out
    assert f"lastgood db sql --schema lastgood --role {role}" in out


WRITING = ("INSERT", "UPDATE", "DELETE")


def rights_found(
    capsys: pytest.CaptureFixture[str], database: str, role: str
) -> tuple[int, dict[str, str]]:
    """What the doctor says of a role's rights, and its exit code."""
    code, out, _ = printed(capsys, "doctor", "--json", "--store", as_role(database, role))
    findings = json.loads(out)["findings"]
    return code, next(each for each in findings if each["what"] == "rights")


def test_the_doctor_says_which_rights_a_role_lacks(
    database: str, role: str, sql: Sql, capsys: pytest.CaptureFixture[str]
) -> None:
    BlockingClient.postgres(database).threads()
    sql(*schema.grants("lastgood", role))
    code, found = rights_found(capsys, database, role)
    assert (code, found["level"]) == (0, "ok")
    sql(
        f"REVOKE DELETE ON lastgood.tag, lastgood.part FROM {role}",
        f"REVOKE USAGE ON SEQUENCE lastgood.stream_key FROM {role}",
    )
    code, found = rights_found(capsys, database, role)
    assert (code, found["level"]) == (1, "problem")
    assert "DELETE on part, tag; USAGE on stream_key" in found["found"]
    sql(*found["advice"].partition(": ")[2].split("; "))
    assert rights_found(capsys, database, role)[0] == 0
    with BlockingClient.postgres(as_role(database, role)) as client:
        work(client)


def test_the_doctor_notes_a_role_that_may_only_read(
    database: str, role: str, sql: Sql, capsys: pytest.CaptureFixture[str]
) -> None:
    """That may be what was meant."""
    BlockingClient.postgres(database).threads()
    sql(
        f"GRANT USAGE ON SCHEMA lastgood TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA lastgood TO {role}",
    )
    code, found = rights_found(capsys, database, role)
    assert (code, found["level"]) == (0, "warning")
    assert "can read and cannot save" in found["found"]
    assert all(f"{right} on every table" in found["found"] for right in WRITING)
    sql(*found["advice"].partition(": ")[2].split("; "))
    assert rights_found(capsys, database, role)[1]["level"] == "ok"
    with BlockingClient.postgres(as_role(database, role)) as client:
        work(client)


def test_the_doctor_tells_a_role_that_can_read_half_of_it(
    database: str, role: str, sql: Sql, capsys: pytest.CaptureFixture[str]
) -> None:
    BlockingClient.postgres(database).threads()
    sql(f"GRANT USAGE ON SCHEMA lastgood TO {role}", f"GRANT SELECT ON lastgood.meta TO {role}")
    code, found = rights_found(capsys, database, role)
    assert (code, found["level"]) == (1, "problem")
    assert "SELECT on every table" in found["found"]


def test_a_dry_run_of_copy_makes_no_tables(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: Sql
) -> None:
    with BlockingClient.sqlite(tmp_path / "a.db") as client:
        client.save("a", session_id="s", execution_state={})
    code, out, _ = printed(capsys, "copy", str(tmp_path / "a.db"), database, "--dry-run")
    assert (code, out.partition(",")[0]) == (0, "to copy: 1 thread")
    assert sql("SELECT 1 FROM pg_namespace WHERE nspname = 'lastgood'") == []


def test_a_connection_string_of_words_is_an_address_too(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: Sql
) -> None:
    """Not the name of a file that is made beside you."""
    words = psycopg.conninfo.make_conninfo(**psycopg.conninfo.conninfo_to_dict(database))
    assert "://" not in words
    with BlockingClient.sqlite(tmp_path / "a.db") as client:
        client.save("a", session_id="s", execution_state={})
    assert printed(capsys, "copy", str(tmp_path / "a.db"), words)[0] == 0
    assert "s" in printed(capsys, "threads", "--store", words)[1]
    assert len(BlockingClient.open(words).threads()) == 1


def test_the_doctor_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "postgresql://me:hunter2@127.0.0.1:1/db?sslpassword=hunter2"
    for json_ in ([], ["--json"]):
        code, out, err = printed(capsys, "doctor", *json_, "--store", wrong)
        assert code == 1
        assert "Connection refused" in out
        assert "hunter2" not in out + err
