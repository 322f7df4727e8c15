"""`lastgood diff`: what differs between two states."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from lastgood import BlockingClient, Change, Diff, Header
from lastgood.cli import printing, targets, values
from lastgood.cli.cleaning import clean
from lastgood.cli.command import ABSENT, DONE, NO, Command, Refusal
from lastgood.cli.store import json_option, opened
from lastgood.cli.terminal import Terminal
from lastgood.cli.values import EVERYTHING, Limits

_SIGNS = {
    "add": ("+", "green"),
    "remove": ("-", "red"),
    "replace": ("~", "yellow"),
    "move": (">", "cyan"),
}
_SHORT = Limits(text=100, items=8, depth=6)
_AROUND = 24
"""Characters that are shown before the first one that differs."""


def run(options: Namespace) -> int:
    """Compare; 1 if there is a difference."""
    with opened(options) as client:
        old, new = _sides(client, options)
        found = client.diff(old.checkpoint_id, new.checkpoint_id)
        if options.json:
            printing.document(_as_json(old, new, found))
        else:
            draw(Terminal.on(sys.stdout), old, new, found, full=options.full)
    return NO if found else DONE


def _sides(client: BlockingClient, options: Namespace) -> tuple[Header, Header]:
    first = client.resolve(targets.ref(client, options.a))
    if options.b is not None:
        return first, client.resolve(targets.ref(client, options.b))
    if first.parent_id is None:
        raise Refusal(
            f"{first.name} is the first: there is nothing before it.",
            hint="Name two checkpoints.",
            exit_code=ABSENT,
        )
    return client.resolve(first.parent_id), first


def _as_json(old: Header, new: Header, found: Diff) -> dict[str, object]:
    return {
        "a": old.name,
        "b": new.name,
        "equal": not found,
        "summary": found.summary(),
        "changes": [_change_json(change) for change in found],
        "json_patch": _json_patch(found),
    }


def _change_json(change: Change) -> dict[str, object]:
    return {
        "op": change.op,
        "path": change.path,
        "old": printing.spelled(change.old),
        "new": printing.spelled(change.new),
        "source": change.source,
    }


def _json_patch(found: Diff) -> list[dict[str, Any]] | None:
    """None for states that are not plain JSON."""
    try:
        return found.to_json_patch()
    except TypeError:
        return None


def draw(terminal: Terminal, old: Header, new: Header, found: Diff, *, full: bool = False) -> None:
    """Print a diff."""
    sides = " -> ".join(terminal.styled(clean(side.name), "yellow") for side in (old, new))
    terminal.line(f"{sides}  {clean(found.summary())}")
    for change in found:
        for line in _lines(terminal, change, EVERYTHING if full else _SHORT):
            terminal.line(line)


def _lines(terminal: Terminal, change: Change, limits: Limits) -> Iterator[str]:
    sign, style = _SIGNS[change.op]
    path = terminal.styled(clean(change.path or "the state"), "bold")
    head = f"{terminal.styled(sign, style)} {path}"
    if change.op == "move":
        yield f"{head} (was {clean(str(change.source))})"
        return
    sides = _shown(change, limits)
    if all(len(lines) == 1 for _, _, lines in sides):
        shown = " -> ".join(terminal.styled(lines[0], style) for _, style, lines in sides)
        yield f"{head}: {shown}"
        return
    yield f"{head}:"
    for mark, style, lines in sides:
        yield from (terminal.styled(f"  {mark} {line}", style) for line in lines)


def _shown(change: Change, limits: Limits) -> list[tuple[str, str, list[str]]]:
    """What was there and what is there now, as lines."""
    old, new = printing.spelled(change.old), printing.spelled(change.new)
    if isinstance(old, str) and isinstance(new, str) and change.op == "replace":
        old, new = _where_they_differ(old, new, limits.text)
    removed = ("-", "red", list(values.tree(old, limits)))
    added = ("+", "green", list(values.tree(new, limits)))
    return {"add": [added], "remove": [removed]}.get(change.op, [removed, added])


def _where_they_differ(old: str, new: str, room: int) -> tuple[str, str]:
    """Two long texts from shortly before the first difference on."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    start = sum(1 for _ in same) - _AROUND
    if max(len(old), len(new)) <= room or start <= 0:
        return old, new
    return f"...{old[start:]}", f"...{new[start:]}"


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a checkpoint: thread, thread@SEQ, an id, ...")
    parser.add_argument(
        "b",
        metavar="B",
        nargs="?",
        help="the checkpoint to compare A with (default: A is compared with the step before it)",
    )
    parser.add_argument("--full", action="store_true", help="do not shorten anything")
    json_option(parser)


DIFF = Command(
    name="diff",
    help="compare the states of two checkpoints",
    description="""\
Compare the states of two checkpoints, of any threads, agents and branches, or the state of one with
that of the step before it.""",
    options=_options,
    run=run,
    epilog="""\
Signs: + added, - removed, ~ changed, > moved. The exit code is 0 if the states are equal, and 1 if
they differ.

examples:
  lastgood diff run-001@42
  lastgood diff run-001@tag:checked run-001

with --json: {"a", "b", "equal", "summary", "changes": [{"op", "path", "old", "new", "source"}],
"json_patch"}; op is add, remove, replace or move; values are in the text spelling of the codec;
"json_patch" (RFC 6902) is null for states that are not plain JSON""",
)
