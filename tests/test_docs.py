"""The documentation is true: its code runs, its links lead somewhere, its names exist.

Every fenced python block of a page is run, in order, in one module and an empty directory; `await`
works at the top level, and a `try` there must catch something. A sh block that begins with the
command `lastgood` or `python` is run between them, and the text block behind it must be what it
prints, but for ages and random names. A comment before a block says that it is a file of that
directory, or why it must not run:

    <!-- file: agent.py -->
    <!-- not run: needs a server -->
"""

import ast
import asyncio
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lastgood

ROOT = Path(__file__).parent.parent
PACKAGE = Path(lastgood.__file__).parent
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = sorted([*(ROOT / name for name in TOP), *(ROOT / "docs").rglob("*.md")])
LANGUAGES = {"python", "text", "sh"}
COMMANDS = ("lastgood ", "python ")
"""How a sh block begins that is run."""
README_LINES = 100

SLOW = {"docs/tutorial/find-the-bad-step.md", "docs/tutorial/first-agent.md"}
"""Pages that start many processes; `make test-fast` does not run their code."""

WITH_FRAMEWORKS = {
    "docs/how-to/coming-from.md",
    "docs/how-to/frameworks.md",
    "docs/how-to/langgraph.md",
}
"""Pages whose code needs a framework: tests/langgraph runs them, where it is installed."""


def param(page: Path, *, runs: bool = False) -> Any:
    name = str(page.relative_to(ROOT))
    return pytest.param(page, id=name, marks=[pytest.mark.slow] if runs and name in SLOW else [])


each_page = pytest.mark.parametrize("page", [param(page) for page in PAGES])
RUNNING = [page for page in PAGES if str(page.relative_to(ROOT)) not in WITH_FRAMEWORKS]
each_page_that_runs = pytest.mark.parametrize("page", [param(page, runs=True) for page in RUNNING])


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, in what language, and the comment before it.

    `excuse` says why it is not run (None if it is), `file` what it is to be written to.
    """

    line: int
    language: str
    text: str
    excuse: str | None = None
    file: str | None = None


def call_model(step: str, messages: list[Any]) -> dict[str, str]:
    """The stand-in for a model that pages may use."""
    return {"role": "assistant", "content": f"{step} done after {len(messages)} messages"}


PRELUDES: dict[str, dict[str, Any]] = {
    "README.md": {"call_model": call_model, "state": {"status": "validated", "total": 129}},
}


def blocks_of(page: Path) -> list[Block]:
    found, lines = [], page.read_text().splitlines()
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = number, line.removeprefix("```").strip()
            continue
        start, language = opened
        text = "\n".join(lines[start + 1 : number])
        excuse, file = (comment_before(lines[:start], word) for word in ("not run", "file"))
        found.append(Block(start + 1, language, text, excuse, file))
        opened = None
    assert opened is None, f"{page.name}: a block that begins in line {opened} has no end"
    return found


def comment_before(lines: list[str], word: str) -> str | None:
    above = next((line for line in reversed(lines) if line.strip()), "")
    match = re.fullmatch(rf"<!-- {word}: (.+) -->", above.strip())
    return match[1] if match else None


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language == "python"]


def needs_a_loop(block: Block) -> bool:
    """Whether a block has an `await` outside of a function, which a file cannot have."""
    try:
        compile(block.text, "a block", "exec")
    except SyntaxError:
        return True
    return False


def run_page(page: Path, names: dict[str, Any]) -> None:
    with asyncio.Runner() as runner:
        printed = None
        for block in blocks_of(page):
            if block.file is not None:
                Path(block.file).write_text(block.text + "\n")
            elif block.language == "python" and block.excuse is None:
                runner.run(run_block(page, block, names))
            elif block.language == "text" and printed is not None:
                assert lasting(block.text) == lasting(printed), f"{page.name}:{block.line}"
            is_ours = block.language == "sh" and block.text.startswith(COMMANDS)
            printed = run_shell(block.text) if is_ours else None


def run_shell(text: str) -> str:
    """What commands print, with our own `lastgood` and `python`."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8", "PYTEST_ADDOPTS": ""}
    settings["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # ours take seconds to load
    command = ["sh", "-c", text]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", env=settings, check=False
    ).stdout


