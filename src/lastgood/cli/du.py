"""`lastgood du`: what takes the space."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from lastgood import Size, Stats
from lastgood.cli import printing, targets, tenancy
from lastgood.cli.command import Command, limit_option
from lastgood.cli.printing import Cell, Column, cell, counted, size
from lastgood.cli.store import json_option, opened
from lastgood.cli.tenancy import Tenant
from lastgood.cli.terminal import Terminal

_COLUMNS = (
    Column("stored", right=True),
    Column("as states", right=True),
    Column("ratio", right=True),
    Column("steps", right=True),
    Column("", flexible=True),
)


def run(options: Namespace) -> int:
    """Show the sizes of threads, or of the paths in one."""
    tenancy.check(options, options.thread)
    found: list[tuple[Tenant, Stats]] = []
    with opened(options) as client:
        tenants = tenancy.asked(client, options, options.thread)
        for tenant in tenants:
            thread = options.thread and targets.thread(tenant.client, options.thread)
            stats = tenant.client.stats(thread)
            found.append((tenant, stats))
            if not options.json:
                tenancy.heading(Terminal.on(sys.stdout), tenant, tenants)
                _print(stats, options)
    if options.json:
        tenancy.document(options, [(tenant, printing.plain(stats)) for tenant, stats in found])
    return 0


def _print(stats: Stats, options: Namespace) -> None:
    terminal = Terminal.on(sys.stdout)
    kind, rows = ("path", stats.by_path) if options.thread else ("thread", stats.by_thread)
    shown = rows[: options.limit]
    heads = [*_COLUMNS[:-1], _COLUMNS[-1]._replace(title=kind)]
    if shown:
        printing.table(terminal, heads, [_row(each) for each in shown])
    if len(rows) > len(shown):
        printing.note(f"There are {len(rows) - len(shown)} more: --limit {len(rows)}")
    total = f"{size(stats.physical)} stored for {size(stats.logical)} of states"
    file = "" if stats.file_bytes is None else f", {size(stats.file_bytes)} on disk"
    terminal.line(f"{counted(stats.checkpoints, 'checkpoint')}: {total}{file}", "bold")


def _row(each: Size) -> list[Cell]:
    return [
        Cell(size(each.physical)),
        Cell(size(each.logical), ("dim",)),
        Cell(f"{each.ratio:.1f} x", ("green",)),
        Cell(f"{each.checkpoints:,}"),
        cell(each.name or "(the rest of the state)", "bold"),
    ]


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "thread",
        metavar="THREAD",
        nargs="?",
        help="show the paths of this thread (default: the threads of the store)",
    )
    limit_option(parser, 20, "rows")
    tenancy.option(parser)
    json_option(parser)


DU = Command(
    name="du",
    help="show what takes up space: threads, or the paths of one",
    description="""\
Show what takes up space: the threads of a store, or the paths of one thread, the largest first.""",
    options=_options,
    run=run,
    epilog="""\
"as states" counts every state whole, as if each step had stored it; "stored" counts what is stored.

examples:
  lastgood du
  lastgood du run-001 --json
  lastgood du --all-tenants

with --json: {"threads", "total", "file_bytes", "by_thread": [...], "by_path": [...]}; a size is
{"name", "checkpoints", "logical", "physical"}; with --all-tenants a list of these, each with
"tenant" too""",
)
