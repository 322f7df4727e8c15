"""`lastgood rewind`, `undo` and `switch`: where an agent goes on from. Nothing is lost by them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from lastgood import BlockingClient, Header, Move
from lastgood.cli import printing, targets
from lastgood.cli.cleaning import clean
from lastgood.cli.command import ABSENT, Command, Refusal, agent_option
from lastgood.cli.log import header_json
from lastgood.cli.store import again, json_option, opened
from lastgood.cli.terminal import Terminal

_JSON = """
with --json: {"kind", "session_id", "agent_id", "left", "branch", "head"}: the branch that was left,
the branch that is followed now, and the checkpoint at its head as in `log --json`"""


def _runner(move: Callable[[BlockingClient, Namespace], Move]) -> Callable[[Namespace], int]:
    def run(options: Namespace) -> int:
        with opened(options) as client:
            options.thread = targets.thread(client, options.thread)
            branch = getattr(options, "branch", None)
            targets.check_lane(client, options.thread, options.agent, branch)
            done = move(client, options)
            if options.json:
                head = header_json(done.head) if done.head else None
                printing.document({**printing.plain(done), "head": head})
            else:
                lane = targets.lane(client, done.session_id, done.agent_id)
                _print(done, again(options, "undo", done.session_id, more=lane))
        return 0

    return run


def _print(done: Move, undo: str) -> None:
    terminal = Terminal.on(sys.stdout)
    lane = f"{done.session_id}/{done.agent_id}"
    at = f" at @{done.head.seq} ({_step(done.head)})" if done.head else ", which is empty"
    if done.left == done.branch:
        terminal.line(clean(f"{lane} stays on {done.branch}{at}."))
        return
    terminal.line(clean(f"{lane} goes on from {done.branch}{at}."))
    terminal.line(clean(f"{done.left} stays as it was. To undo: {undo}"), "dim")


def _step(head: Header) -> str:
    return head.step_name or f"step {head.step_index}"


def _rewind(client: BlockingClient, options: Namespace) -> Move:
    to = options.to
    if to.isdecimal():
        to = f"@{to}"
    elif not to.startswith("@"):
        to = _ref(client, to, options)
    return client.rewind(options.thread, to, agent_id=options.agent)


def _ref(client: BlockingClient, text: str, options: Namespace) -> str:
    try:
        return targets.ref(client, text)
    except Refusal as refusal:
        if refusal.exit_code != ABSENT or "@" in text:
            raise
        raise Refusal(
            f"{text!r} is no checkpoint of {options.thread}.",
            hint="Write SEQ, @~N, @tag:NAME or @branch:NAME; "
            f"`{again(options, 'log', options.thread)}` lists its checkpoints.",
            exit_code=ABSENT,
        ) from refusal


def _undo(client: BlockingClient, options: Namespace) -> Move:
    return client.undo(options.thread, agent_id=options.agent)


def _switch(client: BlockingClient, options: Namespace) -> Move:
    return client.switch(options.thread, options.branch, agent_id=options.agent)


def _options(*names: tuple[str, str]) -> Callable[[ArgumentParser], None]:
    def declare(parser: ArgumentParser) -> None:
        parser.add_argument("thread", metavar="THREAD", help="the thread")
        for name, text in names:
            parser.add_argument(name, metavar=name.upper(), help=text)
        agent_option(parser)
        json_option(parser)

    return declare


REWIND = Command(
    name="rewind",
    help="let an agent continue from an earlier checkpoint",
    description="""\
Let an agent continue from an earlier checkpoint. The state of that checkpoint becomes current, as a
new checkpoint; the line that is left stays as a branch.""",
    options=_options(("to", "the checkpoint: SEQ, @~N, @tag:NAME, or any ref of this thread")),
    run=_runner(_rewind),
    epilog=f"""\
A run that is under way on the old line is refused at its next save.

examples:
  lastgood rewind run-001 42
  lastgood rewind run-001 @~3
{_JSON}""",
)
UNDO = Command(
    name="undo",
    help="undo the last rewind, switch or fork --switch",
    description="""\
Undo the last rewind, switch or other change of branch. A second undo takes back the first. Saves
are not undone: for that, use rewind.""",
    options=_options(),
    run=_runner(_undo),
    epilog=f"""\
examples:
  lastgood undo run-001
{_JSON}""",
)
SWITCH = Command(
    name="switch",
    help="let an agent continue from another branch",
    description="Let an agent continue from another of its branches.",
    options=_options(("branch", "the branch; `lastgood log THREAD --graph` shows them")),
    run=_runner(_switch),
    epilog=f"""\
examples:
  lastgood switch run-001 refund
{_JSON}""",
)
