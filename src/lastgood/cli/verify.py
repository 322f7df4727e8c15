"""`lastgood verify`: whether a store is whole."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence

from lastgood import BlockingClient, LastgoodError, Report
from lastgood.cli import printing, targets, tenancy
from lastgood.cli.cleaning import clean
from lastgood.cli.command import ABSENT, Command, Refusal
from lastgood.cli.store import again, copying, json_option, opened
from lastgood.cli.tenancy import Tenant
from lastgood.cli.terminal import Terminal

Progress = Callable[[int, int], None] | None


def run(options: Namespace) -> int:
    """Look for damage; the exit code says how bad it is."""
    tenancy.check(options, options.thread)
    found: list[tuple[Tenant, Report]] = []
    with opened(options) as client:
        try:
            tenants = tenancy.asked(client, options, options.thread)
            for tenant in tenants:
                report = _verified(tenant.client, options, store=not found)
                found.append((tenant, report))
                if not options.json:
                    tenancy.heading(Terminal.on(sys.stdout), tenant, tenants)
                    _print(report, tenancy.options_of(options, tenant))
        except LastgoodError as error:  # damage is reported: this is a store that cannot be opened
            raise Refusal(error.message, hint=error.hint, exit_code=ABSENT) from error
    if options.json:
        tenancy.document(options, [(tenant, _as_json(report)) for tenant, report in found])
    else:
        _say_more(options, [report for _, report in found])
    return max(report.exit_code for _, report in found)


def _verified(client: BlockingClient, options: Namespace, *, store: bool) -> Report:
    watched = Terminal.on(sys.stderr)
    thread = options.thread and targets.thread(client, options.thread)
    report = client.verify(thread, data=options.data, store=store, progress=_progress(watched))
    if watched.live:
        watched.redraw("")
    return report


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


def _say_more(options: Namespace, reports: Sequence[Report]) -> None:
    if options.data or not all(report.clean for report in reports):
        return
    words = [options.thread] if options.thread else []
    every = ["--all-tenants"] if options.all_tenants else []
    more = again(options, "verify", *words, more=["--data", *every])
    Terminal.on(sys.stdout).line(clean(f"To read every byte: {more}"), "dim")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", nargs="?", help="the thread (default: all)")
    parser.add_argument(
        "--data", action="store_true", help="read every byte, not only the structure"
    )
    tenancy.option(parser)
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
data is lost, and 3 if the store cannot be opened or there is no such thread or tenant. With
--all-tenants, it is that of the worst. Nothing is repaired: `lastgood copy --salvage` brings all
that can be restored into another store.

examples:
  lastgood verify
  lastgood verify run-001 --data --json
  lastgood verify --all-tenants

with --json: {"clean", "data_lost", "threads", "checkpoints", "parts", "bytes", "data", "problems":
[{"kind", "where", "message", "checkpoints", "repairable"}]}; with --all-tenants a list of these,
each with "tenant" too""",
)
