"""The `lastgood` command.

Owns the table of commands and what they share: options, exit codes, how an interruption ends.
Each command, or small family of them, lives in its own module. Only this package prints and reads
the environment.
"""

from __future__ import annotations

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from lastgood import CheckpointNotFoundError, LastgoodError, __version__
from lastgood.cli.bisect import BISECT
from lastgood.cli.blame import BLAME
from lastgood.cli.cleaning import clean_lines
from lastgood.cli.command import (
    ABSENT,
    EXIT_CODES,
    FAILED,
    INTERRUPTED,
    UNREAD,
    USAGE,
    Command,
    Refusal,
)
from lastgood.cli.completion import COMPLETE, COMPLETION
from lastgood.cli.copy import COPY
from lastgood.cli.db import DB
from lastgood.cli.delete import DELETE
from lastgood.cli.demo import DEMO
from lastgood.cli.diff import DIFF
from lastgood.cli.doctor import DOCTOR
from lastgood.cli.du import DU
from lastgood.cli.fork import FORK
from lastgood.cli.importing import IMPORT
from lastgood.cli.log import LOG
from lastgood.cli.moves import REWIND, SWITCH, UNDO
from lastgood.cli.parsing import Parser
from lastgood.cli.show import SHOW
from lastgood.cli.store import chosen, store_options
from lastgood.cli.sweep import SWEEP
from lastgood.cli.tag import TAG
from lastgood.cli.tenants import TENANTS
from lastgood.cli.threads import THREADS
from lastgood.cli.verify import VERIFY
from lastgood.registry import MissingExtraError
from lastgood.resolving import SeveralAgentsError

COMMANDS: tuple[Command, ...] = (
    THREADS,
    TENANTS,
    LOG,
    SHOW,
    DIFF,
    BLAME,
    BISECT,
    FORK,
    REWIND,
    UNDO,
    SWITCH,
    TAG,
    DELETE,
    IMPORT,
    COPY,
    VERIFY,
    DOCTOR,
    DU,
    SWEEP,
    DB,
    COMPLETION,
    DEMO,
)
HIDDEN: tuple[Command, ...] = (COMPLETE,)
_WITHOUT_STORE = {"copy", "tenants", "demo", "completion", "__complete"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives back the exit code."""
    _open_closed_streams()
    _never_fail_to_print()
    options = _parsed(sys.argv[1:] if arguments is None else list(arguments))
    command: Command = options.command
    try:
        code = command.run(options)
        sys.stdout.flush()
    except SeveralAgentsError as error:
        _complain(command.name, _which_agent(error, options))
        return USAGE
    except (LastgoodError, MissingExtraError, ValueError, KeyError) as error:
        _complain(command.name, error)
        return _exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop(sys.stdout)
        return UNREAD
    except OSError as error:
        _complain(command.name, _about_system(error))
        return FAILED
    return code


def _parsed(words: list[str]) -> Namespace:
    """Read the command line; what stands behind `--` is left as it is for a command that asks.

    The parser would take a second `--` away, which belongs to the command that is to be run.
    """
    cut = words.index("--") if "--" in words else len(words)
    if any(command.takes_rest and command.name in words[:cut] for command in (*COMMANDS, *HIDDEN)):
        cut += 2 if _is_name(words, cut) else 0
        options = _read(words[:cut])
        if options.command.takes_rest:
            options.rest += words[cut + 1 :]
            return options
    return _read(words)


def _is_name(words: list[str], cut: int) -> bool:
    """Whether the name is still to come, and stands between two `--`, as in `-- NAME -- CMD`."""
    if words[cut + 2 : cut + 3] != ["--"]:
        return False
    options = _read(words[: cut + 2])
    return options.command.takes_rest and not options.rest


def _read(words: list[str]) -> Namespace:
    options, unknown = parser().parse_known_args(words)
    if unknown:
        options.page.refuse(unknown)
    return options


def parser() -> ArgumentParser:
    """The whole command line; the reference page and the completions are made from it."""
    top = _parser("lastgood", "Durable state for AI agents.", _exit_codes())
    top.add_argument("--version", action="version", version=f"lastgood {__version__}")
    store_options(top)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (*COMMANDS, *HIDDEN):
        listed: dict[str, Any] = {} if command in HIDDEN else {"help": command.help}
        sub: ArgumentParser = commands.add_parser(
            command.name,
            description=command.description,
            epilog=command.epilog or None,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **listed,
        )
        command.options(sub)
        if command.name not in _WITHOUT_STORE:
            store_options(sub)
        sub.set_defaults(command=command, parser=top, page=sub)
    return top


def _parser(name: str, description: str, epilog: str) -> ArgumentParser:
    return Parser(
        prog=name,
        description=description,
        epilog=epilog,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _exit_codes() -> str:
    lines = (f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items())
    return "\n".join(["exit codes:", *lines])


def _complain(name: str, error: object) -> None:
    text = error.args[0] if type(error) is KeyError and error.args else error
    try:
        print(clean_lines(f"lastgood {name}: {text}"), file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _which_agent(error: SeveralAgentsError, options: Namespace) -> str:
    """The agent is an option of those commands that take a thread, and a part of a ref."""
    word = shlex.join(chosen("--agent", error.agents[0]))
    return f"{error.found} Name one: {word if hasattr(options, 'agent') else repr(error.ref)}."


def _exit_code(error: Exception) -> int:
    if isinstance(error, Refusal):
        return error.exit_code
    if isinstance(error, CheckpointNotFoundError | KeyError):
        return ABSENT
    return FAILED if isinstance(error, LastgoodError | MissingExtraError) else USAGE


def _open_closed_streams() -> None:
    """Who closed a stream wants nothing of it; in order, so that no file gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _never_fail_to_print() -> None:
    """What an encoding has no character for is shown as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _about_system(error: OSError) -> str:
    """What the system refused: a file that it names, or else our output."""
    if error.filename is not None:
        return str(error)
    _drop(sys.stdout)
    return f"the output could not be written: {error.strerror}. What was asked for may be done."


def _drop(stream: TextIO) -> None:
    """Nobody takes our output any more: leave the interpreter nothing to flush into it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
