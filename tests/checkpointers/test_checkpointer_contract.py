"""The contract of checkpointers, on every registered backend and on one of somebody's own."""

from pathlib import Path
from typing import Any

import pytest
from custom_checkpointer import DictCheckpointer

from lastgood.checkpointers import BaseCheckpointer
from lastgood.testing import checkpointer_params, harness_for, run_checkpointer_case
from lastgood.testing.checkpointer_store import CASES, CheckpointerCase
from lastgood.testing.checkpointer_suite import run_on_backend
from lastgood.testing.store import Colour
from lastgood.testing.suite import contract_schemes, server_marks

QUICK = {("memory", "async"), ("sqlite", "blocking")}
"""What `make test-fast` runs of the stores without a server."""


def marks(scheme: str, colour: str) -> list[pytest.MarkDecorator]:
    return [*server_marks(scheme), *([] if (scheme, colour) in QUICK else [pytest.mark.slow])]


ON_BACKENDS = [
    pytest.param(
        scheme, *each.values, id=f"{scheme}-{each.id}", marks=marks(scheme, each.values[0])
    )
    for scheme in contract_schemes()
    for each in checkpointer_params(builtin=True)
]


@pytest.mark.parametrize(("scheme", "colour", "case"), ON_BACKENDS)
def test_on_every_backend(
    scheme: str, colour: Colour, case: CheckpointerCase, tmp_path: Path
) -> None:
    harness = harness_for(scheme, tmp_path)
    if colour == "blocking":
        harness.reuse()
    run_on_backend(case, harness, colour)


@pytest.mark.parametrize(("colour", "case"), checkpointer_params())
def test_on_one_with_the_thirteen_methods(colour: Colour, case: CheckpointerCase) -> None:
    made = DictCheckpointer()
    run_checkpointer_case(case, lambda: made, colour)


def test_there_are_thirteen_methods() -> None:
    assert len(BaseCheckpointer.__abstractmethods__) == 13
    own = {name for name in vars(DictCheckpointer) if name in BaseCheckpointer.__abstractmethods__}
    assert own == BaseCheckpointer.__abstractmethods__


def test_every_async_method_has_a_twin() -> None:
    names = [name for name in vars(BaseCheckpointer) if name.startswith("a")]
    for name in names:
        twin: Any = getattr(BaseCheckpointer, name[1:])
        assert twin.__name__ == name[1:]
        assert twin.__doc__ == getattr(BaseCheckpointer, name).__doc__
    assert len(names) == 24


def test_every_case_says_what_it_is() -> None:
    assert [each.name for each in CASES.values() if not each.body.__doc__] == []
