"""The shape of the source: what may import what, who may touch the outside world, how big it is.

These tests read the source as syntax trees, so a rule holds for code that no test runs. A new
module must be given a layer in `LAYERS`; that is the moment to decide where it belongs.
"""

import ast
import graphlib
import inspect
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import lastgood

SOURCE = Path(lastgood.__file__).parent
PACKAGE = "lastgood"

# Lowest first. A module imports from its own layer and from those below it. A package stands for
# all its modules. `__init__` is the front: what users import, above all operations.
LAYERS = {
    "values": "errors ids intervals model paths refs reports",
    "algorithms": """alias_rules aligning arguments auditing building changes checkpoints codec
        colours commits comparing copy_rules diffing diffs editing edits filling fingerprints
        growing integrity item_rules json_patch losses manifest measuring mending messages
        migrations move_rules pages part_audit patching placing recurring removal_rules rows rules
        run_rules sharing splitting summaries thread_rules tracing tree whole""",
    "waist": "backend background cache children driver lasting pulse registry serial",
    "backends": "backends",
    "operations": """accounting blocking_runs client comparison copies copying core headers
        inspecting listing looking moves moving opening operations pending resolving runs
        salvaging saving scanning searching shelving surveying sweeping thread_reading thread_survey
        thread_sweep transfers watching""",
    "doors": "checkpointers objects",
    "front": "__init__",
    "adapters": "adapters",
    "edges": "__main__ cli testing",
}

WORKERS = ("background", "driver", "lasting", "pulse", "serial", "backends", "testing", "cli")
NOWHERE = ()

# Modules that only these parts may import.
CONFINED_IMPORTS = {
    **dict.fromkeys(
        ["_thread", "asyncio", "concurrent", "queue", "selectors", "threading"], WORKERS
    ),
    **dict.fromkeys(["multiprocessing", "subprocess"], ("testing", "cli")),
    **dict.fromkeys(["dill", "marshal", "shelve"], NOWHERE),
    "pickle": ("objects.pickles",),
}

# Names, spelled as in the source, that only these parts may use.
CONFINED_NAMES = {
    **dict.fromkeys(
        ["os.environ", "os.environb", "os.getenv"],
        ("cli", "testing", "adapters.langgraph.server"),
    ),
    **dict.fromkeys(["__import__", "compile", "eval", "exec"], NOWHERE),
    "importlib.import_module": ("registry",),
    "print": ("cli",),
    "time.sleep": WORKERS,
}

