"""`lastgood delete`: the one command that cannot be undone, so it asks."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from lastgood import BlockingClient, ThreadInfo
from lastgood.cli import printing, targets
from lastgood.cli.cleaning import clean
from lastgood.cli.command import ABSENT, NO, Command, Refusal
from lastgood.cli.printing import counted
from lastgood.cli.store import copying, json_option, opened
from lastgood.cli.terminal import Terminal


def run(options: Namespace) -> int:
    """Delete a thread after asking."""
    with opened(options) as client:
        thread = targets.thread(client, options.thread)
        info = _info(client, thread)
        if not options.yes:
            _ask(info, options)
        deleted = client.delete(thread)
        if options.json:
            printing.document({"thread": thread, "deleted": deleted})
        else:
            count = "" if _damaged(info) else f" with {counted(info.checkpoints, 'checkpoint')}"
            Terminal.on(sys.stdout).line(clean(f"Deleted {thread}{count}."))
    return 0


def _info(client: BlockingClient, thread: str) -> ThreadInfo:
    after = None
    while True:
        page = client.threads(search=thread, limit=500, after=after)
        for info in page:
            if info.thread_id == thread:
                return info
        after = page.next
        if after is None:
            raise Refusal(f"{thread} was deleted by somebody else.", exit_code=ABSENT)


def _damaged(info: ThreadInfo) -> bool:
    """Whether nothing is known of it but its name: then its counts are 0."""
    return info.status == "damaged"


def _ask(info: ThreadInfo, options: Namespace) -> None:
    """Let the person type the name; without a terminal only --yes will do."""
    what = f"{counted(info.checkpoints, 'checkpoint')} on {counted(info.branches, 'branch')}"
    if _damaged(info):
        what = "damaged, so what is in it cannot be counted"
    if not sys.stdin.isatty():
        raise Refusal(
            f"deleting {info.thread_id} ({what}) cannot be undone.", hint="Say so: --yes."
        )
    last = f", last step {info.last_step}" if info.last_step else ""
    printing.note(f"This deletes {info.thread_id}: {what}{last}.")
    keep = "back up the whole store" if _damaged(info) else copying(options, info.thread_id)
    printing.note(f"It cannot be undone. To keep it first: {keep}")
    question = clean(f"Type the thread's name to delete it ({info.thread_id}): ")
    print(question, end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().rstrip("\n") != info.thread_id:
        raise Refusal("nothing was deleted.", exit_code=NO)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", help="the thread")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    json_option(parser)


DELETE = Command(
    name="delete",
    help="delete a thread and everything in it; asks first",
    description="""\
Delete a thread and everything in it. This cannot be undone: on a terminal, the command asks first;
elsewhere it needs --yes.""",
    options=_options,
    run=run,
    epilog="""\
examples:
  lastgood delete run-001
  lastgood delete run-001 --yes --json

with --json: {"thread", "deleted"}""",
)
