"""`lastgood fork`: try something else from any checkpoint, without touching what is there."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from lastgood import BlockingClient, Header, SerializationError
from lastgood.cli import printing, targets
from lastgood.cli.cleaning import clean
from lastgood.cli.command import USAGE, Command, Refusal
from lastgood.cli.log import header_json
from lastgood.cli.store import again, json_option, opened
from lastgood.cli.terminal import Terminal
from lastgood.codec import Codec


def run(options: Namespace) -> int:
    """Fork."""
    edits = _edits(options.set)
    with opened(options) as client:
        source = client.resolve(targets.ref(client, options.ref))
        id = client.fork(
            source.checkpoint_id,
            branch=options.branch,
            edits=edits or None,
            remove=options.remove,
            switch=options.switch,
        )
        made = client.resolve(id)
        if options.json:
            current = _is_current(client, made)
            printing.document({**header_json(made), "source": source.name, "current": current})
        else:
            lane = targets.lane(client, made.session_id, made.agent_id)
            _print(source, made, lane, options)
    return 0


def _edits(texts: Sequence[str]) -> dict[str, Any]:
    edits: dict[str, Any] = {}
    for path, value in map(_edit, texts):
        if path in edits:
            raise Refusal(f"--set {path} is there twice.", exit_code=USAGE)
        edits[path] = value
    return edits


def _edit(text: str) -> tuple[str, Any]:
    """`path=json`: the path ends at the first `=` that is not inside a quoted key."""
    path, equals, value = text.partition("=")
    while equals and path.count('"') % 2:
        more, equals, value = value.partition("=")
        path = f"{path}={more}"
    if not equals or not path:
        raise Refusal(f"--set {text!r} is not PATH=JSON.", exit_code=USAGE)
    try:
        json.loads(value, parse_constant=_no_json)
    except ValueError:
        raise Refusal(
            f"--set {path}: {value!r} is not JSON.",
            hint=f"A text needs quotes of its own: --set '{path}=\"{value}\"'.",
            exit_code=USAGE,
        ) from None
    try:
        return path, Codec().loads_text(value)
    except SerializationError as error:
        raise Refusal(
            f"--set {path}: {value} is not in the spelling of the codec: {error.message}",
            hint="`lastgood show --json` shows how values are spelled.",
            exit_code=USAGE,
        ) from None


def _no_json(word: str) -> None:
    raise ValueError(word)


def _is_current(client: BlockingClient, made: Header) -> bool:
    branches = client.branches(made.session_id, agent_id=made.agent_id)
    return any(b.current and b.name == made.branch for b in branches)


def _print(source: Header, made: Header, lane: list[str], options: Namespace) -> None:
    terminal = Terminal.on(sys.stdout)
    terminal.line(clean(f"Forked {source.name} as {made.name}, on branch {made.branch}."))
    if options.switch:
        undo = again(options, "undo", made.session_id, more=lane)
        terminal.line(clean(f"The agent goes on from it. To undo: {undo}"), "dim")
    else:
        differ = again(options, "diff", source.name, made.name)
        terminal.line(clean(f"To see what differs: {differ}"), "dim")
        switch = again(options, "switch", made.session_id, made.branch, more=lane)
        terminal.line(clean(f"To let the agent go on from it: {switch}"), "dim")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ref", metavar="REF", help="the checkpoint to begin at: thread, thread@SEQ, an id, ..."
    )
    parser.add_argument(
        "--set",
        metavar="PATH=JSON",
        action="append",
        default=[],
        help="put a value at a path of the state; may be repeated",
    )
    parser.add_argument(
        "--remove",
        metavar="PATH",
        action="append",
        default=[],
        help="remove what is at a path of the state; may be repeated",
    )
    parser.add_argument("--branch", metavar="NAME", help="the name of the new branch")
    parser.add_argument(
        "--switch", action="store_true", help="let the agent continue from the fork"
    )
    json_option(parser)


FORK = Command(
    name="fork",
    help="begin a branch at any checkpoint, with a changed state if asked",
    description="""\
Begin a branch at any checkpoint, with a changed state if asked. The old line stays as it is.""",
    options=_options,
    run=run,
    epilog="""\
All paths refer to the state as it was. An index one past the end of a list appends.

examples:
  lastgood fork run-001@42 --set 'plan.goal="refund"' --branch refund --switch
  lastgood fork run-001@42 --set 'limits.retries=3' --remove 'messages[7]'

with --json: the new checkpoint as in `log --json`, "source" (the short name of the checkpoint
where it began) and "current" (whether the agent continues from it)""",
)
