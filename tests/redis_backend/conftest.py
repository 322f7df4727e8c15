"""Every kind of server that keys lie on: one, and a Cluster."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(params=["valkey_url", "cluster_url"])
def place(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The module's own kind of place."""
    one = request.module.Place(request.getfixturevalue(request.param))
    yield one
    one.close()
