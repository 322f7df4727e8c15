"""LangGraph's own conformance suite: every capability, on every backend, in both colours."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from lastgood.adapters.langgraph import LastgoodSaver
from lastgood.client import Client
from lastgood.testing import harness_for

ALL = {capability.value for capability in Capability}
TESTS = 81
"""How many the suite has: one that runs none calls a saver complete."""


class Bridged(LastgoodSaver):
    """Every async method by its blocking twin, in a thread."""


def _bridge(name: str) -> Any:
    async def method(self: LastgoodSaver, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **kwargs)

    return method


for _name in (
    "get_tuple put put_writes delete_thread delete_for_runs copy_thread prune "
    "get_delta_channel_history"
).split():
    setattr(Bridged, f"a{_name}", _bridge(_name))


async def _alist(self: LastgoodSaver, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    for found in await asyncio.to_thread(lambda: list(self.list(*args, **kwargs))):
        yield found


Bridged.alist = _alist  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", [LastgoodSaver, Bridged])
def test_all_capabilities(scheme: str, kind: type[LastgoodSaver], tmp_path: Path) -> None:
    made = 0

    @checkpointer_test(name=f"{kind.__name__} on {scheme}")
    async def opened() -> AsyncIterator[LastgoodSaver]:
        nonlocal made
        made += 1
        place = tmp_path / str(made)
        place.mkdir()
        harness = harness_for(scheme, place)
        async with kind(Client.on(harness.backend())) as saver:
            yield saver
        harness.close()

    report = asyncio.run(validate(opened))
    results = report.results
    failures = {name: result.failures for name, result in results.items() if result.failures}
    assert failures == {}
    assert {name for name, result in results.items() if result.detected} == ALL
    assert {name for name, result in results.items() if result.passed} == ALL
    assert sum(result.tests_passed for result in results.values()) == TESTS
    assert sum(result.tests_skipped for result in results.values()) == 0
