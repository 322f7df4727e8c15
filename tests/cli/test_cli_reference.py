"""The command line is documented: every command, every option, and the page is up to date."""

import re
from pathlib import Path

import pytest

from lastgood.cli import COMMANDS, parser
from lastgood.cli.command import EXIT_CODES
from lastgood.cli.completion import commands
from lastgood.cli.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_page_is_what_would_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert PAGE.read_text() == page(), "run `make reference`"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_documented(command: object) -> None:
    name = getattr(command, "name")  # noqa: B009
    text = PAGE.read_text()
    assert f"\n## lastgood {name}\n" in text
    options = set(re.findall(r"--[\w-]+", commands(parser())[name].format_usage()))
    section = text.partition(f"\n## lastgood {name}\n")[2].partition("\n## ")[0]
    assert {option for option in options if option not in section} == set()


def test_every_command_has_a_sentence_and_an_example() -> None:
    for command in COMMANDS:
        assert command.description.endswith("."), command.name
        assert not command.help.endswith("."), command.name
        assert "examples:" in command.epilog or command.name == "demo"


def test_exit_codes_are_documented() -> None:
    text = PAGE.read_text()
    assert [code for code in EXIT_CODES if not re.search(rf"^  {code} ", text, re.MULTILINE)] == []
