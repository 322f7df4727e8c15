"""`lastgood sweep`: free what nobody can read any more."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import reduce

from lastgood import BlockingClient, Swept
from lastgood.cli import printing, targets, tenancy
from lastgood.cli.cleaning import clean
from lastgood.cli.command import DONE, NO, Command, Refusal
from lastgood.cli.printing import counted, size
from lastgood.cli.store import json_option, opened
from lastgood.cli.tenancy import Tenant
from lastgood.cli.terminal import Terminal
from lastgood.sweeping import DAY, summed


def run(options: Namespace) -> int:
    """Tell what would go, ask, and sweep."""
    tenancy.check(options, options.thread)
    found: list[tuple[Tenant, Swept]] = []
    with opened(options) as client:
        tenants = tenancy.asked(client, options, options.thread)
        if not options.yes and not options.dry_run:
            planned = (_swept(tenant.client, options, dry_run=True) for tenant in tenants)
            _ask(reduce(summed, planned))
        for tenant in tenants:
            swept = _swept(tenant.client, options, dry_run=options.dry_run)
            found.append((tenant, swept))
            if not options.json:
                tenancy.heading(Terminal.on(sys.stdout), tenant, tenants)
                _print(swept)
    if options.json:
        tenancy.document(options, [(tenant, printing.plain(swept)) for tenant, swept in found])
    return NO if any(swept.skipped for _, swept in found) else DONE


def _swept(client: BlockingClient, options: Namespace, *, dry_run: bool) -> Swept:
    thread = options.thread and targets.thread(client, options.thread)
    watched = Terminal.on(sys.stderr)
    found = client.sweep(
        thread, grace_seconds=options.grace, dry_run=dry_run, progress=_progress(watched)
    )
    if watched.live:
        watched.redraw("")
    return found


def _progress(terminal: Terminal) -> Callable[[int], None] | None:
    """A line that counts, where somebody is watching."""
    if not terminal.live:
        return None

    def tell(looked: int) -> None:
        terminal.redraw(counted(looked, "thread"))

    return tell


def _ask(planned: Swept) -> None:
    """Nothing to remove needs no answer; without a terminal only --yes will do."""
    if not planned.checkpoints and not planned.parts:
        return
    if not sys.stdin.isatty():
        raise Refusal(
            f"removing {_numbers(planned)} cannot be undone.", hint="Say so: --yes, or --dry-run."
        )
    printing.note(f"This removes {_numbers(planned)}, which nobody can read any more.")
    print("It cannot be undone. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refusal("nothing was removed.", exit_code=NO)


def _numbers(swept: Swept) -> str:
    whole = f" ({counted(swept.threads, 'whole thread')})" if swept.threads else ""
    pages = f"{counted(swept.parts, 'page')} of {size(swept.bytes)}"
    return f"{counted(swept.checkpoints, 'checkpoint')}{whole} and {pages}"


def _print(swept: Swept) -> None:
    terminal = Terminal.on(sys.stdout)
    verb = "Would remove" if swept.dry_run else "Removed"
    terminal.line(f"{verb} {_numbers(swept)}.", "bold")
    if swept.waiting:
        whose = "its" if swept.waiting == 1 else "their"
        more = f"{counted(swept.waiting, 'checkpoint')} more over {whose} time, not for long enough"
        terminal.line(f"{more}: --grace SECONDS", "dim")
    for each in swept.skipped:
        terminal.line(clean(f"Left alone: {each}"), "red")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", nargs="?", help="the thread (default: all)")
    parser.add_argument(
        "--grace",
        metavar="SECONDS",
        type=float,
        default=DAY,
        help="for how long a checkpoint must have been expired (default: a day)",
    )
    tenancy.option(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    json_option(parser)


SWEEP = Command(
    name="sweep",
    help="remove what has expired and what nobody needs; asks first",
    description="""\
Remove checkpoints that have expired, and pages that no checkpoint needs any more. Nothing that can
be read is removed. On a terminal, the command asks first; elsewhere it needs --yes.""",
    options=_options,
    run=run,
    epilog="""\
The exit code is 1 if a thread was left alone because it is damaged or was written to all the time.
A SQLite file does not get smaller; what is saved next takes the space that was freed.

examples:
  lastgood sweep --dry-run
  lastgood sweep run-001 --grace 0 --yes --json
  lastgood sweep --all-tenants --yes

with --json: {"checkpoints", "threads", "parts", "bytes", "waiting", "dry_run", "skipped"};
with --all-tenants a list of these, each with "tenant" too""",
)
