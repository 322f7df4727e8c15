"""Finding and opening the store that a command looks at.

`--store`, else LASTGOOD_URL, else `./lastgood.db`. The one rule: looking never makes a file. A
store that is not there is a message that says how to begin.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from lastgood import BlockingClient
from lastgood.backends.files.names import STORE, THREADS
from lastgood.backends.sqlite.connection import is_no_file
from lastgood.backends.sqlite.schema import owner_of
from lastgood.cli.command import ABSENT, Refusal, given
from lastgood.driver import run_blocking
from lastgood.registry import BACKENDS, in_address, open_url, scheme_of, shown

VARIABLE, DEFAULT = "LASTGOOD_URL", "lastgood.db"
BEGIN = """\
Watch one being made:    lastgood demo
Make your own, in Python:

    from lastgood import Client

    with Client.sqlite() as client:
        with client.run("my-first-thread", initial={"done": []}) as run:
            run.state["done"].append("hello")
            run.save(step_name="hello")

Is it elsewhere?         lastgood COMMAND --store PATH, or LASTGOOD_URL=sqlite:///PATH"""


def store_options(parser: ArgumentParser) -> None:
    """The options of every command that opens a store."""
    store_option(parser)
    tenant_option(parser)


def store_option(parser: ArgumentParser) -> None:
    """Which store a command looks at."""
    parser.add_argument(
        "--store",
        metavar="PATH_OR_URL",
        type=given,
        default=SUPPRESS,
        help=f"the store (default: ${VARIABLE}, else ./{DEFAULT})",
    )


def tenant_option(parser: ArgumentParser) -> None:
    """Whose data a command is about."""
    parser.add_argument(
        "--tenant",
        metavar="NAME",
        type=given,
        default=SUPPRESS,
        help="the tenant whose data to use (default: default)",
    )


def json_option(parser: ArgumentParser) -> None:
    """Output for programs."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def address(options: Namespace) -> str:
    """The path or address that the options or the environment give."""
    found = getattr(options, "store", None) or os.environ.get(VARIABLE) or DEFAULT
    is_directory = not _is_url(found) and (Path(found) / STORE).is_file()
    return f"files:{in_address(found)}" if is_directory else found


def file_of(address: str) -> Path | None:
    """The file of a store, if it is one."""
    if address.startswith("sqlite:"):
        return Path(BACKENDS["sqlite"].arguments(address).get("path", DEFAULT))
    return None if _is_url(address) else Path(address)


def _is_url(address: str) -> bool:
    return "://" in address or scheme_of(address) in BACKENDS or "password=" in address


def directory_of(address: str) -> Path | None:
    """The directory of a store of plain files, if it is one."""
    if scheme_of(address) != "files":
        return None
    return Path(BACKENDS["files"].arguments(address).get("directory", "lastgood"))


def opened(options: Namespace) -> BlockingClient:
    """The store, which is there; Refusal with a way to begin if it is not."""
    place = address(options)
    if not is_there(place):
        raise _absent(options)
    return made(options)


def is_there(place: str) -> bool:
    """Whether there is a store, as far as looking tells, which makes none."""
    file, directory = file_of(place), directory_of(place)
    if file is not None:
        return is_store(file)
    if directory is not None:
        return is_directory_of_ours(directory)
    asks = _ASKS.get(scheme_of(place))
    return asks is None or _asked(place, asks)


def is_directory_of_ours(directory: Path) -> bool:
    """Whether a directory is a store of plain files, damaged or not."""
    return (directory / STORE).is_file() or (directory / THREADS).is_dir()


async def _has_tables(backend: Any) -> bool:
    return (await backend.standing()).format is not None


async def _has_keys(backend: Any) -> bool:
    return bool(await backend.is_there())


_ASKS: dict[str, Callable[[Any], Coroutine[Any, Any, bool]]] = {
    "postgresql": _has_tables,
    "redis": _has_keys,
}


def _asked(place: str, asks: Callable[[Any], Coroutine[Any, Any, bool]]) -> bool:
    backend: Any = open_url(place)
    try:
        return run_blocking(asks(backend))
    finally:
        run_blocking(backend.close())


def _absent(options: Namespace) -> Refusal:
    place = address(options)
    path = file_of(place) or directory_of(place)
    if path is not None:
        return Refusal(f"No store here yet: {path} {_lacks(path)}.\n\n{BEGIN}", exit_code=ABSENT)
    found, hint = _no_tables(options) if scheme_of(place) == "postgresql" else _no_keys(place)
    return Refusal(f"No store here yet: {shown(place)} {found}.", hint=hint, exit_code=ABSENT)


def _no_tables(options: Namespace) -> tuple[str, str]:
    schema = BACKENDS["postgresql"].arguments(address(options)).get("schema", "lastgood")
    migrate = again(options, "db", "migrate")
    return (
        f"has no tables of Lastgood in schema {schema!r}",
        f"The first save makes them, or `{migrate}`.",
    )


def _no_keys(place: str) -> tuple[str, str]:
    prefix = BACKENDS["redis"].arguments(place).get("prefix", "lastgood")
    return f"has no keys of Lastgood with prefix {prefix!r}", "The first save makes them."


def made(options: Namespace) -> BlockingClient:
    """The store, which is begun if it is not there: for a command that brings data."""
    place, tenant = address(options), getattr(options, "tenant", None) or "default"
    if _is_url(place):
        return BlockingClient.open(place, tenant=tenant)
    return BlockingClient.sqlite(place, tenant=tenant)


def _lacks(path: Path) -> str:
    return "holds no threads of Lastgood" if path.exists() else "does not exist"


def again(options: Namespace, command: str, *names: str, more: Sequence[str] = ()) -> str:
    """A command to type next, on the same store; a password is for the user to put in."""
    store, tenant = (getattr(options, name, None) for name in ("store", "tenant"))
    same = chosen("--store", as_shown(store)) if store else []
    rest = [*more, *same, *(chosen("--tenant", tenant) if tenant else [])]
    dashed = any(name.startswith("-") for name in names)
    words = [*rest, "--", *names] if dashed else [*names, *rest]
    return shlex.join(["lastgood", command, *words])


def copying(options: Namespace, thread: str | None = None) -> str:
    """The command that keeps a store or a thread, whatever agents and branches it has."""
    tenant = getattr(options, "tenant", None)
    which = [
        *([f"--thread={thread}"] if thread else []),
        *(chosen("--tenant", tenant) if tenant else []),
    ]
    return shlex.join(["lastgood", "copy", as_shown(address(options)), "copy.db", *which])


def chosen(option: str, value: str) -> list[str]:
    """An option as it is typed; a value that begins with a dash would be taken for another one."""
    return [f"{option}={value}"] if value.startswith("-") else [option, value]


def as_shown(place: str) -> str:
    """A path as it is, whatever is in it; an address without its password."""
    return shown(place) if _is_url(place) else place


def is_store(file: Path) -> bool:
    """Whether opening the file changes nothing: it is ours, or will be refused with a reason."""
    if not file.exists():
        return False
    if is_no_file(file):
        return True
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as found:
            names = {name for (name,) in found.execute("SELECT name FROM sqlite_master")}
            return "lastgood_meta" in names or owner_of(found, names) is not None
    except sqlite3.Error:
        return True
