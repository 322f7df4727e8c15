"""`lastgood verify`: whether a store is whole."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from lastgood import BlockingClient, LastgoodError, Report
from lastgood.cli import printing, targets
from lastgood.cli.cleaning import clean
from lastgood.cli.command import ABSENT, Command, Refusal
from lastgood.cli.store import again, copying, json_option, opened
from lastgood.cli.terminal import Terminal

Progress = Callable[[int, int], None] | None


def run(options: Namespace) -> int:
    """Look for damage; the exit code says how bad it is."""
    with opened(options) as client:
        watched = Terminal.on(sys.stderr)
        report = _verified(client, options, _progress(watched))
        if watched.live:
            watched.redraw("")
        if options.json:
            printing.document(_as_json(report))
        else:
            _print(report, options)
    return report.exit_code


def _verified(client: BlockingClient, options: Namespace, progress: Progress) -> Report:
    try:
        thread = options.thread and targets.thread(client, options.thread)
        return client.verify(thread, data=options.data, progress=progress)
    except LastgoodError as error:  # damage is reported: this is a store that cannot be opened
        raise Refusal(error.message, hint=error.hint, exit_code=ABSENT) from error


def _progress(terminal: Terminal) -> Progress:
    """A line that counts, where somebody is watching."""
    if not terminal.live:
        return None

    def tell(done: int, total: int) -> None:
        terminal.redraw(f"{done:,} of {total:,} checkpoints")

    return tell


def _as_json(report: Report) -> dict[str, object]:
    code = report.exit_code
    return {"clean": report.clean, "data_lost": code > 1, **printing.plain(report)}


def _print(report: Report, options: Namespace) -> None:
    terminal = Terminal.on(sys.stdout)
    terminal.line(str(report).partition("\n")[0], "green" if report.clean else "red")
    for problem in report.problems:
        terminal.line(f"  {clean(str(problem))}")
    if not report.clean:
        way_out = f"To bring what can be restored into another store: {copying(options)} --salvage"
        terminal.line(clean(way_out), "dim")
    elif not options.data:
        words = [options.thread] if options.thread else []
        more = again(options, "verify", *words, more=["--data"])
        terminal.line(clean(f"To read every byte: {more}"), "dim")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "thread", metavar="THREAD", nargs="?", help="the thread (default: the whole store)"
    )
    parser.add_argument(
        "--data", action="store_true", help="read every byte, not only the structure"
    )
    json_option(parser)


VERIFY = Command(
    name="verify",
    help="look for damage in a store or a thread",
    description="""\
Look for damage in a store or a thread, and name the checkpoints that cannot be restored. Damage
does not stop the search.""",
    options=_options,
    run=run,
    epilog="""\
The exit code is 0 if all is well, 1 if something is wrong but nothing of any state is lost, 2 if
data is lost, and 3 if the store cannot be opened or there is no such thread. Nothing is repaired:
`lastgood copy --salvage` brings all that can be restored into another store.

examples:
  lastgood verify
  lastgood verify run-001 --data --json

with --json: {"clean", "data_lost", "threads", "checkpoints", "parts", "bytes", "data", "problems":
[{"kind", "where", "message", "checkpoints", "repairable"}]}""",
)
