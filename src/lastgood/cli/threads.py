"""`lastgood threads`: what is in a store, the last touched first."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from lastgood import BlockingClient, Page, ThreadInfo
from lastgood.adapters.graph_names import namespace_of
from lastgood.cli import printing
from lastgood.cli.cleaning import clean
from lastgood.cli.command import Command, limit_option
from lastgood.cli.printing import Cell, Column, cell, counted
from lastgood.cli.store import json_option, opened
from lastgood.cli.terminal import Terminal

_STYLES = {"running": "green", "failed": "red", "stale": "yellow", "waiting": "yellow"}
_COLUMNS = (
    Column("thread", flexible=True),
    Column("status"),
    Column("steps", right=True),
    Column("last step", flexible=True),
    Column("agents", flexible=True),
    Column("branches", right=True),
    Column("stored", right=True),
    Column("changed"),
)


def run(options: Namespace) -> int:
    """List threads."""
    with opened(options) as client:
        page = client.threads(
            agent_id=options.agent,
            status=options.status,
            user=options.user,
            search=options.search,
            sort=options.sort,
            limit=options.limit,
            after=options.after,
        )
        if options.json:
            printing.document({"threads": printing.plain(tuple(page.items)), "next": page.next})
        else:
            asked = (options.agent, options.status, options.user, options.search)
            _print(client, page, filtered=any(asked))
    return 0


def _print(client: BlockingClient, page: Page[ThreadInfo], *, filtered: bool) -> None:
    terminal = Terminal.on(sys.stdout)
    if not page.items:
        begin = 'Open one: client.run("my-first-thread", initial={}).'
        rest = "None of its threads is like that." if filtered else f"No threads yet. {begin}"
        terminal.line(clean(f"{client.url}: {rest}"))
        return
    printing.table(terminal, _COLUMNS, [_row(info) for info in page])
    for info in page:
        if info.error:
            terminal.line(clean(f"{info.thread_id} failed: {info.error}"), "red")
    if page.next is not None:
        printing.note(f"There are more: --limit {2 * len(page)}, or --after {page.next}")


def _agents(info: ThreadInfo) -> str:
    """The agents; the subgraphs of a graph, of which each call is one, are only counted."""
    shown = [name for name in info.agents if not namespace_of(name)]
    more = len(info.agents) - len(shown)
    return ", ".join([*shown, *([counted(more, "subgraph")] if more else [])])


def _row(info: ThreadInfo) -> list[Cell]:
    style = _STYLES.get(info.status)
    return [
        cell(info.thread_id, "bold"),
        cell(info.status, *([style] if style else [])),
        cell(f"{info.checkpoints:,}"),
        cell(info.last_step or "-"),
        cell(_agents(info)),
        cell(info.branches),
        cell(printing.size(info.size)),
        cell(printing.age(info.updated_at), "dim"),
    ]


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--search", metavar="TEXT", help="those with this text in id or title")
    parser.add_argument("--agent", metavar="NAME", help="those that this agent works in")
    parser.add_argument("--user", metavar="NAME", help="those of this user")
    parser.add_argument("--status", help="those in this status: running, stale, failed, idle, done")
    parser.add_argument(
        "--sort", choices=("updated", "created", "name"), default="updated", help="the order"
    )
    limit_option(parser, 50, "threads")
    parser.add_argument("--after", metavar="CURSOR", help="go on after a page")
    json_option(parser)


THREADS = Command(
    name="threads",
    help="list the threads of a store",
    description="List the threads of a store with status and size, the last touched first.",
    options=_options,
    run=run,
    epilog="""\
examples:
  lastgood threads
  lastgood threads --status failed --json

with --json: {"threads": [...], "next": CURSOR or null}; a thread has the fields of
lastgood.ThreadInfo: thread_id, title, status, checkpoints, agents, branches, last_step, size,
created_at, updated_at, user, error, result, metadata""",
)
