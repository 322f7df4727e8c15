"""Stores and ways to run the command, shared by the tests of the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_harness import Result, copied, make_store

from lastgood.cli import main

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("template") / "lastgood.db"
    make_store(file)
    return file


@pytest.fixture
def here(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a store in it, which is the current one."""
    copied(template, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LASTGOOD_URL", raising=False)
    return tmp_path


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LASTGOOD_URL", raising=False)
    return tmp_path


@pytest.fixture
def lastgood(capfd: pytest.CaptureFixture[str]) -> Run:
    """The command in this process."""

    def run(*arguments: str) -> Result:
        capfd.readouterr()
        try:
            code = main(arguments)
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return Result(code, *capfd.readouterr())

    return run
