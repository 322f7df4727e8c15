"""The stores under measurement by name, for each shape of work."""

from benchmarks.stores import langgraph_postgres, postgres, redis
from benchmarks.stores.bare import Floor, JsonFiles, JsonRows, PickleFiles, RelaxedFloor
from benchmarks.stores.checkpnt import CheckpntSteps, CheckpntThreads, CheckpntWriters
from benchmarks.stores.dbos import DbosSteps
from benchmarks.stores.interface import Lines, Steps, Threads, Writers
from benchmarks.stores.langgraph import (
    LanggraphLines,
    LanggraphSteps,
    LanggraphThreads,
    LanggraphWriters,
    NormalSteps,
)
from benchmarks.stores.langgraph_delta import LanggraphDelta
from benchmarks.stores.lastgood import (
    LastgoodAppend,
    LastgoodLines,
    LastgoodSave,
    LastgoodShared,
    LastgoodThreads,
    LastgoodUncached,
    LastgoodWriters,
    RelaxedAppend,
    RelaxedSave,
)
from benchmarks.stores.objects import LastgoodManager

STEPS: dict[str, type[Steps]] = {
    "floor": Floor,
    "floor-relaxed": RelaxedFloor,
    "lastgood-save": LastgoodSave,
    "lastgood-append": LastgoodAppend,
    "lastgood-shared": LastgoodShared,
    "lastgood-save-relaxed": RelaxedSave,
    "lastgood-append-relaxed": RelaxedAppend,
    "langgraph-sqlite": LanggraphSteps,
    "langgraph-sqlite-normal": NormalSteps,
    "langgraph-delta": LanggraphDelta,
    "checkpnt": CheckpntSteps,
    "dbos": DbosSteps,
    "lastgood-postgres-save": postgres.PostgresSave,
    "lastgood-postgres-append": postgres.PostgresAppend,
    "langgraph-postgres": langgraph_postgres.PostgresSteps,
    "langgraph-postgres-delta": langgraph_postgres.PostgresDelta,
    "lastgood-redis-save": redis.RedisSave,
    "lastgood-redis-append": redis.RedisAppend,
    "lastgood-redis-strict": redis.RedisStrict,
    "checkpnt-redis": redis.CheckpntRedis,
    "json-files": JsonFiles,
    "json-rows": JsonRows,
    "lastgood-manager": LastgoodManager,
    "pickle-files": PickleFiles,
}
LINES: dict[str, type[Lines]] = {
    "lastgood-save": LastgoodLines,
    "langgraph-sqlite": LanggraphLines,
}
THREADS: dict[str, type[Threads]] = {
    "lastgood": LastgoodThreads,
    "lastgood-uncached": LastgoodUncached,
    "langgraph-sqlite": LanggraphThreads,
    "checkpnt": CheckpntThreads,
    "lastgood-postgres": postgres.PostgresThreads,
    "lastgood-postgres-uncached": postgres.PostgresUncached,
    "langgraph-postgres": langgraph_postgres.PostgresThreads,
}
WRITERS: dict[str, type[Writers]] = {
    "lastgood": LastgoodWriters,
    "langgraph-aiosqlite": LanggraphWriters,
    "checkpnt": CheckpntWriters,
    "lastgood-postgres": postgres.PostgresWriters,
    "langgraph-apostgres": langgraph_postgres.PostgresWriters,
}

DESCRIPTIONS = {
    "lastgood": "Lastgood's client: `client.save`, `client.latest`; blocking, or async in W4",
    "lastgood-uncached": "the same with `cache_bytes=0`, so that every restore reads the file",
    "lastgood-save": "Lastgood, which finds by itself what changed: `run.save`"
    " (in W8 `client.save` with an explicit parent on each line)",
    "lastgood-append": "Lastgood with the change named by the caller: `run.append`",
    "lastgood-shared": "`client.timeline` with `shared=True`: states to look at, which share what"
    " did not change",
    "lastgood-save-relaxed": '`run.save` with `durability="relaxed"`: synchronous=NORMAL',
    "lastgood-append-relaxed": '`run.append` with `durability="relaxed"`: synchronous=NORMAL',
    "lastgood-manager": "the door for objects: `CheckpointManager.save` of an agent, on SQLite",
    "lastgood-messages": "the door for threads: `SqliteCheckpointer.put_messages`",
    "lastgood-diff": "`client.diff` of two checkpoints",
    "lastgood-restore-both": "what a comparison by hand begins with: `client.restore` of both",
    "langgraph-sqlite": "LangGraph's SqliteSaver, default channels: the whole state per `put`",
    "langgraph-sqlite-normal": "the same, its connection set to synchronous=NORMAL by hand",
    "langgraph-aiosqlite": "LangGraph's AsyncSqliteSaver: one transaction per `aput`",
    "langgraph-delta": "SqliteSaver with a DeltaChannel (beta) for the messages: the new ones with"
    " `put_writes`, a checkpoint, a snapshot of the whole list every 100 steps",
    "langgraph-stock": "LangGraph's JsonPlusSerializer, without a store",
    "checkpnt": "checkpnt's `Client.sqlite`: the whole state per `save`; from many tasks its saves"
    " share a connection, so that one task's commit also commits what others have begun",
    "dbos": "DBOS on SQLite, in SQLite's own journal mode: a workflow whose steps return the"
    " messages that they add; the state is put together from the recorded steps",
    "json-files": "a file per step with the whole state as JSON, written like pickle-files",
    "json-rows": "the loop of the tutorials: a row per step with the whole state as JSON, in"
    " SQLite's own journal mode",
    "pickle-files": "a file per step with the whole state: written beside, synced, renamed,"
    " the directory synced",
    "lastgood-postgres": "Lastgood on PostgreSQL, on a server of its own with default settings",
    "lastgood-postgres-uncached": "the same with `cache_bytes=0`: every restore reads the server",
    "lastgood-postgres-save": "`run.save` on PostgreSQL",
    "lastgood-postgres-append": "`run.append` on PostgreSQL",
    "langgraph-postgres": "LangGraph's PostgresSaver on one connection to such a server",
    "langgraph-postgres-delta": "PostgresSaver with a DeltaChannel (beta) for the messages",
    "lastgood-redis-save": "`run.save` on Valkey with its append-only file synced every second;"
    " bytes are its memory",
    "lastgood-redis-strict": "`run.save` on Valkey that syncs before each answer",
    "lastgood-redis-append": "`run.append` on Valkey",
    "checkpnt-redis": "checkpnt's `Client.redis` on such a server: the whole state per `save`",
    "langgraph-apostgres": "LangGraph's AsyncPostgresSaver over a pool of 8",
    "floor": "the least that SQLite can do: a bare INSERT of what is new, committed; no ids, no"
    " checks, and a restore applies every step from the first",
    "floor-relaxed": "the floor at synchronous=NORMAL",
}
