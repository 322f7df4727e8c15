"""What a harness of somebody else's backend may leave out."""

import asyncio
from pathlib import Path

import pytest

from lastgood.backends.memory import MemoryBackend
from lastgood.testing import BackendHarness, Case, contract_cases, run_case


class Mine(BackendHarness):
    """As the documentation has it: it says nothing of a clock."""

    def make(self) -> MemoryBackend:
        return MemoryBackend()


def test_a_clock_that_cannot_be_turned_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(pytest.skip.Exception, match="Mine cannot turn its clock by 150 seconds"):
        run_case(named("lists.touched_minutes_apart"), Mine(tmp_path), "blocking")
    assert waited == []


def test_what_is_over_its_time_is_waited_for(tmp_path: Path) -> None:
    run_case(named("removal.the_newest_that_errors_name_can_be_read"), Mine(tmp_path), "blocking")


def named(name: str) -> Case:
    (case,) = (case for case in contract_cases() if case.name == name)
    return case
