"""`lastgood tenants`: whose threads are in a store."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from lastgood import BlockingClient
from lastgood.cli import printing
from lastgood.cli.cleaning import clean
from lastgood.cli.command import Command
from lastgood.cli.printing import Column, cell
from lastgood.cli.store import json_option, opened, store_option
from lastgood.cli.terminal import Terminal
from lastgood.driver import run_blocking

_COLUMNS = (Column("tenant", flexible=True, key=True), Column("threads", right=True))


def run(options: Namespace) -> int:
    """List tenants, each with the number of its threads."""
    with opened(options) as client:
        found = {name: _threads(client, name) for name in client.tenants()}
        if options.json:
            each = [{"tenant": name, "threads": count} for name, count in found.items()]
            printing.document({"tenants": each})
        else:
            _print(client, found)
    return 0


def _threads(client: BlockingClient, tenant: str) -> int:
    return run_blocking(client._core.backend.census(tenant)).threads


def _print(client: BlockingClient, found: dict[str, int]) -> None:
    terminal = Terminal.on(sys.stdout)
    if not found:
        terminal.line(clean(f"{client.url}: No threads yet, of anybody."))
        return
    rows = [[cell(name, "bold"), cell(f"{count:,}")] for name, count in found.items()]
    printing.table(terminal, _COLUMNS, rows)


def _options(parser: ArgumentParser) -> None:
    store_option(parser)
    json_option(parser)


TENANTS = Command(
    name="tenants",
    help="list whose threads are in a store",
    description="""\
List the tenants of a store, each with the number of its threads. Every other command is about one
tenant: the one that --tenant names, or `default`. Some take each tenant in turn: --all-tenants.""",
    options=_options,
    run=run,
    epilog="""\
A tenant whose threads were all deleted is not listed. A tenant with 0 threads has something in
LangGraph's store or cache.

examples:
  lastgood tenants
  lastgood tenants --store agents.db --json

with --json: {"tenants": [{"tenant", "threads"}]}""",
)
