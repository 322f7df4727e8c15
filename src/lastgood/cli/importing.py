"""`lastgood import`: bringing data over from other libraries.

Only LangGraph's own data needs LangGraph; its modules are loaded when they are asked for.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from lastgood import BlockingClient
from lastgood.adapters.importing import Count, Progress
from lastgood.cli import printing
from lastgood.cli.cleaning import clean
from lastgood.cli.command import DONE, FAILED, USAGE, Command, Refusal
from lastgood.cli.printing import counted, size
from lastgood.cli.store import again, json_option, made
from lastgood.cli.terminal import Terminal
from lastgood.registry import MissingExtraError

SHOWN = 10
"""Threads that could not be brought over are listed up to so many."""


def run(options: Namespace) -> int:
    """Import, or find out what importing would come to."""
    if options.dry_run:
        return _try_out(options)
    with made(options) as client:
        count, _ = _brought(options, client)
        if options.json:
            printing.document(_as_json(count))
        else:
            _print(count, options)
    return _ended(count)


def _try_out(options: Namespace) -> int:
    """Import into a file that is thrown away, and compare."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "lastgood.db"
        with BlockingClient.sqlite(file, durability="relaxed") as client:
            count, before = _brought(options, client)
        after = file.stat().st_size if file.exists() else 0
    if options.json:
        printing.document({**_as_json(count), "bytes_before": before, "bytes_after": after})
    else:
        terminal = Terminal.on(sys.stdout)
        what = f"{counted(count.checkpoints, 'checkpoint')} in {counted(count.threads, 'thread')}"
        terminal.line(f"{what}: {size(before)} would become {size(after)}{_ratio(before, after)}.")
        terminal.line("Nothing was changed. Without --dry-run it is brought over.", "dim")
    return _ended(count)


def _ended(count: Count) -> int:
    """Tell what could not be brought over, and how to bring it."""
    if not count.refused:
        return DONE
    terminal = Terminal.on(sys.stderr)
    what = counted(len(count.refused), "thread")
    terminal.line(f"{what} could not be brought over, or not as a whole:", "red")
    for thread, error, _ in count.refused[:SHOWN]:
        terminal.line(clean(f"  {thread}: {error}"))
    if len(count.refused) > SHOWN:
        terminal.line(f"  and {len(count.refused) - SHOWN:,} more; --json lists all of them")
    hints = dict.fromkeys(hint for _, _, hint in count.refused if hint)
    for hint in list(hints)[:SHOWN]:
        terminal.line(clean(hint))
    terminal.line("When that is solved, import again: what is there is not brought twice.", "dim")
    return FAILED


def _ratio(before: int, after: int) -> str:
    return f", {before / after:.0f} times less" if before > 2 * after > 0 else ""


def _brought(options: Namespace, client: BlockingClient) -> tuple[Count, int]:
    """What was brought over, and how many bytes the source takes."""
    terminal = Terminal.on(sys.stderr)
    found = SOURCES[options.source](options, client, _progress(terminal))
    if terminal.live:
        terminal.redraw("")
    return found


def _progress(terminal: Terminal) -> Progress:
    """A line that counts, where somebody is watching."""

    def tell(count: Count) -> None:
        if terminal.live:
            terminal.redraw(f"{count.seen:,} of {count.of:,} checkpoints")

    return tell


def _from_sqlite(
    options: Namespace, client: BlockingClient, progress: Progress
) -> tuple[Count, int]:
    sources, stock, migrating = _langgraph()
    serde = stock.StockSerde(_allowed(options))
    with closing(sources.SqliteSource(Path(options.where), serde)) as source:
        return migrating.bring_over(client, source, progress), source.size()


def _from_postgres(
    options: Namespace, client: BlockingClient, progress: Progress
) -> tuple[Count, int]:
    sources, stock, migrating = _langgraph()
    serde = stock.StockSerde(_allowed(options))
    with closing(sources.PostgresSource(options.where, serde)) as source:
        return migrating.bring_over(client, source, progress), source.size()


