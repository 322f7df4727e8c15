"""`lastgood copy`: carry threads over into another store."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lastgood import BlockingClient, CopyReport
from lastgood.cli import printing, tenancy
from lastgood.cli.cleaning import clean
from lastgood.cli.command import DONE, NO, USAGE, Command, Refusal, given
from lastgood.cli.store import (
    address,
    again,
    directory_of,
    file_of,
    is_there,
    json_option,
    made,
    opened,
    tenant_option,
)
from lastgood.cli.tenancy import Tenant
from lastgood.cli.terminal import Terminal

_BAR = 24


def run(options: Namespace) -> int:
    """Copy, and say what was not copied."""
    if _is_same(_place(options.source), _place(options.target)):
        raise Refusal("source and target are the same store.", exit_code=USAGE)
    tenancy.check(options, options.thread)
    options.store = options.source
    found: list[tuple[Tenant, CopyReport]] = []
    with opened(options) as source, _target(options) as target:
        pairs = _pairs(source, target, options)
        tenants = [pair.tenant for pair in pairs]
        for tenant, its, gone in pairs:
            report = _copied(tenant.client, its, options)
            if gone and report.complete:
                continue
            found.append((tenant, report))
            if not options.json:
                tenancy.heading(Terminal.on(sys.stdout), tenant, tenants)
                _print(report, tenancy.options_of(options, tenant))
    if options.json:
        tenancy.document(options, [(tenant, _as_json(report)) for tenant, report in found])
    return NO if any(report.problems or report.salvaged for _, report in found) else DONE


class Pair(NamedTuple):
    """A tenant of the source, and who takes its threads."""

    tenant: Tenant
    target: BlockingClient
    gone: bool = False
    """Whether it has nothing in the source: then there is only to say what is in the way."""


def _pairs(source: BlockingClient, target: BlockingClient, options: Namespace) -> list[Pair]:
    """Whose threads are copied.

    Of all tenants, those too that are in the target alone: what was deleted in the source since it
    was copied, perhaps all that there was, is there still.
    """
    if not options.all_tenants:
        asked = tenancy.asked(source, options, options.thread)
        return [Pair(tenant, target) for tenant in asked]
    there = source.tenants()
    gone = set(target.tenants()) - set(there) if there else set[str]()
    names = [*there, *sorted(gone)]
    sides = zip(tenancy.each(source, names), tenancy.each(target, names), strict=True)
    return [Pair(tenant, its.client, tenant.name in gone) for tenant, its in sides]


def _copied(source: BlockingClient, target: BlockingClient, options: Namespace) -> CopyReport:
    watched = Terminal.on(sys.stderr)
    report = source.copy_to(
        target,
        session_ids=options.thread or None,
        since=_moment(options.since),
        revive=options.revive,
        salvage=options.salvage,
        dry_run=options.dry_run,
        progress=_progress(watched),
    )
    if watched.live:
        watched.redraw("")
    return report


def _place(text: str) -> Path | str:
    found = address(Namespace(store=text))
    return file_of(found) or directory_of(found) or found


def _is_same(source: Path | str, target: Path | str) -> bool:
    """However each is spelled: who is told to make room in the target would delete the source."""
    if isinstance(source, str) or isinstance(target, str):
        return source == target
    there = source.exists() and target.exists()
    return source.samefile(target) if there else source == target


def _target(options: Namespace) -> BlockingClient:
    aimed = _aimed(options)
    if options.dry_run and not is_there(address(aimed)):
        tenant = getattr(options, "tenant", None) or "default"
        return BlockingClient.memory(tenant=tenant)  # as empty as the store that is not made
    return made(aimed)


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)  # without a zone: local
    except ValueError as error:
        raise ValueError(
            f"--since {text!r} is no time. Write 2026-01-31 or 2026-01-31T12:00."
        ) from error


def _progress(terminal: Terminal) -> Callable[[int, int], None] | None:
    """A bar, where somebody is watching."""
    if not terminal.live:
        return None

    def tell(done: int, total: int) -> None:
        filled = _BAR * done // total if total else _BAR
        bar = terminal.glyphs.full * filled + terminal.glyphs.empty * (_BAR - filled)
        terminal.redraw(f"{bar} {done:,} of {total:,} checkpoints")

    return tell


def _aimed(options: Namespace) -> Namespace:
    """The options for another command on the target."""
    return Namespace(**{**vars(options), "store": options.target})


def _as_json(report: CopyReport) -> dict[str, object]:
    return {"complete": report.complete, **printing.plain(report)}


def _print(report: CopyReport, options: Namespace) -> None:
    terminal = Terminal.on(sys.stdout)
    head, *problems = str(report).split("\n")
    terminal.line(head, "red" if problems else "green")
    for problem in problems:
        terminal.line(f"  {clean(problem)}")
    if report.complete and report.threads:
        terminal.line("Each was read back and compared with the source.", "dim")
    kinds = {problem.kind for problem in report.problems}
    if "differs" in kinds:
        delete = again(_aimed(options), "delete", "THREAD")
        terminal.line(f"To replace one there: {delete}, and this again with --revive", "dim")
    if "damaged" in kinds and not options.salvage:
        terminal.line("To copy all that can be restored of what is damaged: --salvage", "dim")
    if "deleted" in kinds and not options.revive:
        terminal.line("To bring back what was deleted there: --revive", "dim")


def _options(parser: ArgumentParser) -> None:
    for name, does in (("source", "read"), ("target", "write")):
        what = f"path or URL of the store to {does}"
        parser.add_argument(name, metavar=name.upper(), type=given, help=what)
    parser.add_argument(
        "--thread", metavar="THREAD", action="append", help="copy only this thread; may be repeated"
    )
    parser.add_argument(
        "--since", metavar="TIME", help="copy only threads that changed since then (ISO 8601)"
    )
    parser.add_argument(
        "--revive", action="store_true", help="bring back threads that were deleted in the target"
    )
    parser.add_argument(
        "--salvage", action="store_true", help="copy what is left of damaged threads"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be copied")
    tenant_option(parser)
    tenancy.option(parser)
    json_option(parser)


COPY = Command(
    name="copy",
    help="copy threads into another store, verified; resumes where it stopped",
    description="""\
Copy threads into another store of any kind: every checkpoint with its id, seq, time and checksum,
branches, tags, runs and items. The source is only read. Each thread is read back and compared
before it becomes visible in the target. After an interruption, the same command resumes where it
stopped. A thread that the target has with other content is left alone.""",
    options=_options,
    run=run,
    epilog="""\
The exit code is 1 if a thread was not copied, because it differs in the target, was deleted there,
is damaged, or never stood still. It is also 1 if a thread was salvaged; what is missing from that
thread is named.

examples:
  lastgood copy lastgood.db postgresql://app@db.example/agents
  lastgood copy sqlite:///a.db sqlite:///b.db --thread run-001 --dry-run
  lastgood copy damaged.db repaired.db --salvage
  lastgood copy a.db b.db --all-tenants

with --json: {"complete", "threads", "same", "checkpoints", "parts", "bytes", "items", "dry_run",
"problems": [{"thread", "kind", "message"}], "salvaged": [{"thread", "lost", "remarks"}]};
with --all-tenants a list of these, each with "tenant" too""",
)
