"""Savers on every backend; without LangGraph there is nothing to collect here."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lastgood.client import Client
from lastgood.testing import harness_for
from lastgood.testing.suite import contract_schemes

if find_spec("langgraph") is None:
    collect_ignore_glob = ["test_*.py"]

if TYPE_CHECKING:
    from lastgood.adapters.langgraph import LastgoodSaver


@pytest.fixture(params=contract_schemes())
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    return Client.on(harness_for(request.param, tmp_path).backend())


@pytest.fixture
def saver(client: Client) -> Iterator["LastgoodSaver"]:
    from lastgood.adapters.langgraph import LastgoodSaver

    with LastgoodSaver(client) as made:
        yield made
