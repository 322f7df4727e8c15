"""`lastgood doctor`: the environment, line by line, with what to do about it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from lastgood.cli import printing
from lastgood.cli.cleaning import clean
from lastgood.cli.command import Command
from lastgood.cli.doctor_checks import Finding, environment_findings
from lastgood.cli.doctor_files import directory_findings
from lastgood.cli.doctor_postgres import postgres_findings
from lastgood.cli.doctor_redis import redis_findings
from lastgood.cli.doctor_store import store_findings
from lastgood.cli.store import address, as_shown, directory_of, file_of, json_option
from lastgood.cli.terminal import Terminal
from lastgood.registry import scheme_of

_STYLES = {"ok": "green", "warning": "yellow", "problem": "red"}


def run(options: Namespace) -> int:
    """Look at everything; 1 if something does not work."""
    place = address(options)
    findings = [*environment_findings(), *_of_store(place)]
    broken = any(finding.level == "problem" for finding in findings)
    if options.json:
        rows = [finding._asdict() for finding in findings]
        printing.document({"store": as_shown(place), "findings": rows, "ok": not broken})
    else:
        _print(findings)
    return 1 if broken else 0


def _of_store(place: str) -> Iterator[Finding]:
    if scheme_of(place) == "postgresql":
        return postgres_findings(place)
    if scheme_of(place) == "redis":
        return redis_findings(place)
    if (directory := directory_of(place)) is not None:
        return directory_findings(directory)
    return store_findings(place, file_of(place))


def _print(findings: list[Finding]) -> None:
    terminal = Terminal.on(sys.stdout)
    widest = max(len(finding.what) for finding in findings)
    for level, what, found, advice in findings:
        mark = terminal.styled(f"{level:<8}", _STYLES[level])
        terminal.line(f"{mark} {what:<{widest}}  {clean(found)}")
        if advice:
            terminal.line(f"{'':<8} {'':<{widest}}  {clean(advice)}", "dim")
    counts = [sum(f.level == level for f in findings) for level in ("warning", "problem")]
    words = [
        printing.counted(n, noun) for n, noun in zip(counts, ("warning", "problem"), strict=True)
    ]
    terminal.line(f"{' and '.join(words)}.")


def _options(parser: ArgumentParser) -> None:
    json_option(parser)


DOCTOR = Command(
    name="doctor",
    help="check the environment: versions, store, disk, clock",
    description="""\
Check the environment: versions, the clock, and the store's file or directory with its disk, or else
its server with the settings there and the way to it. Each line is ok, a warning or a problem, with
what to do.""",
    options=_options,
    run=run,
    epilog="""\
The data itself is not read: `lastgood verify` does that.

examples:
  lastgood doctor
  lastgood doctor --store agents.db --json
  lastgood doctor --store postgresql://app@db.example/agents

with --json: {"store", "findings": [{"level", "what", "found", "advice"}], "ok"}; a level is ok,
warning or problem. The exit code is 1 if there is a problem""",
)
