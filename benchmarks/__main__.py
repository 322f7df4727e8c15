"""`python -m benchmarks`: measure every store on every workload and show the tables."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.figures import Outcome
from benchmarks.report import RESULTS, LeftOut, Measurement, Run, show, write
from benchmarks.workloads import WORKLOADS

PATIENCE = 240
"""Seconds for one measurement; the longest takes a tenth of that."""


def main() -> None:
    """Run the measurements that were asked for, or, in a child process, a single one."""
    options = _options()
    if options.measure:
        workload, store, directory = options.measure
        outcome = WORKLOADS[workload].run(store, Path(directory), options.scale)
        print(json.dumps(asdict(outcome)))
        return
    RESULTS.mkdir(exist_ok=True)
    run = Run(options.scale)
    begun = perf_counter()
    _measure_all(options, run)
    run.seconds = perf_counter() - begun
    if not run.measured:
        sys.exit("no such store in the chosen workloads")
    print(show(run))
    print(f"\nall figures: {os.path.relpath(write(run))}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1, help="of the workloads; default 1")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--stores", nargs="+", help="only these stores; default all")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure_all(options: argparse.Namespace, run: Run) -> None:
    for repetition in range(options.repetitions):
        for workload in options.workloads:
            for store in _rotated(list(WORKLOADS[workload].stores), repetition):
                if _wanted(options, workload, store, repetition):
                    print(f"  {repetition + 1}: {workload} {store}", file=sys.stderr)
                    _measure(run, workload, store, repetition)


def _wanted(options: argparse.Namespace, workload: str, store: str, repetition: int) -> bool:
    if repetition and store in WORKLOADS[workload].once:
        return False
    return options.stores is None or store in options.stores


def _rotated(stores: list[str], by: int) -> list[str]:
    """Another store goes first in every repetition, so that none always meets a fresh disk."""
    by %= len(stores)
    return stores[by:] + stores[:by]


def _measure(run: Run, workload: str, store: str, repetition: int) -> None:
    """One process, on the disk of this project: a temporary directory may lie in memory.

    A peer that does not run here is left out, and the result says so; one of ours ends the run.
    """
    os.sync()
    with tempfile.TemporaryDirectory(dir=RESULTS) as directory:
        arguments = ["--scale", str(run.scale), "--measure", workload, store, directory]
        command = [sys.executable, "-m", "benchmarks", *arguments]
        done = _completed(command)
    if not done.returncode:
        outcome = Outcome(**json.loads(done.stdout))
        run.measured.append(Measurement(workload, store, repetition, outcome))
        return
    print(done.stderr, file=sys.stderr)
    if store.startswith("lastgood"):
        sys.exit(f"{workload} on {store} failed")
    reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    run.left_out.append(LeftOut(workload, store, reason))


def _completed(command: list[str]) -> "subprocess.CompletedProcess[str]":
    """A process that came to its end; one that does not is ended, and has failed."""
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": PATIENCE}
    try:
        return subprocess.run(command, check=False, **how)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no end after {PATIENCE} seconds")


if __name__ == "__main__":
    main()
