"""`lastgood log`: the checkpoints of a thread, newest first, as a list or as a graph."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from lastgood import BlockingClient, BranchInfo, Header, Page, watching
from lastgood.cli import graphs, printing, targets
from lastgood.cli.cleaning import clean
from lastgood.cli.command import USAGE, Command, Refusal, agent_option, limit_option, seq_number
from lastgood.cli.graph import Graph, Line
from lastgood.cli.printing import Cell, Column, cell
from lastgood.cli.store import again, chosen, json_option, opened
from lastgood.cli.terminal import Terminal
from lastgood.driver import iterated
from lastgood.refs import quote

_GRAPH_COLUMNS = 12
_FOLLOWED = 10
"""How many checkpoints stand before those that are waited for."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What points at the checkpoints of a thread, branches and tags, and what is waited for."""

    branches: Sequence[BranchInfo]
    tags: dict[str, str]
    questions: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """What a graph asks and has no answer to, by the id of the head where it does."""

    @classmethod
    def of(cls, client: BlockingClient, thread: str) -> Marks:
        branches = client.branches(thread)
        return cls(branches, client.tags(thread), graphs.waiting(client, branches))

    @property
    def heads(self) -> frozenset[str]:
        """Ids that a lane goes on from."""
        return frozenset(b.head.checkpoint_id for b in self.branches if b.current and b.head)

    def on(self, header: Header) -> str:
        """`-> main, tag:paid`: the arrow stands before the branch that the agent goes on from."""
        id = header.checkpoint_id
        here = [b for b in self.branches if b.head and b.head.checkpoint_id == id]
        names = [f"-> {b.name}" if b.current else b.name for b in here]
        names += [f"tag:{name}" for name, tagged in sorted(self.tags.items()) if tagged == id]
        return f"({', '.join(names)})" if names else ""

    def beside(self, header: Header) -> str:
        """What a line of the log ends with."""
        asked = ", ".join(map(graphs.readable, self.questions.get(header.checkpoint_id, ())))
        return f"{self.on(header)} waits for {asked}" if asked else self.on(header)


def run(options: Namespace) -> int:
    """Show the log."""
    if options.graph and options.follow:
        raise Refusal("--graph and --follow do not go together.", exit_code=USAGE)
    with opened(options) as client:
        named = options.thread is not None
        if named:
            options.thread = targets.thread(client, options.thread)
        else:
            options.thread = targets.newest_thread(client)
        targets.check_lane(client, options.thread, options.agent, options.branch)
        return _follow(client, options) if options.follow else _list(client, options, named=named)


def _list(client: BlockingClient, options: Namespace, *, named: bool) -> int:
    page = _page(client, options, options.limit, options.before)
    marks = Marks.of(client, options.thread)
    if options.json:
        printing.document(_as_json(options.thread, page.items, marks, page.next))
        return 0
    terminal = Terminal.on(sys.stdout)
    filtered = any((options.agent, options.branch, options.step, options.before))
    # A page that is full has a place to go on from, also where nothing is behind it.
    goes_on = page.next is not None and bool(_page(client, options, 1, page.next))
    complete = not goes_on or filtered
    if not named:
        whose = terminal.styled(clean(options.thread), "yellow", "bold")
        terminal.line(f"{whose}  the thread that was touched last")
    draw(terminal, page.items, marks, graph=options.graph, complete=complete)
    if goes_on:
        more = again(options, "log", options.thread, more=_asked(options))
        printing.note(f"Older ones: {more}, or --before {page.next}")
    elif not page.items:
        printing.note(f"{options.thread}: {_nothing(marks, filtered=filtered)}")
    return 0


def _page(
    client: BlockingClient, options: Namespace, limit: int, after: str | None = None
) -> Page[Header]:
    return client.log(
        options.thread,
        agent_id=options.agent,
        branch=options.branch,
        step_name=options.step,
        limit=limit,
        after=after,
    )


def _asked(options: Namespace) -> list[str]:
    """The options of the same list, ten times as long."""
    names = (("--agent", options.agent), ("--branch", options.branch), ("--step", options.step))
    filters = [word for name, value in names if value is not None for word in chosen(name, value)]
    return [*filters, *(["--graph"] if options.graph else []), "--limit", str(10 * options.limit)]


def _nothing(marks: Marks, *, filtered: bool) -> str:
    if filtered:
        return "no checkpoints like that"
    if marks.branches:  # a branch begins with its first checkpoint
        return "all its checkpoints were removed or are over their time"
    return "no checkpoints yet"


