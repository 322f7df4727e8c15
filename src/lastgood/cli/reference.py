"""The reference page of the command line, made from the `--help` of every command.

    python -m lastgood.cli.reference > docs/reference/cli.md

`tests/cli/test_cli_reference.py` says when the page is not what this would print.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Iterator

from lastgood.cli import parser
from lastgood.cli.completion import commands

_WIDTH = "100"
_HEAD = """\
# The command line

This page is made from `lastgood COMMAND --help` by `make reference`.

`lastgood` and `python -m lastgood` are the same. The output is for people; with `--json`, a command
prints one JSON document for programs and nothing else. Output is coloured only on a terminal, and
`NO_COLOR` and `TERM=dumb` turn colour off. In whatever comes from a store, control, bidi and
invisible characters are printed as visible escapes such as `\\x1b`. Commands that only look never
create a store.
"""
_REFS = """\
## Refs

| ref | meaning |
|---|---|
| `run-001` or `run-001@` | the newest checkpoint of the thread, on the current branch |
| `run-001@42` | the checkpoint with the number 42, as `log` shows it |
| `run-001@~2` | the checkpoint two before the newest, on the same line |
| `run-001@step:7` | the newest checkpoint at step 7 |
| `run-001@tag:NAME`, `run-001@branch:NAME` | what a tag names; the newest on a branch |
| `run-001/clerk@...` | the same for one agent of a thread that has several |
| `019a5c3e-...` | the checkpoint with this id; the first digits, at least six, are enough |

Inside a name, `@`, `/` and `%` are written `%40`, `%2F` and `%25`. The name of a thread that
stands alone may be typed as it is: `ann@x.com` and `ann%40x.com` are the same.
"""


def page() -> str:
    """The whole page."""
    os.environ["COLUMNS"] = _WIDTH
    return "\n".join(_sections(parser()))


def _sections(top: ArgumentParser) -> Iterator[str]:
    yield _HEAD
    yield _REFS
    yield _section("lastgood", top)
    for name, sub in commands(top).items():
        yield _section(f"lastgood {name}", sub)


def _section(title: str, described: ArgumentParser) -> str:
    return f"## {title}\n\n```text\n{described.format_help()}```\n"


if __name__ == "__main__":
    print(page(), end="")
