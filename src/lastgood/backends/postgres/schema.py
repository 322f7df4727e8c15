"""The tables in PostgreSQL, and how they come to be there.

- Text is kept as `bytea`: PostgreSQL's text takes neither NUL nor lone surrogates, and sorts by the
  rules of a language. Bytes keep every value and sort the same on every server.
- Tables lead with the thread's key, so they can be partitioned by it. Data is stored outside of its
  row uncompressed (it was packed before).
- Rows that change at every save (thread, branch, run) leave half of their pages free and have no
  index on what changes, so that a new version finds its place beside the old one.
- `version`, `watched` and a checkpoint's `tenant` are the store's own and not covered by seals.

Changes of the schema only go forward. `oldest` is the oldest format whose code still reads and
writes this one, so that a rolling deployment works while both run.
"""

from __future__ import annotations

from collections.abc import Sequence

from lastgood.ids import check_name
from lastgood.rows import TABLES, fields_of

FORMAT = 2
LEAST = 1
"""The oldest format that this code can use as it is: what came since makes it faster."""
NAME_BYTES = 63
"""What PostgreSQL keeps of a name."""

ON_TABLES = ("SELECT", "INSERT", "UPDATE", "DELETE")
ON_SEQUENCES = ("USAGE",)
"""The rights of a role that uses the store."""

COLUMNS = {cls: tuple(f'"{name}"' for name in (*fields_of(cls), "seal")) for cls in TABLES}

_SCHEMA = "CREATE SCHEMA IF NOT EXISTS {schema}"
_BY_NAME = "CREATE UNIQUE INDEX thread_name ON {schema}.thread (tenant, name)"
_FIRST = (
    _SCHEMA,
    "CREATE TABLE {schema}.meta (name text PRIMARY KEY, value text NOT NULL)",
    """CREATE TABLE {schema}.thread (
    thread bigint PRIMARY KEY, tenant bytea NOT NULL, name bytea NOT NULL,
    incarnation bigint NOT NULL, state smallint NOT NULL, active bigint NOT NULL,
    title bytea NOT NULL, owner bytea, seq bigint NOT NULL, checkpoints bigint NOT NULL,
    newest bytea NOT NULL, expiring bigint NOT NULL, lanes bigint NOT NULL,
    branches bigint NOT NULL, tags bigint NOT NULL, runs bigint NOT NULL, items bigint NOT NULL,
    size bigint NOT NULL, last_step bytea, created_at bigint NOT NULL,
    updated_at bigint NOT NULL, seal bytea NOT NULL,
    version bigint NOT NULL, watched bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50)""",
    _BY_NAME,
    "CREATE INDEX thread_active ON {schema}.thread (tenant, state, active, thread)",
    "CREATE INDEX thread_created ON {schema}.thread (tenant, state, thread)",
    """CREATE INDEX thread_owner ON {schema}.thread (tenant, state, owner, active, thread)
    WHERE owner IS NOT NULL""",
    """CREATE TABLE {schema}.lane (
    thread bigint NOT NULL, number bigint NOT NULL, agent bytea NOT NULL, "current" bytea NOT NULL,
    moves bigint NOT NULL, seal bytea NOT NULL, PRIMARY KEY (thread, agent))""",
    """CREATE TABLE {schema}.branch (
    thread bigint NOT NULL, lane bigint NOT NULL, name bytea NOT NULL, head bytea NOT NULL,
    seal bytea NOT NULL, PRIMARY KEY (thread, lane, name)) WITH (fillfactor = 50)""",
    """CREATE TABLE {schema}.move (
    thread bigint NOT NULL, lane bigint NOT NULL, number bigint NOT NULL, id bytea NOT NULL,
    kind bytea NOT NULL, old_branch bytea NOT NULL, new_branch bytea NOT NULL,
    made_at bigint NOT NULL, seal bytea NOT NULL, PRIMARY KEY (thread, lane, number))""",
    """CREATE TABLE {schema}.tag (
    thread bigint NOT NULL, name bytea NOT NULL, checkpoint bytea NOT NULL,
    made_at bigint NOT NULL, seal bytea NOT NULL, PRIMARY KEY (thread, name))""",
    """CREATE TABLE {schema}.run (
    thread bigint NOT NULL, lane bigint NOT NULL, id bytea NOT NULL, number bigint NOT NULL,
    closed smallint NOT NULL, status bytea NOT NULL, attempt bigint NOT NULL,
    inside bigint NOT NULL, started_at bigint NOT NULL, beat_at bigint NOT NULL,
    step bytea, error bytea, result bytea NOT NULL, seal bytea NOT NULL,
    PRIMARY KEY (thread, number)) WITH (fillfactor = 50)""",
    """CREATE TABLE {schema}.checkpoint (
    thread bigint NOT NULL, seq bigint NOT NULL, id bytea NOT NULL, lane bigint NOT NULL,
    branch bytea NOT NULL, parent bytea NOT NULL, parent_digest bytea NOT NULL,
    parent_gone smallint NOT NULL, fallback bytea NOT NULL, step bigint NOT NULL,
    step_name bytea, framework bytea NOT NULL, created_at bigint NOT NULL,
    ttl double precision, expires_at bigint, context bytea NOT NULL, metadata bytea NOT NULL,
    target bytea, schema bytea, source_lane bigint, losses bytea NOT NULL, root bytea NOT NULL,
    digest bytea NOT NULL, size bigint NOT NULL, manifest bytea NOT NULL,
    slots bytea NOT NULL, seal bytea NOT NULL, tenant bytea NOT NULL,
    PRIMARY KEY (thread, seq))""",
    "ALTER TABLE {schema}.checkpoint ALTER COLUMN manifest SET STORAGE EXTERNAL",
    "CREATE UNIQUE INDEX checkpoint_id ON {schema}.checkpoint (tenant, id)",
    """CREATE TABLE {schema}.item (
    thread bigint NOT NULL, shelf bytea NOT NULL, key bytea NOT NULL, value bytea NOT NULL,
    text bytea, created_at bigint NOT NULL, updated_at bigint NOT NULL, expires_at bigint,
    seal bytea NOT NULL, PRIMARY KEY (thread, shelf, key))""",
    """CREATE TABLE {schema}.stream (
    thread bigint NOT NULL, stream bigint NOT NULL, PRIMARY KEY (thread, stream))""",
    """CREATE TABLE {schema}.part (
    thread bigint NOT NULL, stream bigint NOT NULL, number bigint NOT NULL, born bigint NOT NULL,
    digest bytea NOT NULL, data bytea NOT NULL,
    CONSTRAINT part_place PRIMARY KEY (thread, stream, number))""",
    "ALTER TABLE {schema}.part ALTER COLUMN data SET STORAGE EXTERNAL",
    """CREATE TABLE {schema}.large (
    thread bigint NOT NULL, digest bytea NOT NULL, stream bigint NOT NULL, number bigint NOT NULL,
    PRIMARY KEY (thread, digest))""",
    "CREATE SEQUENCE {schema}.thread_key INCREMENT BY 16",
    "CREATE SEQUENCE {schema}.stream_key INCREMENT BY 64",
    """INSERT INTO {schema}.meta VALUES ('format', '1'), ('oldest', '1'), ('created_at',
    ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint)::text)""",
)

