"""`lastgood bisect`: find the step at which a state went bad, by a command that can tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from lastgood import Bisection, Checkpoint
from lastgood.cli import printing, targets
from lastgood.cli.cleaning import clean
from lastgood.cli.command import ABSENT, DONE, FAILED, NO, USAGE, Command, Refusal, agent_option
from lastgood.cli.log import header_json, step
from lastgood.cli.store import again, json_option, opened
from lastgood.cli.terminal import Terminal

VARIABLE = "LASTGOOD_REF"
_CANNOT_TELL, _LAST_ANSWER = 125, 127


def run(options: Namespace) -> int:
    """Search."""
    if not options.rest:
        raise Refusal(
            "no command to judge a state by.",
            hint="Write it behind two dashes: lastgood bisect THREAD -- CMD ...",
            exit_code=USAGE,
        )
    with opened(options) as client:
        thread = targets.thread(client, options.thread)
        targets.check_lane(client, thread, options.agent)
        judge = judged_by(options.rest, quiet=options.json)
        found = client.bisect(thread, judge, agent_id=options.agent)
        if not found.tested:
            raise Refusal(
                f"{thread} has no state to look at.",
                hint="Nothing was saved yet, or all of it was removed or is over its time.",
                exit_code=ABSENT,
            )
        if options.json:
            printing.document(_as_json(found))
        else:
            _print(found, options)
    return NO if found.first is None else DONE


def judged_by(command: list[str], *, quiet: bool) -> Callable[[Checkpoint], bool]:
    """Whether a command takes a checkpoint for bad."""

    def is_bad(checkpoint: Checkpoint) -> bool:
        code = _exit_code(command, checkpoint)
        if code < 0 or code == _CANNOT_TELL or code > _LAST_ANSWER:
            raise Refusal(
                f"{command[0]} could not judge {checkpoint.name}: its exit code is {code}.",
                hint="0 means good, 1 to 124, 126 and 127 mean bad.",
                exit_code=FAILED,
            )
        if not quiet:
            printing.note(f"{checkpoint.name}: {'bad' if code else 'good'}")
        return code != 0

    return is_bad


def _exit_code(command: list[str], checkpoint: Checkpoint) -> int:
    """Run the command with the state on its input; what it prints goes to our errors."""
    try:
        done = subprocess.run(
            command,
            input=json.dumps(printing.spelled(checkpoint.state)).encode(),
            stdout=sys.stderr,
            env={**os.environ, VARIABLE: checkpoint.name},
            check=False,
        )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Refusal(f"{command[0]} cannot be run: {reason}.", exit_code=USAGE) from None
    return done.returncode


def _as_json(found: Bisection) -> dict[str, object]:
    return {
        "first": header_json(found.first) if found.first else None,
        "before": header_json(found.before) if found.before else None,
        "tested": found.tested,
        "flips": [flip.name for flip in found.flips],
        "certain": found.certain,
    }


def _print(found: Bisection, options: Namespace) -> None:
    terminal = Terminal.on(sys.stdout)
    tested = printing.counted(found.tested, "state")
    if found.first is None:
        terminal.line(f"No bad step: {tested} looked at, all of them good.")
        return
    name = terminal.styled(clean(found.first.name), "red", "bold")
    terminal.line(f"First bad step: {name}  {step(found.first).text}  ({tested} looked at)")
    if not found.certain:
        places = ", ".join(flip.name for flip in found.flips)
        terminal.line(clean(f"It is not the only change: the answer flips at {places}."), "yellow")
    if found.before is not None:
        rewind = again(options, "rewind", found.before.session_id, str(found.before.seq))
        terminal.line(clean(f"Last good one: {found.before.name}. To go on from it: {rewind}"))


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", help="the thread; its current line is searched")
    parser.add_argument(
        "rest",
        metavar="-- CMD",
        nargs="*",
        help="the command that judges a state, which it gets as JSON on its standard input",
    )
    agent_option(parser)
    json_option(parser)


BISECT = Command(
    name="bisect",
    help="find the step at which a state went bad",
    description="""\
Find the step at which a state went bad, with a command that can tell good from bad. Only a few
states are looked at: about thirty for a thousand steps.""",
    options=_options,
    run=run,
    takes_rest=True,
    epilog=f"""\
CMD gets the state as JSON on its standard input, and the checkpoint's name in {VARIABLE}. It
judges by its exit code: 0 means good; 1 to 124, 126 and 127 mean bad; anything else stops the
search. What it prints goes to standard error. The exit code of bisect is 0 if there is a bad step,
1 if there is none, and 4 if CMD stopped the search.

examples:
  lastgood bisect run-001 -- grep -q '"currency": "EUR"'
  lastgood bisect run-001 -- python check.py

with --json: {{"first", "before", "tested", "flips": [NAME], "certain"}}; checkpoints are as in
`log --json`, or null""",
)