def lasting(text: str) -> list[list[str]]:
    """The words of an output that are the same every time."""
    aged = re.sub(r"\b(now|\d+ (s|min) ago|in \d+\.\d\ds)\b", "AGE", text)
    named = re.sub(r"\bmain-[0-9a-f]{6}\b", "main-NEW", aged)
    return [line.split() for line in named.splitlines()]


class Catching(ast.NodeTransformer):
    """Makes an example of an error fail if there is none: every `try` outside of functions."""

    def visit_Try(self, node: ast.Try) -> ast.Try:
        message = f"line {node.lineno}: nothing was raised"
        fail = ast.parse(f"raise AssertionError({message!r})").body
        node.orelse = node.orelse or fail
        return ast.fix_missing_locations(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815


async def run_block(page: Path, block: Block, names: dict[str, Any]) -> None:
    # The empty lines make the line numbers of a traceback those of the page.
    tree = Catching().visit(ast.parse("\n" * block.line + block.text))
    code = compile(tree, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if inspect.iscoroutine(result):
        await result


def prelude(page: Path) -> dict[str, Any]:
    own = PRELUDES.get(str(page.relative_to(ROOT)), {})
    return {"__name__": f"page_{page.stem}", **own}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Modules as a program in that directory has them; those that a page brings go with it."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield sys.modules
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if name.startswith("page_") or Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.mark.slow
@each_page_that_runs
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType(f"page_{page.stem}")
    vars(module).update(prelude(page))
    modules[module.__name__] = module
    run_page(page, vars(module))


@each_page
def test_every_block_says_what_it_is(page: Path) -> None:
    unknown = [b.line for b in blocks_of(page) if b.language not in LANGUAGES]
    assert unknown == [], "a block is python, text or sh"


@each_page
def test_commands_are_quoted_as_every_shell_takes_them(page: Path) -> None:
    """An index such as `[3]` is a pattern to a shell, and where no file fits it zsh refuses."""
    typed = re.findall(r"^ *lastgood .*", page.read_text(), re.MULTILINE)
    bare = {line: re.sub(r"'[^']*'", "", line) for line in typed}
    assert [line for line, words in bare.items() if set(words) & set("[]*?")] == []


@each_page
def test_an_excuse_stands_before_python_and_gives_a_reason(page: Path) -> None:
    excused = [b for b in python_blocks(page) if b.excuse is not None]
    comments = re.findall(r"^<!-- not run\b", page.read_text(), re.MULTILINE)
    assert len(comments) == len(excused), "write <!-- not run: why --> right before a python block"


@each_page
def test_a_page_with_await_outside_of_functions_says_where_that_runs(page: Path) -> None:
    if any(map(needs_a_loop, python_blocks(page))):
        assert "`python -m asyncio` or a notebook" in page.read_text()


def test_the_readme_example_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[str] = []

    def dying_model(step: str, messages: list[Any]) -> dict[str, str]:
        calls.append(step)
        if calls == ["fetch", "validate"]:
            raise KeyboardInterrupt
        return call_model(step, messages)

    page = ROOT / "README.md"
    names = {**prelude(page), "call_model": dying_model}
    with pytest.raises(KeyboardInterrupt):
        run_page(page, names)
    run_page(page, names)
    run_page(page, names)
    assert calls == ["fetch", "validate", "validate", "pay"]


def test_the_five_operations_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = prelude(ROOT / "README.md")
    run_page(ROOT / "README.md", names)
    equal, length, handoff = asyncio.run(names["review"](names["state"]))
    assert (equal, length, len(handoff)) == (True, 1, 36)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def outside_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def links_of(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", outside_blocks(page))


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.+)$", outside_blocks(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links_of(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = (page.parent / link.partition("#")[0] for link in links_of(page))
        waiting += [t.resolve() for t in targets if t.suffix == ".md" and t.exists()]
    assert set(PAGES) - reached == set()


@cache
def module_names() -> frozenset[str]:
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return frozenset(".".join(path.parts).removesuffix(".__init__") for path in paths)


def names_in(page: Path) -> Iterator[str]:
    """Everything in backticks that reads like a file, or like a name in a module of ours."""
    for quoted in re.findall(r"`([^`\n]+)`", outside_blocks(page)):
        if re.fullmatch(r"[\w/.]+\.py|[\w.]+(/[\w.]+)*/", quoted):
            yield quoted
        elif re.fullmatch(r"\w+(\.\w+)+(\(\))?", quoted) and module_of(quoted):
            yield quoted.removesuffix("()")


def module_of(name: str) -> str:
    """The longest part of a dotted name that is a module of ours."""
    while name and name not in module_names():
        name = name.rpartition(".")[0]
    return name


def is_there(name: str) -> bool:
    if name.endswith((".py", "/")):
        bases = (ROOT, PACKAGE, PACKAGE / "backends", PACKAGE / "codec")
        return any((base / name).exists() for base in bases)
    module = module_of(name)
    found: Any = importlib.import_module(f"lastgood.{module}")
    parts = name.removeprefix(module).split(".")[1:]
    if module == "client" and not hasattr(found, parts[0]):
        found = lastgood.Client  # `client.save` is about any client, not about the module
    for part in parts:
        if not hasattr(found, part):
            return part in getattr(found, "__annotations__", {})
        found = getattr(found, part)
    return True


@each_page
def test_files_and_names_of_ours_exist(page: Path) -> None:
    own = {block.file for block in blocks_of(page)}
    assert [name for name in names_in(page) if not is_there(name) and name not in own] == []


class TestTheReadingOfPages:
    """The tests above are only as good as this."""

    def test_a_block_and_its_excuse(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text("<!-- not run: it sleeps -->\n\n```python\nx\n```\n\n```text\ny\n```\n")
        assert blocks_of(page) == [
            Block(3, "python", "x", excuse="it sleeps"),
            Block(7, "text", "y"),
        ]

    def test_a_file_is_written_and_commands_are_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        page = tmp_path / "page.md"
        file = "<!-- file: a.py -->\n```python\nprint(1)\n```\n"
        page.write_text(f"{file}```sh\npython a.py\n```\n```text\n2\n```\n")
        assert blocks_of(page)[0] == Block(2, "python", "print(1)", file="a.py")
        with pytest.raises(AssertionError, match=r"page\.md:8"):
            run_page(page, {})

    def test_code_that_fails_fails_the_page(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text("```python\nimport asyncio\nawait asyncio.sleep(0)\nassert 1 == 2\n```\n")
        with pytest.raises(AssertionError) as failure:
            run_page(page, {})
        assert failure.traceback[-1].lineno == 3

    def test_an_example_of_an_error_without_one_fails(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text("```python\ntry:\n    x = 1\nexcept KeyError:\n    pass\n```\n")
        with pytest.raises(AssertionError, match="line 2: nothing was raised"):
            run_page(page, {})

    @pytest.mark.parametrize(
        ("name", "there"),
        [
            ("core.Core.capture", True),
            ("core.Core.nothing", False),
            ("backends.sqlite.group.Group.drain", True),
            ("rows.ThreadRow.newest", True),
            ("client.Client.save", True),
            ("client.durability", True),
            ("client.nothing", False),
            ("client.py", True),
            ("nobody.py", False),
            ("src/lastgood/cli/", True),
        ],
    )
    def test_names(self, name: str, there: bool) -> None:
        assert is_there(name) is there