_BY_AGE = (
    "CREATE INDEX thread_age ON {schema}.thread (tenant, state, created_at, thread)",
    "DROP INDEX {schema}.thread_created",
)
"""Keys of threads are given out in batches: they do not tell which one began first."""

MIGRATIONS: tuple[Sequence[str], ...] = (_FIRST, _BY_AGE)
"""What leads to format 1, 2, and so on."""


def quoted(schema: str) -> str:
    """A schema's name as SQL spells it."""
    return '"' + schema.replace('"', '""') + '"'


def placed(schema: str) -> str:
    """The same inside of a statement that takes values, where a % stands for one."""
    return quoted(schema).replace("%", "%%")


def literal(text: str) -> str:
    """A text as a constant, whatever a session thinks of backslashes."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def check_schema(schema: str) -> str:
    """A name that PostgreSQL keeps as it is; raises ValueError.

    It cuts longer ones off, and two stores would become one.
    """
    if len(check_name(schema, "schema").encode()) > NAME_BYTES or schema.startswith("pg_"):
        raise ValueError(
            f"schema {schema!r} is no name for a schema in PostgreSQL: use at most {NAME_BYTES} "
            "bytes, and do not begin with pg_"
        )
    return schema


def statements(schema: str, since: int = 0, *, there: bool = False) -> list[str]:
    """The statements that lead from a format to ours; `there`: the schema exists."""
    steps = [text for step in MIGRATIONS[since:] for text in step]
    if there and not since:
        steps.remove(_SCHEMA)
    if not since:
        # Last: of indexes that seem to cost the same, as all do before the first ANALYZE, a plan
        # has the newest. With another one every save would read all threads of its tenant.
        steps.remove(_BY_NAME)
        steps.append(_BY_NAME)
    if since < FORMAT:
        steps.append(f"UPDATE {{schema}}.meta SET value = '{FORMAT}' WHERE name = 'format'")
    return [text.replace("{schema}", quoted(schema)) for text in steps]


def grants(schema: str, role: str) -> list[str]:
    """What a role needs that only uses the store."""
    rights = ((ON_TABLES, "TABLES"), (ON_SEQUENCES, "SEQUENCES"))
    given = [grant(schema, role, names, kind) for names, kind in rights]
    return [f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(role)}", *given]


def grant(schema: str, role: str, rights: Sequence[str], kind: str) -> str:
    """The statement that gives rights on all `TABLES` or all `SEQUENCES`."""
    everything = f"ALL {kind} IN SCHEMA {quoted(schema)}"
    return f"GRANT {', '.join(rights)} ON {everything} TO {quoted(role)}"
