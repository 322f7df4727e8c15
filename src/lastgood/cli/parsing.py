"""The parser of the command line: errors of one line that say what was meant."""

from __future__ import annotations

import difflib
import re
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from lastgood.cli.cleaning import clean
from lastgood.cli.command import USAGE

_UNKNOWN = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


_LACKING = "arguments are required"
_DASHED = " A name that begins with a dash stands behind `--`."


def _may_be_name(word: str) -> bool:
    return re.match("-[^-]", word) is not None


def _about_choice(what: str, word: str, listed: str) -> str:
    names = re.findall(r"[a-z-]+", listed)
    if what == "COMMAND":
        return f"there is no command {word!r}.{_meant(word, names)}"
    return f"argument {what}: there is no {word!r}.{_meant(word, names) or f' {_either(names)}'}"


def _meant(word: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(names), 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _either(names: Sequence[str]) -> str:
    return f"Write {', '.join(names[:-1])} or {names[-1]}."


class Parser(ArgumentParser):
    """Says what is wrong in one line, where argparse prints the usage before it."""

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As it is; an error may depend on what was typed."""
        self._words = args or ()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """End with the exit code for a command that was not understood."""
        unknown = _UNKNOWN.fullmatch(message)
        if unknown is not None:
            message = _about_choice(*unknown.groups())
        if _LACKING in message and any(map(self._is_unknown, self._words)):
            message += f".{_DASHED}"
        text = message if message.endswith((".", "?")) else f"{message}."
        self.exit(USAGE, clean(f"{self.prog}: {text} See `{self.prog} --help`.") + "\n")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """The same for words that this parser has no place for."""
        meant = _meant(words[0].partition("=")[0], self._option_string_actions)
        if not meant and _may_be_name(words[0]):
            meant = _DASHED
        self.error(f"unrecognized arguments: {' '.join(words)}.{meant}")

    def _is_unknown(self, word: str) -> bool:
        return _may_be_name(word) and word not in self._option_string_actions