def draw(
    terminal: Terminal,
    headers: Sequence[Header],
    marks: Marks,
    *,
    graph: bool = True,
    complete: bool = True,
) -> None:
    """Print checkpoints, newest first, with their lines if asked."""
    show = _Shown.of(headers, marks, graph=graph)
    if not graph:
        printing.table(terminal, show.columns(), [show.row(header, marks) for header in headers])
        return
    lines = list(Graph(terminal.glyphs, marks.heads).lines(headers, complete=complete))
    room = max(2, min(_GRAPH_COLUMNS, terminal.width // 6))
    rows = [[line.cell(terminal, room), *_beside(show, line, marks)] for line in lines]
    printing.table(terminal, [Column(""), *show.columns()], rows)


def _beside(show: _Shown, line: Line, marks: Marks) -> list[Cell]:
    if line.header is not None:
        return show.row(line.header, marks)
    return [Cell(""), Cell("(its parent is not shown)", ("dim",))] if line.torn else []


@dataclass(frozen=True, slots=True)
class _Shown:
    """Which columns say something about this thread."""

    agents: bool
    branches: bool

    @classmethod
    def of(cls, headers: Sequence[Header], marks: Marks, *, graph: bool) -> _Shown:
        return cls(
            agents=len({b.agent_id for b in marks.branches} | {h.agent_id for h in headers}) > 1,
            branches=not graph and len(marks.branches) > 1,
        )

    def columns(self) -> list[Column]:
        return [
            Column("", right=True),
            Column("step", flexible=True),
            *([Column("branch", flexible=True)] if self.branches else []),
            *([Column("agent", flexible=True)] if self.agents else []),
            Column("age"),
            Column("state", right=True),
            Column("", flexible=True),
        ]

    def row(self, header: Header, marks: Marks) -> list[Cell]:
        return [
            Cell(f"@{header.seq}", ("yellow",)),
            step(header),
            *([cell(header.branch)] if self.branches else []),
            *([cell(header.agent_id)] if self.agents else []),
            cell(printing.age(header.created_at), "dim"),
            cell(printing.size(header.size), "dim"),
            cell(marks.beside(header), "cyan", "bold"),
        ]


def step(header: Header) -> Cell:
    """What a checkpoint is called: the name of its step, else its number."""
    if header.step_name:
        return cell(header.step_name)
    return Cell(f"(step {header.step_index})", ("dim",))


def _follow(client: BlockingClient, options: Namespace) -> int:
    thread = options.thread
    marks = Marks.of(client, thread)
    before = _page(client, options, min(options.limit, _FOLLOWED))
    terminal = Terminal.on(sys.stdout)
    if not options.json:
        printing.note(f"Following {quote(thread)}; Ctrl-C ends it.")
    after = before[0].seq if before.items else 0
    for header in before.items[::-1]:
        _tell(terminal, header, marks, json=options.json)
    for header in iterated(_watched(client, options, after)):
        if _wanted(header, options):
            _tell(terminal, header, Marks((), {}), json=options.json)
    return 0


def _watched(
    client: BlockingClient, options: Namespace, after: int
) -> AsyncGenerator[Header, None]:
    """As `client.watch` has it, which says nothing of an end: somebody looks at this one."""
    note = f"{quote(options.thread)} was deleted. If it begins anew, that is shown; Ctrl-C ends it."
    direct = client._direct
    return watching.watch(
        direct._core,
        direct._driver,
        options.thread,
        options.agent,
        after,
        ended=lambda: printing.note(note),
    )


def _wanted(header: Header, options: Namespace) -> bool:
    return options.branch in (None, header.branch) and options.step in (None, header.step_name)


def _tell(terminal: Terminal, header: Header, marks: Marks, *, json: bool) -> None:
    if json:
        printing.document(header_json(header))
        return
    seq = terminal.styled(f"@{header.seq:<5}", "yellow")
    about = clean(f"{header.agent_id}/{header.branch}  {printing.size(header.size)}")
    line = f"{seq} {step(header).text:<24}  {about}  {clean(marks.on(header))}"
    clock = terminal.styled(f"{header.created_at.astimezone():%H:%M:%S}", "dim")
    terminal.line(f"{clock}  {line}".rstrip())


def header_json(header: Header) -> dict[str, object]:
    """A header for programs: its fields, and the short name."""
    values = {each.name: printing.plain(getattr(header, each.name)) for each in fields(Header)}
    return {"name": header.name, **values}


def _as_json(
    thread: str, headers: Sequence[Header], marks: Marks, more: str | None
) -> dict[str, object]:
    branches = [
        {
            "agent_id": b.agent_id,
            "name": b.name,
            "current": b.current,
            "head": b.head.checkpoint_id if b.head else None,
        }
        for b in marks.branches
    ]
    return {
        "thread": thread,
        "checkpoints": [header_json(header) for header in headers],
        "branches": branches,
        "tags": marks.tags,
        "waits_for": marks.questions,
        "next": more,
    }


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "thread", metavar="THREAD", nargs="?", help="the thread (default: the one touched last)"
    )
    parser.add_argument(
        "--graph", action="store_true", help="draw the lines of the thread as a graph"
    )
    parser.add_argument(
        "--follow", action="store_true", help="show new checkpoints as they come, until Ctrl-C"
    )
    agent_option(parser)
    parser.add_argument(
        "--branch", metavar="NAME", help="only checkpoints that were saved on this branch"
    )
    parser.add_argument("--step", metavar="NAME", help="only steps with this name")
    limit_option(parser, 30, "checkpoints")
    parser.add_argument(
        "--before",
        metavar="SEQ",
        type=seq_number,
        help="only checkpoints that are older than this one",
    )
    json_option(parser)


LOG = Command(
    name="log",
    help="list the checkpoints of a thread",
    description="List the checkpoints of a thread, newest first, without loading a state.",
    options=_options,
    run=run,
    epilog="""\
An arrow marks the branch that the agent continues from: (-> main, other, tag:paid). Where a
LangGraph graph waits for an answer, its question is shown too.

examples:
  lastgood log run-001 --graph
  lastgood log run-001 --follow

with --json: {"thread", "checkpoints": [...], "branches": [{"agent_id", "name", "current", "head"}],
"tags": {NAME: ID}, "waits_for": {ID: [QUESTION]}, "next": SEQ or null}; with --follow, one
checkpoint per line. A checkpoint has its short "name" and the fields of lastgood.Header:
checkpoint_id, agent_id, session_id, parent_id, framework, schema_version, step_index, step_name,
agent_context, metadata, created_at, ttl_seconds, expires_at, checksum, handoff_target,
handoff_schema, seq, branch, size, digest, losses""",
)