def _from_checkpnt(
    options: Namespace, client: BlockingClient, progress: Progress
) -> tuple[Count, int]:
    from lastgood.adapters import checkpnt

    path = Path(options.where)
    count = checkpnt.bring_over(client, path, progress)
    return count, path.stat().st_size


SOURCES = {
    "langgraph-sqlite": _from_sqlite,
    "langgraph-postgres": _from_postgres,
    "checkpnt": _from_checkpnt,
}


def _langgraph() -> tuple[Any, Any, Any]:
    try:
        from lastgood.adapters.langgraph import migrating, sources, stock
    except MissingExtraError:
        raise
    except ImportError as error:
        raise Refusal(
            f"LangGraph's data is read with LangGraph, and this one does not do ({error}).",
            hint='pip install --upgrade "lastgood[langgraph]"',
            exit_code=FAILED,
        ) from error
    return sources, stock, migrating


def _allowed(options: Namespace) -> list[tuple[str, str]]:
    found = []
    if options.allow and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # as with python -m: people stand beside their code
    for label in options.allow:
        module, colon, name = label.partition(":")
        if not colon or not name:
            raise Refusal(f"--allow takes MODULE:CLASS, not {label!r}.", exit_code=USAGE)
        found.append((module, name))
    return found


def _as_json(count: Count) -> dict[str, Any]:
    return {
        "threads": count.threads,
        "checkpoints": count.checkpoints,
        "skipped": count.skipped,
        "writes": count.writes,
        "differing": count.differing,
        "refused": [each._asdict() for each in count.refused],
    }


def _print(count: Count, options: Namespace) -> None:
    terminal = Terminal.on(sys.stdout)
    what = f"{counted(count.checkpoints, 'checkpoint')} of {counted(count.threads, 'thread')}"
    beside = f"; {count.skipped:,} were there already or are over their time"
    terminal.line(f"Brought over {what}{beside if count.skipped else ''}.")
    for line in _about_writes(count):
        terminal.line(line)
    terminal.line(clean(f"Look at them: {again(options, 'threads')}"), "dim")


def _about_writes(count: Count) -> Iterator[str]:
    """What became of writes to checkpoints that were there already."""
    if count.writes:
        verb = "was" if count.writes == 1 else "were"
        yield f"{counted(count.writes, 'write')} {verb} added to checkpoints that were there."
    if count.differing:
        verb = "differs" if count.differing == 1 else "differ"
        yield (
            f"{counted(count.differing, 'write')} {verb} from what is there, which was left as it "
            "is. To take over all of a thread, delete it here and import again."
        )


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="KIND",
        choices=list(SOURCES),
        help=f"what to import from: {', '.join(SOURCES)}",
    )
    parser.add_argument("where", metavar="PATH_OR_DSN", help="the file or address to import from")
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be imported; change nothing"
    )
    parser.add_argument(
        "--allow",
        metavar="MODULE:CLASS",
        action="append",
        default=[],
        help="allow a class of yours that the states hold; may be repeated",
    )
    json_option(parser)


IMPORT = Command(
    name="import",
    help="import data from another library",
    description="""\
Import checkpoints from LangGraph's SQLite or PostgreSQL saver, or from checkpnt, with their ids,
parents, namespaces, writes and metadata. The source is only read. What the store has already is
left out, so an import that was interrupted can be started again; writes that a checkpoint has got
since then are added. A thread that cannot be imported does not keep the others from being imported;
all such threads are listed at the end.""",
    options=_options,
    run=run,
    epilog="""\
Values are decoded strictly: a class that is not known to be safe is an error, which says where the
value is. With --allow, name classes of your own that you trust.

examples:
  lastgood import langgraph-sqlite checkpoints.db --dry-run
  lastgood import langgraph-postgres postgresql://localhost/app --allow shop.models:Order
  lastgood import checkpnt checkpnt_local.db --json

with --json: {"threads", "checkpoints", "skipped", "writes" (added to checkpoints that were there
already), "differing" (writes that differ from those that were there, which were left as they are),
"refused": [{"thread", "error", "hint"}] (threads that could not be imported as a whole)}; with
--dry-run also {"bytes_before", "bytes_after"}""",
)
