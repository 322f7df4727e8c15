"""The stores under measurement by name, for each shape of work."""

from benchmarks.stores.bare import Floor, JsonRows, PickleFiles, RelaxedFloor
from benchmarks.stores.checkpnt import CheckpntSteps, CheckpntThreads, CheckpntWriters
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
    LastgoodThreads,
    LastgoodUncached,
    LastgoodWriters,
    RelaxedAppend,
    RelaxedSave,
)

STEPS: dict[str, type[Steps]] = {
    "floor": Floor,
    "floor-relaxed": RelaxedFloor,
    "lastgood-save": LastgoodSave,
    "lastgood-append": LastgoodAppend,
    "lastgood-save-relaxed": RelaxedSave,
    "lastgood-append-relaxed": RelaxedAppend,
    "langgraph-sqlite": LanggraphSteps,
    "langgraph-sqlite-normal": NormalSteps,
    "langgraph-delta": LanggraphDelta,
    "checkpnt": CheckpntSteps,
    "json-rows": JsonRows,
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
}
WRITERS: dict[str, type[Writers]] = {
    "lastgood": LastgoodWriters,
    "langgraph-aiosqlite": LanggraphWriters,
    "checkpnt": CheckpntWriters,
}

DESCRIPTIONS = {
    name: (made.__doc__ or "").splitlines()[0]
    for table in (STEPS, LINES, THREADS, WRITERS)
    for name, made in table.items()
}
