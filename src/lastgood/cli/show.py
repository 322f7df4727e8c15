"""`lastgood show`: one checkpoint, its header and its state."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping

from lastgood import BlockingClient, Checkpoint, CheckpointIntegrityError
from lastgood.cli import graphs, printing, targets, values
from lastgood.cli.cleaning import clean, clean_lines
from lastgood.cli.command import Command
from lastgood.cli.log import Marks, header_json
from lastgood.cli.store import json_option, opened
from lastgood.cli.terminal import Terminal


def run(options: Namespace) -> int:
    """Show a checkpoint, or a part of its state."""
    with opened(options) as client:
        found = client.restore(targets.ref(client, options.ref))
        state = printing.spelled(found.state)
        part = values.at(state, options.path) if options.path else state
        if options.json:
            _print_json(found, options.path, part)
        elif options.path:
            _print_part(part, options)
        else:
            _print_all(client, found, part, options)
    return 0


def _print_json(found: Checkpoint, path: str | None, part: object) -> None:
    if path:
        printing.document({"name": found.name, "path": path, "value": part})
        return
    printing.document({**header_json(found), "state": part})


def _print_part(part: object, options: Namespace) -> None:
    terminal = Terminal.on(sys.stdout)
    text = values.text_of(part)
    if text is not None and options.full:
        terminal.line(clean_lines(text))
    else:
        _print_tree(terminal, part, options, "")


def _print_all(
    client: BlockingClient, found: Checkpoint, state: object, options: Namespace
) -> None:
    terminal = Terminal.on(sys.stdout)
    step = f"step {found.step_index}" + (f", {found.step_name}" if found.step_name else "")
    terminal.line(f"{terminal.styled(clean(found.name), 'yellow', 'bold')}  {clean(step)}")
    for name, text in _about(client, found, state):
        terminal.line(f"  {terminal.styled(f'{name:<9}', 'dim')} {clean(text)}")
    terminal.line(terminal.styled("state", "bold"))
    _print_tree(terminal, state, options, "  ")


def _print_tree(terminal: Terminal, part: object, options: Namespace, indent: str) -> None:
    limits = values.EVERYTHING if options.full else values.Limits()
    for line in values.tree(part, limits):
        terminal.line(indent + terminal.highlighted(line))


def _about(client: BlockingClient, found: Checkpoint, state: object) -> Iterator[tuple[str, str]]:
    marks = _marks(client, found)
    yield "agent", f"{found.agent_id}, on branch {found.branch} {marks.on(found)}".rstrip()
    yield "saved", printing.moment(found.created_at)
    if found.expires_at is not None:
        yield "expires", f"{found.expires_at.astimezone():%Y-%m-%d %H:%M:%S}"
    yield "size", printing.counted(found.size, "byte")
    yield "id", found.checkpoint_id
    yield "parent", found.parent_id or "none: it is the first"
    if graphs.is_graphs(found):
        head = found.checkpoint_id in marks.heads
        waits = head and bool(marks.questions)
        yield from graphs.about(client, found, state, head=head, waits=waits)
    elif found.context:
        yield "context", _inline(found.context)
    if found.metadata:
        yield "metadata", _inline(found.metadata)
    for loss in found.losses:
        yield "left out", loss.reason  # which begins with the path


def _marks(client: BlockingClient, found: Checkpoint) -> Marks:
    try:
        return Marks.of(client, found.session_id)
    except CheckpointIntegrityError:
        return Marks((), {})  # what is damaged elsewhere in the thread does not hide this one


def _inline(mapping: Mapping[str, object]) -> str:
    spelled = printing.spelled(dict(mapping))
    fields: list[list[str]] = []
    for line in values.tree(spelled, values.Limits()):
        if line.startswith(" "):
            fields[-1].append(line.strip())
        else:
            fields.append([line])
    return ", ".join(
        f"{head} ({', '.join(inside)})" if inside else head for head, *inside in fields
    )


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ref",
        metavar="REF",
        nargs="?",
        help="the checkpoint: thread, thread@SEQ, thread@~N, thread@tag:NAME, an id or its first "
        "digits (default: the newest of the thread touched last)",
    )
    parser.add_argument("--path", help="show only this part of the state, such as messages[3].text")
    parser.add_argument("--full", action="store_true", help="do not shorten anything")
    json_option(parser)


SHOW = Command(
    name="show",
    help="show one checkpoint and its state",
    description="Show one checkpoint: what is known about it, and its state as a tree.",
    options=_options,
    run=run,
    epilog="""\
examples:
  lastgood show run-001
  lastgood show run-001@42 --path 'messages[3].text' --full

with --json: the fields of a checkpoint as in `log --json`, and "state" in the text spelling of the
codec: a value that JSON cannot express is {"$lg": KIND, "v": ...}. With --path: {"name", "path",
"value"}""",
)
