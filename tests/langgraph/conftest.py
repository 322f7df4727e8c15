"""Savers on every backend; without LangGraph there is nothing to collect here."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lastgood.client import Client
from lastgood.testing import harness_for
from lastgood.testing.harness import BackendHarness
from lastgood.testing.suite import contract_schemes, server_marks

if find_spec("langgraph") is None:
    collect_ignore_glob = ["test_*.py"]

if TYPE_CHECKING:
    from lastgood.adapters.langgraph import LastgoodSaver

SCHEMES: list[Any] = [pytest.param(name, marks=server_marks(name)) for name in contract_schemes()]


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def harness(scheme: str, tmp_path: Path) -> Iterator[BackendHarness]:
    made = harness_for(scheme, tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(harness: BackendHarness) -> Iterator[Client]:
    made = Client.on(harness.backend())
    yield made
    made.blocking.close()


@pytest.fixture
def saver(client: Client) -> "LastgoodSaver":
    from lastgood.adapters.langgraph import LastgoodSaver

    return LastgoodSaver(client)
