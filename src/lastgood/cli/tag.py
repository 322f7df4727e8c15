"""`lastgood tag`: names for checkpoints."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from lastgood import BlockingClient, CheckpointNotFoundError
from lastgood.cli import printing, targets
from lastgood.cli.cleaning import clean
from lastgood.cli.command import ABSENT, USAGE, Command, Refusal
from lastgood.cli.printing import Column, cell
from lastgood.cli.store import again, json_option, opened
from lastgood.cli.terminal import Terminal
from lastgood.refs import quote


def run(options: Namespace) -> int:
    """List, set or delete."""
    with opened(options) as client:
        if options.name is None:
            if options.delete:
                raise Refusal("--delete needs THREAD and NAME.", exit_code=USAGE)
            return _list(client, options)
        return _delete(client, options) if options.delete else _set(client, options)


def _list(client: BlockingClient, options: Namespace) -> int:
    thread = targets.thread(client, options.target)
    tags = client.tags(thread)
    if options.json:
        printing.document({"thread": thread, "tags": tags})
    elif not tags:
        newest = client.log(thread, limit=1).items
        place = newest[0].name if newest else f"{quote(thread)}@"
        make = again(options, "tag", place, "NAME")
        printing.note(f"{thread} has no tags. Make one: {make}")
    else:
        rows = [[cell(name, "bold"), cell(_place(client, id))] for name, id in sorted(tags.items())]
        printing.table(Terminal.on(sys.stdout), [Column("tag"), Column("checkpoint")], rows)
    return 0


def _place(client: BlockingClient, id: str) -> str:
    try:
        header = client.resolve(id)
    except CheckpointNotFoundError:
        return f"{id} (gone)"
    return f"{header.name}  {header.step_name or ''}"


def _set(client: BlockingClient, options: Namespace) -> int:
    header = client.resolve(targets.ref(client, options.target))
    before = client.tag(header.checkpoint_id, options.name)
    thread = header.session_id
    if options.json:
        document = {"name": options.name, "checkpoint_id": header.checkpoint_id, "before": before}
        printing.document({"thread": thread, **document})
        return 0
    text = f"{header.name} is now {quote(thread)}@tag:{quote(options.name)}."
    if before is None:
        text += f" To undo: {again(options, 'tag', thread, options.name, more=['--delete'])}"
    elif before != header.checkpoint_id:
        text += f" To undo: {again(options, 'tag', before, options.name)}"
    Terminal.on(sys.stdout).line(clean(text))
    return 0


def _delete(client: BlockingClient, options: Namespace) -> int:
    thread = targets.thread(client, options.target)
    before = client.tags(thread).get(options.name)
    if before is None or not client.untag(thread, options.name):
        raise Refusal(
            f"{thread} has no tag {options.name!r}.",
            hint=f"`{again(options, 'tag', thread)}` lists them.",
            exit_code=ABSENT,
        )
    if options.json:
        document = {"name": options.name, "checkpoint_id": None, "before": before}
        printing.document({"thread": thread, **document})
    else:
        undo = again(options, "tag", before, options.name)
        Terminal.on(sys.stdout).line(clean(f"Deleted the tag {options.name}. To undo: {undo}"))
    return 0


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="REF", help="a checkpoint, or a thread to list its tags")
    parser.add_argument("name", metavar="NAME", nargs="?", help="the tag")
    parser.add_argument(
        "--delete", action="store_true", help="delete the tag NAME; REF is then the thread"
    )
    json_option(parser)


TAG = Command(
    name="tag",
    help="name a checkpoint; list or delete the names in a thread",
    description="""\
Give a checkpoint a name, so that thread@tag:NAME finds it; or list or delete the
tags of a thread.""",
    options=_options,
    run=run,
    epilog="""\
If the thread has a tag of that name already, the tag moves.

examples:
  lastgood tag run-001@42 before-payment
  lastgood tag run-001
  lastgood tag --delete run-001 before-payment

with --json: a list is {"thread", "tags": {NAME: ID}}; a change is {"thread", "name",
"checkpoint_id", "before"}: the id that the tag names now, and the one it named before, or null""",
)
