"""The code of the documentation's pages about frameworks runs."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.test_docs import ROOT, WITH_FRAMEWORKS, prelude, run_page
from tests.test_docs import modules as modules


@pytest.mark.parametrize("name", sorted(WITH_FRAMEWORKS))
def test_the_code_of_a_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / name
    module = ModuleType(f"page_{page.stem}")
    vars(module).update(prelude(page))
    modules[module.__name__] = module
    run_page(page, vars(module))