FUNCTION_LINES, FUNCTION_MEDIAN, FUNCTION_P90, FILE_LINES = 60, 8, 25, 400


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name below the package."""
    return {_name_of(path): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def _name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    if parts[-1] == "__init__" and len(parts) > 1:
        parts = parts[:-1]
    return ".".join(parts)


def _part_of(module: str) -> str:
    return module.split(".")[0]


def _is_in(module: str, parts: tuple[str, ...]) -> bool:
    return any(module == part or module.startswith(f"{part}.") for part in parts)


@cache
def layer_of() -> dict[str, int]:
    return {part: level for level, parts in enumerate(LAYERS.values()) for part in parts.split()}


def running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree that exist at run time: all but what stands under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for node in child.orelse:
                yield node
                yield from running_nodes(node)
        else:
            yield child
            yield from running_nodes(child)


def imported_names(tree: ast.AST, importer: str) -> Iterator[str]:
    """Absolute names that a module imports, at its top and inside its functions.

    `from a import b` yields `a.b`: whether b is a module is for the reader to find out.
    """
    for node in running_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(node, importer)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _base_of(node: ast.ImportFrom, importer: str) -> str:
    if not node.level:
        return node.module or ""
    package = [PACKAGE, *importer.split(".")]
    is_package = (SOURCE.joinpath(*importer.split(".")) / "__init__.py").exists()
    if importer == "__init__" or not is_package:
        package.pop()
    anchor = package[: len(package) - node.level + 1]
    return ".".join([*anchor, node.module] if node.module else anchor)


def read_names(tree: ast.AST) -> Iterator[str]:
    """The names that a module reads, dotted as they are written."""
    for node in running_nodes(tree):
        name = _dotted(node)
        if name is not None:
            yield name


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    owner = _dotted(node.value) if isinstance(node, ast.Attribute) else None
    return f"{owner}.{node.attr}" if owner and isinstance(node, ast.Attribute) else None


@cache
def imports() -> dict[str, frozenset[str]]:
    return {module: frozenset(imported_names(tree, module)) for module, tree in modules().items()}


@cache
def names() -> dict[str, frozenset[str]]:
    return {module: frozenset(read_names(tree)) for module, tree in modules().items()}


def own_imports(module: str) -> set[str]:
    """The modules of this package that a module imports."""
    found = set()
    for name in imports()[module]:
        top, _, rest = name.partition(".")
        if top == PACKAGE:
            found.add(_nearest_module(rest))
    return found - {module}


def _nearest_module(name: str) -> str:
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name or "__init__"


def functions() -> list[tuple[str, int]]:
    return [
        (f"{module}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_every_module_has_a_layer() -> None:
    parts = {_part_of(module) for module in modules()}
    assert parts - layer_of().keys() == set(), "give the new module a layer in LAYERS"
    assert layer_of().keys() - parts == set(), "LAYERS names modules that do not exist"


def test_imports_go_down_or_sideways() -> None:
    level = layer_of()
    upward = [
        f"{module} -> {other}"
        for module in modules()
        for other in own_imports(module)
        if level[_part_of(other)] > level[_part_of(module)]
    ]
    assert upward == []


def test_no_import_cycles() -> None:
    graph = {module: own_imports(module) for module in modules()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


@pytest.mark.parametrize("confined", CONFINED_IMPORTS)
def test_module_is_imported_only_where_it_belongs(confined: str) -> None:
    users = {
        module
        for module, imported in imports().items()
        if any(name.split(".")[0] == confined for name in imported)
    }
    assert {user for user in users if not _is_in(user, CONFINED_IMPORTS[confined])} == set()


@pytest.mark.parametrize("confined", CONFINED_NAMES)
def test_name_is_used_only_where_it_belongs(confined: str) -> None:
    users = {m for m in modules() if confined in names()[m] or confined in imports()[m]}
    allowed = CONFINED_NAMES[confined]
    assert {user for user in users if not {user, _part_of(user)} & {*allowed}} == set()


def test_import_loads_nothing_but_the_standard_library_and_ormsgpack() -> None:
    known = sys.stdlib_module_names | {PACKAGE, "ormsgpack"}
    # The interpreter's build settings are generated and not in its own list of modules.
    unknown = {n for n in loaded_by_import() - known if not n.startswith("_sysconfigdata_")}
    assert unknown == set()


def test_servers_and_faults_for_tests_do_without_pytest() -> None:
    assert without("pytest", "from lastgood.testing import servers, faults") == ""
    told = without("pytest", "from lastgood.testing import run_case")
    assert 'pip install "lastgood[test]"' in told


def test_an_adapter_names_the_extra_that_it_needs() -> None:
    for module in ("langgraph", "langchain_core"):
        told = without(module, "from lastgood.adapters.langgraph.saver import LastgoodSaver")
        assert 'LangGraph support is not installed: pip install "lastgood[langgraph]"' in told


def without(module: str, program: str) -> str:
    """The last line of what a program complains of where a module is not installed."""
    hidden = f"import sys; sys.modules[{module!r}] = None; {program}"
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, check=False
    )
    return done.stderr.strip().rpartition("\n")[2]


@cache
def loaded_by_import() -> frozenset[str]:
    program = (
        "import json, sys; before = set(sys.modules); import lastgood;"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    command = [sys.executable, "-I", "-W", "error", "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(json.loads(result.stdout))


def test_exported_names_are_sorted_and_importable() -> None:
    names = list(lastgood.__all__)
    assert names == sorted(set(names), key=_export_order)
    assert [name for name in names if not hasattr(lastgood, name)] == []


def _export_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions: the order that the linter keeps as well."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name)


def test_exported_names_are_complete() -> None:
    ours = {
        name
        for name, value in vars(lastgood).items()
        if getattr(value, "__module__", "").startswith(PACKAGE) and not name.startswith("_")
    }
    assert ours - set(lastgood.__all__) == set()


def test_every_error_is_exported() -> None:
    from lastgood import errors

    def public_error(value: object) -> bool:
        return inspect.isclass(value) and issubclass(value, BaseException)

    defined = {
        name
        for name, value in inspect.getmembers(errors, public_error)
        if value.__module__ == errors.__name__ and not name.startswith("_")
    }
    assert defined - set(lastgood.__all__) == set()


def test_no_module_shadows_an_exported_name() -> None:
    parts = {_part_of(module) for module in modules()}
    assert parts & set(lastgood.__all__) == set()
    assert [n for n in lastgood.__all__ if isinstance(getattr(lastgood, n), ModuleType)] == []


def test_functions_are_short() -> None:
    lengths = sorted(length for _, length in functions())
    assert [item for item in functions() if item[1] > FUNCTION_LINES] == []
    assert statistics.median(lengths) <= FUNCTION_MEDIAN
    assert lengths[int(len(lengths) * 0.9)] <= FUNCTION_P90


def test_files_are_short() -> None:
    sizes = {str(path): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert {name: size for name, size in sizes.items() if size > FILE_LINES} == {}


def test_every_module_says_what_it_owns() -> None:
    assert [module for module, tree in modules().items() if not ast.get_docstring(tree)] == []


class TestTheReadingOfImports:
    """The rules above are only as good as this."""

    @pytest.mark.parametrize(
        ("source", "names"),
        [
            ("import os.path as p", {"os.path"}),
            ("from a.b import c, d", {"a.b.c", "a.b.d"}),
            ("def f():\n    import asyncio", {"asyncio"}),
            ("from .errors import X", {"lastgood.errors.X"}),
            ("if TYPE_CHECKING:\n    import asyncio\nelse:\n    import b", {"b"}),
            ("if typing.TYPE_CHECKING:\n    from a import b", set()),
            ("try:\n    import a\nexcept ImportError:\n    import b", {"a", "b"}),
        ],
    )
    def test_finds(self, source: str, names: set[str]) -> None:
        assert set(imported_names(ast.parse(source), "client")) == names

    @pytest.mark.parametrize(
        ("source", "name"),
        [
            ("x = os.environ['A']", "os.environ"),
            ("from os import getenv", "os.getenv"),
            ("def f():\n    print(1)", "print"),
            ("run(eval)", "eval"),
        ],
    )
    def test_sees_uses(self, source: str, name: str) -> None:
        tree = ast.parse(source)
        assert name in {*read_names(tree), *imported_names(tree, "client")}
        assert name not in set(read_names(ast.parse("value.print(os.path)")))
