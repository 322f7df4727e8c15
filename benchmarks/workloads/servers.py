"""The same work on servers: W1, W4 and W5 on PostgreSQL with fsync on, W1 on Valkey."""

from functools import partial

from benchmarks import scenarios
from benchmarks.gates import Times
from benchmarks.workloads import steps, threads, writers
from benchmarks.workloads.table import Workload

SAVE, APPEND = "lastgood-postgres-save", "lastgood-postgres-append"
SAVER, DELTA = "langgraph-postgres", "langgraph-postgres-delta"
OURS, UNCACHED = "lastgood-postgres", "lastgood-postgres-uncached"
REDIS_SAVE, REDIS_APPEND, CHECKPNT = (
    "lastgood-redis-save",
    "lastgood-redis-append",
    "checkpnt-redis",
)
_STEPS = {name: title for name, title in steps.COLUMNS.items() if name != "written"}

WORKLOADS = {
    "w1-postgres": Workload(
        "W1 on PostgreSQL: 1,000 steps of two messages, every step saved",
        (SAVE, APPEND, SAVER, DELTA),
        partial(steps.run_steps, scenarios.growing),
        _STEPS,
        (
            Times("seconds", SAVE, SAVER, 10),
            Times("bytes", SAVE, SAVER, 100),
            Times("seconds", APPEND, SAVER, 10),
            Times("bytes", APPEND, SAVER, 100),
            Times("seconds", SAVE, DELTA, 1),
            Times("seconds", APPEND, DELTA, 1),
        ),
        once=frozenset({SAVER}),
    ),
    "w4-postgres": Workload(
        "W4 on PostgreSQL: 8 async tasks on their own threads, states of 5 KB",
        (OURS, "langgraph-apostgres"),
        partial(writers.async_writers, 8, 500),
        writers.COLUMNS,
        (Times("seconds", OURS, "langgraph-apostgres", 5),),
    ),
    "w5-postgres": Workload(
        "W5 on PostgreSQL: 5,000 restores at random out of 300 states of 20 KB",
        (OURS, UNCACHED, SAVER),
        threads.restore_storm,
        threads.STORM,
        (Times("seconds", OURS, SAVER, 1.5), Times("seconds", UNCACHED, SAVER, 1.5)),
    ),
    "w1-redis": Workload(
        "W1 on Valkey: 1,000 steps of two messages, every step saved",
        (REDIS_SAVE, REDIS_APPEND, "lastgood-redis-strict", CHECKPNT),
        partial(steps.run_steps, scenarios.growing),
        _STEPS,
        (
            Times("seconds", REDIS_SAVE, CHECKPNT, 10),
            Times("bytes", REDIS_SAVE, CHECKPNT, 100),
            Times("seconds", REDIS_APPEND, CHECKPNT, 10),
            Times("bytes", REDIS_APPEND, CHECKPNT, 100),
        ),
        once=frozenset({CHECKPNT}),
    ),
}
