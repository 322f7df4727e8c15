"""The parser of the command line: errors of one line that say what was meant."""

from __future__ import annotations

import difflib
import re
from argparse import ArgumentParser
from typing import NoReturn

from lastgood.cli.cleaning import clean
from lastgood.cli.command import USAGE

_UNKNOWN = re.compile(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


class Parser(ArgumentParser):
    """Says what is wrong in one line, where argparse prints the usage before it."""

    def error(self, message: str) -> NoReturn:
        """End with the exit code for a command that was not understood."""
        unknown = _UNKNOWN.fullmatch(message)
        if unknown is not None:
            names = re.findall(r"[a-z]+", unknown[2])
            near = difflib.get_close_matches(unknown[1], names, 1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            message = f"there is no command {unknown[1]!r}.{meant}"
        text = message if message.endswith((".", "?")) else f"{message}."
        self.exit(USAGE, clean(f"{self.prog}: {text} See `{self.prog} --help`.") + "\n")
