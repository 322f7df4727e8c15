"""The end of the demo: a fork beside the finished work, seen as a graph and as a diff.

Prints what `lastgood fork`, `lastgood log --graph` and `lastgood diff` print.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lastgood import BlockingClient
from lastgood.cli import diff, log
from lastgood.cli.demo_agent import PAGES, THREAD
from lastgood.cli.terminal import Terminal

FORKED = PAGES - 2
"""The page whose answer is changed in the fork."""
_SHOWN = 5
_INDENT = "     "


def look_back(terminal: Terminal, file: Path) -> None:
    """Fork, log, diff."""
    shown = replace(terminal, indent=_INDENT, width=terminal.width - len(_INDENT))
    source, answer = f"{THREAD}@{FORKED + 1}", f"messages[{2 * FORKED}].content"
    with BlockingClient.sqlite(file) as client:
        edit = f'{answer}="Ask a lawyer."'
        _command(shown, f"lastgood fork {source} --branch careful --set '{edit}'")
        id = client.fork(source, branch="careful", edits={answer: "Ask a lawyer."})
        _command(shown, f"lastgood log {THREAD} --graph --limit {_SHOWN}")
        headers = client.log(THREAD, limit=_SHOWN).items
        log.draw(shown, headers, log.Marks.of(client, THREAD), complete=False)
        made = client.resolve(id)
        _command(shown, f"lastgood diff {source} {made.name}")
        diff.draw(shown, client.resolve(source), made, client.diff(source, id))


def _command(terminal: Terminal, text: str) -> None:
    terminal.line(f"$ {text}", "dim")
