"""What is done to a store and what is measured: the table of all workloads.

A workload runs in its own process on an empty directory and returns an `Outcome`. It raises when a
restored state differs from what was saved, or when a connection commits less durably than promised.
"""

from benchmarks.workloads import (
    conversations,
    diff,
    lines,
    look,
    memory,
    processes,
    serializers,
    servers,
    steps,
    threads,
    writers,
)
from benchmarks.workloads.table import Workload

WORKLOADS: dict[str, Workload] = {
    name: workload
    for module in (
        steps,
        lines,
        threads,
        writers,
        processes,
        serializers,
        look,
        diff,
        memory,
        conversations,
        servers,
    )
    for name, workload in module.WORKLOADS.items()
}
