"""`lastgood threads`: what is in a store, the last touched first."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from typing import Any, NamedTuple, cast

from lastgood import BlockingClient, LastgoodError, Page, ThreadInfo
from lastgood.adapters.graph_names import ROOT, namespace_of
from lastgood.cli import graphs, printing
from lastgood.cli.cleaning import clean
from lastgood.cli.command import Command, limit_option
from lastgood.cli.printing import Cell, Column, cell, counted
from lastgood.cli.store import chosen, json_option, opened
from lastgood.cli.terminal import Terminal
from lastgood.model import STATUSES

_IDLE, _WAITING, _FAILED = "idle", "waiting", "failed"
_IN_STORE = {_WAITING: _IDLE, _FAILED: None}
"""Which threads a store is asked for, where it cannot tell."""
_STYLES = {"running": "green", "failed": "red", "stale": "yellow", "waiting": "yellow"}
_COLUMNS = (
    Column("thread", flexible=True, key=True),
    Column("status"),
    Column("steps", right=True),
    Column("last step", flexible=True),
    Column("agents", flexible=True, optional=True),
    Column("branches", right=True, optional=True),
    Column("stored", right=True, optional=True),
    Column("changed"),
)


class Shown(NamedTuple):
    """A thread, and why a graph in it does not go on by itself."""

    info: ThreadInfo
    questions: list[Any]
    errors: list[str]

    @property
    def status(self) -> str:
        if self.questions:
            return _WAITING
        return _FAILED if self.errors else self.info.status

    @property
    def error(self) -> str | None:
        """How its run failed, or a task of its graph."""
        return self.info.error or next(iter(self.errors), None)


def run(options: Namespace) -> int:
    """List threads."""
    with opened(options) as client:
        page = _page(client, options)
        if options.json:
            printing.document({"threads": list(map(_as_json, page)), "next": page.next})
        else:
            _print(client, page, options)
    return 0


def _page(client: BlockingClient, options: Namespace) -> Page[Shown]:
    """A page of threads. A store knows nothing of graphs: to it, one that waits or failed is idle.

    So others are left out here. A page of the store is taken as a whole, or asked for once more
    so small that all of it is wanted: only at its end there is a place to go on from.
    """
    kept: list[Shown] = []
    after, size = options.after, options.limit
    while True:
        page = _asked(client, options, size, after)
        found = [shown for info in page if (shown := _wanted(client, options, info))]
        room = options.limit - len(kept)
        if len(found) > room:
            size = room
            continue
        kept += found
        if page.next is None or len(kept) == options.limit:
            return Page(_sorted(kept, options.sort), page.next)
        after, size = page.next, options.limit


def _asked(
    client: BlockingClient, options: Namespace, limit: int, after: str | None
) -> Page[ThreadInfo]:
    return client.threads(
        agent_id=options.agent,
        status=_IN_STORE.get(options.status, options.status),
        user=options.user,
        search=options.search,
        sort=options.sort,
        limit=limit,
        after=after,
    )


def _wanted(client: BlockingClient, options: Namespace, info: ThreadInfo) -> Shown | None:
    shown = Shown(info, *_standing(client, info))
    return shown if options.status in (None, shown.status) else None


def _sorted(kept: list[Shown], sort: str) -> list[Shown]:
    """As a page of the store is."""
    if sort != "updated":
        return kept
    return sorted(kept, key=lambda shown: shown.info.updated_at, reverse=True)


def _standing(client: BlockingClient, info: ThreadInfo) -> graphs.Standing:
    if info.status != _IDLE or ROOT not in info.agents:
        return graphs.Standing([], [])
    try:
        branches = client.branches(info.thread_id, agent_id=ROOT)
    except LastgoodError:
        return graphs.Standing([], [])  # what is wrong with it is not for the list of all
    return next(iter(graphs.standing(client, branches).values()), graphs.Standing([], []))


def _as_json(shown: Shown) -> dict[str, object]:
    fields = cast("dict[str, object]", printing.plain(shown.info))
    told = {"status": shown.status, "error": shown.error, "waits_for": shown.questions}
    return {**fields, **told}


def _goes_on(client: BlockingClient, options: Namespace, after: str | None) -> bool:
    """A page that is full has a place to go on from, also where nothing is behind it."""
    while after is not None:
        page = _asked(client, options, options.limit, after)
        if any(_wanted(client, options, info) for info in page):
            return True
        after = page.next
    return False


def _print(client: BlockingClient, page: Page[Shown], options: Namespace) -> None:
    terminal = Terminal.on(sys.stdout)
    if not page.items:
        terminal.line(clean(f"{client.url}: {_nothing(options)}"))
        return
    printing.table(terminal, _COLUMNS, [_row(shown) for shown in page])
    for shown in page:
        info = shown.info
        if shown.error:  # who was interrupted, or has a result that cannot be read, did not fail
            text = f"{info.thread_id} {shown.status}: {shown.error}"
            terminal.line(clean(text), _STYLES.get(shown.status, "red"))
        for question in shown.questions:
            text = f"{info.thread_id} waits for {graphs.readable(question)}"
            terminal.line(clean(text), "yellow")
    if page.next is not None and _goes_on(client, options, page.next):
        after = shlex.join(chosen("--after", page.next))
        printing.note(f"There are more: --limit {2 * len(page)}, or {after}")


def _nothing(options: Namespace) -> str:
    if options.after is not None:
        return "No more threads."
    if any((options.agent, options.status, options.user, options.search)):
        return "None of its threads is like that."
    begin = 'Open one: client.run("my-first-thread", initial={}).'
    return f"No threads yet. {begin} Another tenant's: --tenant NAME."


def _agents(info: ThreadInfo) -> str:
    """The agents; the subgraphs of a graph, of which each call is one, are only counted."""
    shown = [name for name in info.agents if not namespace_of(name)]
    more = len(info.agents) - len(shown)
    return ", ".join([*shown, *([counted(more, "subgraph")] if more else [])])


def _row(shown: Shown) -> list[Cell]:
    info, style = shown.info, _STYLES.get(shown.status)
    known = [cell(info.thread_id, "bold"), cell(shown.status, *([style] if style else []))]
    if shown.status == "damaged":  # its counts are 0, and its time is none
        return known + [cell("-")] * (len(_COLUMNS) - len(known))
    return [
        *known,
        cell(f"{info.checkpoints:,}"),
        cell(info.last_step or "-"),
        cell(_agents(info)),
        cell(info.branches),
        cell(printing.size(info.size)),
        cell(printing.age(info.updated_at), "dim"),
    ]


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--search", metavar="TEXT", help="only threads with this text in their id or title"
    )
    parser.add_argument(
        "--agent", metavar="NAME", help="only threads in which this agent has a lane"
    )
    parser.add_argument("--user", metavar="NAME", help="only threads of this user")
    parser.add_argument(
        "--status",
        metavar="STATUS",
        choices=(*STATUSES, _WAITING),
        help="only threads in this status: running, stale, failed, idle, done, damaged or waiting",
    )
    parser.add_argument(
        "--sort",
        choices=("updated", "created", "name"),
        default="updated",
        help="the order (default: updated)",
    )
    limit_option(parser, 50, "threads")
    parser.add_argument(
        "--after", metavar="CURSOR", help='continue from the "next" of the page before'
    )
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
  lastgood threads --status waiting

A LangGraph graph that asked a question and has no answer yet is waiting; its question is shown.
A graph in which a node failed is failed until that node has run again.

with --json: {"threads": [...], "next": CURSOR or null}; a thread has the fields of
lastgood.ThreadInfo: thread_id, title, status, checkpoints, agents, branches, last_step, size,
created_at, updated_at, user, error, result, metadata; and "waits_for": [QUESTION]""",
)
