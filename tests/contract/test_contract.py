"""The contract: every case on every backend and variant in both colours, by enumeration."""

from pathlib import Path

import pytest

from lastgood.registry import BACKENDS
from lastgood.testing import Case, contract_cases, contract_params, harness_for, run_case
from lastgood.testing.harnesses import VARIANTS
from lastgood.testing.store import Colour
from lastgood.testing.suite import contract_schemes, server_marks


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cases on servers are not even made where they are left out: there are thousands of them."""
    schemes = [*contract_schemes(), *VARIANTS]
    if "not server" in metafunc.config.option.markexpr:
        schemes = [scheme for scheme in schemes if not server_marks(scheme)]
    if "scheme" in metafunc.fixturenames:
        metafunc.parametrize(("scheme", "colour", "case"), contract_params(schemes))


def test_contract(scheme: str, colour: Colour, case: Case, tmp_path: Path) -> None:
    harness = harness_for(scheme, tmp_path)
    if not case.first and (colour == "blocking" or scheme in VARIANTS):
        harness.reuse()  # in the other colour every case of the backend begins with nothing at all
    run_case(case, harness, colour)


def test_every_backend_that_promises_anything_is_run() -> None:
    assert set(contract_schemes()) == {name for name, entry in BACKENDS.items() if entry.contract}
    assert {"sqlite", "memory"} <= set(contract_schemes())


def test_every_case_says_what_it_is() -> None:
    bodies = [getattr(case.body, "args", [case.body])[0] for case in contract_cases()]
    assert [body.__name__ for body in bodies if not body.__doc__] == []
