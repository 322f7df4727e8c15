"""What a command of the command line is, the options that commands share, and how they end."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from lastgood import LastgoodError

DONE, NO, USAGE, ABSENT, FAILED, INTERRUPTED, UNREAD = 0, 1, 2, 3, 4, 130, 141
"""The last two are what a shell says of a program that SIGINT or SIGPIPE ended: 128 and more."""

EXIT_CODES = {
    DONE: "done; nothing differs, nothing is wrong",
    NO: "the answer is no: there is a difference or a problem, or a question was answered with no",
    USAGE: "the command was not understood: an unknown option, or text that is no ref or path",
    ABSENT: "not there: there is no store, or no such tenant, thread, checkpoint, branch, tag or "
    "path",
    FAILED: "the store, the output or a judging command could not be used, or the change was "
    "refused:\n       damaged, busy, full, moved on",
    INTERRUPTED: "interrupted from the keyboard",
    UNREAD: "the reader of the output went away, as `| head` does; this is not an answer",
}


class Refusal(LastgoodError):
    """The command line itself says no."""

    code = "refused"

    def __init__(self, message: str, *, hint: str = "", exit_code: int = NO) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table of commands."""

    name: str
    help: str
    """One line for the list of commands."""
    description: str
    options: Callable[[ArgumentParser], None]
    """Declares the options of this command."""
    run: Callable[[Namespace], int]
    """Does the work and gives back the exit code."""
    epilog: str = ""
    """Examples, and what `--json` prints."""
    takes_rest: bool = False
    """Whether it has an argument `rest` for all that stands behind `--`."""


def agent_option(parser: ArgumentParser) -> None:
    """The lane of a thread that has several."""
    parser.add_argument("--agent", metavar="NAME", help="which agent, if the thread has several")


def limit_option(parser: ArgumentParser, default: int, what: str) -> None:
    """How much is listed."""
    parser.add_argument(
        "--limit",
        metavar="N",
        type=count,
        default=default,
        help=f"how many {what} to show (default: %(default)s)",
    )


def count(text: str) -> int:
    """A number from 1 on, as an option's value."""
    if not text.isdecimal() or not 0 < int(text) < 1 << 31:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def seq_number(text: str) -> str:
    """The number of a checkpoint, as an option's value: 42 or @42."""
    number = text.removeprefix("@")
    if not number.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a number as `lastgood log` shows it, such as 42")
    return number


def given(text: str) -> str:
    """A store or tenant that was named: a variable that is not set must not mean the default."""
    if not text.strip():
        raise ArgumentTypeError("it is empty. Is a variable not set?")
    return text
