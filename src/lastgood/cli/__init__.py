"""The `lastgood` command.

Owns the table of commands and what they share: options, exit codes, how an interruption ends.
Each command lives in its own module. Only this package prints and reads the environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from lastgood import LastgoodError, __version__
from lastgood.cli.command import Command
from lastgood.cli.demo import DEMO

COMMANDS: tuple[Command, ...] = (DEMO,)

FAILED, INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives back the exit code."""
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command.run(options)
    except LastgoodError as error:
        print(f"lastgood {command.name}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lastgood", description="Durable state for AI agents.")
    parser.add_argument("--version", action="version", version=f"lastgood {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=command.description)
        command.options(sub)
        sub.set_defaults(command=command)
    return parser


def _drop_output() -> None:
    """Whoever read our output has gone: leave the interpreter nothing to flush into the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
