"""The contract of backends: what every store must do, as cases that anybody can run on theirs.

Adding a backend to Lastgood is one file and one line in `registry.BACKENDS`; `tests/contract` then
runs every case on it, in both colours, without being asked. It makes one backend without arguments
and shares it between the clients of a case. A backend that takes a path or a server, or whose rows
can be damaged from outside, gets a `BackendHarness` of its own, named in `harnesses.HARNESSES`.

A backend outside of this package runs the same cases from its own tests:

    import pytest
    from lastgood.testing import BackendHarness, contract_params, run_case

    class MineHarness(BackendHarness):
        def backend(self):
            return MineBackend(self.directory / "mine")

    @pytest.mark.parametrize(("colour", "case"), contract_params())
    def test_contract(colour, case, tmp_path):
        run_case(case, MineHarness(tmp_path), colour)

A case is one `async def` over a `Store`. In the colour "blocking" its client is a facade whose
methods are awaitable but call a `BlockingClient` inside the running loop, so the same body proves
both. Nothing else in this package imports this one. It needs pytest; `servers` and `faults` do not.

A checkpointer outside of this package has cases of its own to pass: see `checkpointer_suite`.
"""

from pkgutil import iter_modules
from typing import TYPE_CHECKING, Never

from lastgood.registry import MissingExtraError

try:
    import pytest
except ModuleNotFoundError:
    if not TYPE_CHECKING:  # a type checker would take any name for one that is here

        def __getattr__(name: str) -> Never:
            """Servers and faults do without; cases do not."""
            if name in __all__:
                raise MissingExtraError('The contract runs in pytest: pip install "lastgood[test]"')
            raise AttributeError(name)

else:
    modules = (f"{__name__}.{module.name}" for module in iter_modules(__path__))
    # Before the cases are imported, so that a failing assert shows its values.
    pytest.register_assert_rewrite(*modules)

    from lastgood.testing.cases import Case
    from lastgood.testing.checkpointer_store import CheckpointerCase
    from lastgood.testing.checkpointer_suite import checkpointer_params, run_checkpointer_case
    from lastgood.testing.harness import BackendHarness
    from lastgood.testing.harnesses import harness_for
    from lastgood.testing.store import COLOURS, Store
    from lastgood.testing.suite import contract_cases, contract_params, run_case

__all__ = [
    "COLOURS",
    "BackendHarness",
    "Case",
    "CheckpointerCase",
    "Store",
    "checkpointer_params",
    "contract_cases",
    "contract_params",
    "harness_for",
    "run_case",
    "run_checkpointer_case",
]
