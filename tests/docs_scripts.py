"""The scripts below `docs/`, which are no package, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parent.parent / "docs"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module
