"""`lastgood blame`: which step brought a value in."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from lastgood import Blame
from lastgood.cli import printing, targets, values
from lastgood.cli.cleaning import clean
from lastgood.cli.command import Command
from lastgood.cli.log import header_json, step
from lastgood.cli.store import json_option, opened
from lastgood.cli.terminal import Terminal


def run(options: Namespace) -> int:
    """Find the step."""
    with opened(options) as client:
        found = client.blame(targets.ref(client, options.ref), options.path)
        if options.json:
            printing.document(_as_json(found))
        else:
            _print(found)
    return 0


def _as_json(found: Blame) -> dict[str, object]:
    return {
        "path": found.path,
        "value": printing.spelled(found.value),
        "checkpoint": header_json(found.header),
        "before": header_json(found.before) if found.before else None,
        "path_then": found.path_then,
    }


def _print(found: Blame) -> None:
    terminal, header = Terminal.on(sys.stdout), found.header
    name = terminal.styled(clean(header.name), "yellow", "bold")
    place = clean(
        f"{header.agent_id}, on branch {header.branch}, {printing.age(header.created_at)}"
    )
    terminal.line(f"{name}  {step(header).text}  ({place})")
    what = clean(found.path_then) or "the state as a whole"
    terminal.line(f"brought in {terminal.styled(what, 'bold')}:")
    for line in values.tree(printing.spelled(found.value), values.Limits()):
        terminal.line("  " + terminal.highlighted(line))
    if found.path_then != found.path:
        terminal.line(clean(f"It has moved to {found.path} since."), "dim")
    if found.before is not None:
        terminal.line(clean(f"The step before, without it: {found.before.name}"), "dim")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ref", metavar="REF", help="the checkpoint to begin at: thread, thread@SEQ, an id, ..."
    )
    parser.add_argument(
        "path", metavar="PATH", help="the path of the value, such as messages[3].text"
    )
    json_option(parser)


BLAME = Command(
    name="blame",
    help="find the step that brought a value in",
    description="Find the step that brought in the value at a path, going back from a checkpoint.",
    options=_options,
    run=run,
    epilog="""\
examples:
  lastgood blame run-001 plan.goal
  lastgood blame run-001@42 'messages[3].text'

with --json: {"path", "value", "checkpoint", "before", "path_then"}; checkpoints are as in `log
--json`; "before" may be null""",
)
