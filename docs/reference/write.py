"""Writes the reference pages of the Python interface from docstrings: `api.md` and `errors.md`.

    make reference

`tests/test_reference.py` says when a page is not what this would write. Every public name has to be
in `SECTIONS` or be an error.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import lastgood
from lastgood import checkpointers, errors, testing

HERE = Path(__file__).parent
WIDTH = 96
NOTES = tomllib.loads((HERE / "errors.toml").read_text())


class Section(NamedTuple):
    """A heading, a sentence, and what is described below it."""

    title: str
    text: str
    owner: type | None
    names: str
    """Methods of the owner; without an owner, public names of `lastgood`."""


SECTIONS = (
    Section(
        "Open a store",
        "The factories of `Client` and `BlockingClient`, and what a client tells of its store. "
        "A client opens its store at the first call. Besides its own options, each factory takes "
        "those of [the options page](../how-to/options.md).",
        lastgood.Client,
        "sqlite files memory postgres redis null open on blocking aio durability url close",
    ),
    Section(
        "Save and restore",
        "The five operations, and the two methods that go with them.",
        lastgood.Client,
        "save restore handoff timeline expire put delete",
    ),
    Section("Open a run", "See [runs](../how-to/runs.md).", lastgood.Client, "run"),
    Section(
        "Look back",
        "These methods read. Only `tag` and `untag` change anything: the tags.",
        lastgood.Client,
        "latest log walk resolve threads branches tags tag untag blame bisect watch diff",
    ),
    Section("Choose a line", "", lastgood.Client, "fork rewind undo switch"),
    Section("Inspect a store", "", lastgood.Client, "verify stats tenants sweep"),
    Section("Copy into another store", "", lastgood.Client, "copy_to"),
    Section("Clients and runs", "", None, "Client BlockingClient Run BlockingRun"),
    Section("Checkpoints", "", None, "Checkpoint Header CheckpointBuilder Framework Loss Gap Page"),
    Section("Threads and branches", "", None, "ThreadInfo BranchInfo Move"),
    Section("Differences and searches", "", None, "Diff Change Blame Bisection"),
    Section(
        "Objects",
        "See [checkpoint objects](../how-to/objects.md).",
        None,
        "Checkpointable CheckpointManager checkpoint register_migration",
    ),
    Section("Reports", "", None, "Report Problem Stats Size Swept CopyReport NotCopied Salvaged"),
    Section(
        "Your own classes",
        "See [your classes](../how-to/your-classes.md).",
        None,
        "register Opaque",
    ),
)
API_HEAD = """\
# Python

This page is made from the docstrings by `make reference`. Everything here can be imported from
`lastgood`, except for what stands under the name of another module. The classes for LangGraph
(`LastgoodSaver`, `LastgoodStore`, `LangGraphAdapter`) have
[a page of their own](../how-to/langgraph.md).

The methods shown are those of `Client`, which is async. `BlockingClient` has the same methods
without `await`, and `BlockingRun` has those of `Run`. Where a method takes a `ref`, pass the id of
a checkpoint, or an address such as `run-001@~2` ([all kinds of addresses](cli.md#refs)). Errors
have [their own page](errors.md).
"""
ERRORS_HEAD = """\
# Errors

This page is made from `errors.py` by `make reference`.

All errors derive from `LastgoodError` and can be imported from `lastgood`. Each has a `code`, which
stays the same across releases, a `message`, and a `hint` that says what to do; `str(error)` gives
message and hint. A wrong argument raises an ordinary `TypeError` or `ValueError`.

```text
{tree}
```

The examples on this page run one after the other, in an empty directory:

```python
from lastgood import *

client = BlockingClient.sqlite()
```
"""
_ERROR_NAME = re.compile(rf"(?<![`\w])({'|'.join(NOTES)})\b")
_STARS: Mapping[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_INTERNAL = inspect.getattr_static(lastgood.Diff, "of")
"""It takes what only we have."""
_STATE_TYPE = {"bind_state_type", "state_type"}
_CLASS_PARTS = {"Client", "BlockingClient", "BlockingRun"}
"""Classes whose methods stand elsewhere on the page."""


def api() -> str:
    """The page of the Python interface."""
    return "\n".join([API_HEAD, *_sections(), *_checkpointers(), *_testing()])


def _sections() -> Iterator[str]:
    for section in SECTIONS:
        yield f"## {section.title}\n"
        if section.text:
            yield f"{section.text}\n"
        for name in section.names.split():
            owner = section.owner
            yield from _member(owner, name, "###") if owner else _public(name)


def _checkpointers() -> Iterator[str]:
    yield "## lastgood.checkpointers\n"
    yield "Every async method has a blocking twin, whose name lacks the leading `a`.\n"
    yield "See [keep threads of messages](../how-to/checkpointers.md).\n"
    for name in checkpointers.__all__:
        described: type = getattr(checkpointers, name)
        if name not in lastgood.__all__:
            yield from _described(name, described)
            yield from (_made if name.endswith("Checkpointer") else _attributes)(described)
    base, ours = checkpointers.BaseCheckpointer, checkpointers.ClientCheckpointer
    for owner, names in ((base, dir(base)), (ours, sorted(set(dir(ours)) - set(dir(base))))):
        for method in names:
            value = inspect.getattr_static(owner, method)
            is_public = inspect.iscoroutinefunction(value) and not method.startswith("_")
            if is_public or method in _STATE_TYPE:
                yield from _member(owner, method, "###")


def _made(checkpointer: type) -> Iterator[str]:
    """How a checkpointer is made, if it can be."""
    if not inspect.isabstract(checkpointer):
        yield _fenced(
            signature(checkpointer.__name__, inspect.getattr_static(checkpointer, "__init__"))
        )


def _testing() -> Iterator[str]:
    yield "## lastgood.testing\n"
    yield "To test a backend or a checkpointer of your own; see [pytest](../how-to/pytest.md).\n"
    for name in testing.__all__:
        described = getattr(testing, name)
        if callable(described) and inspect.getdoc(described):
            yield from _described(name, described)


def _public(name: str) -> Iterator[str]:
    described = getattr(lastgood, name)
    yield from _described(name, described)
    if inspect.isclass(described) and name not in _CLASS_PARTS and described is not lastgood.Opaque:
        yield from _attributes(described)
        for method, value in vars(described).items():
            if not method.startswith("_") and _is_method(value) and value is not _INTERNAL:
                yield from _member(described, method, "####")


def _described(name: str, described: Any) -> Iterator[str]:
    yield f"### {name}\n"
    if inspect.isfunction(described):
        yield _fenced(signature(name, described))
    yield f"{_doc(described)}\n"


def _member(owner: type, name: str, level: str) -> Iterator[str]:
    value = inspect.getattr_static(owner, name)
    shown = {lastgood.Client: "client", lastgood.Run: "run"}.get(owner, owner.__name__)
    if isinstance(value, classmethod):
        shown = owner.__name__
    yield f"{level} {shown}.{name}\n"
    if not isinstance(value, property):
        yield _fenced(signature(f"{shown}.{name}", _function(value)))
    yield f"{_doc(getattr(value, 'fget', None) or _function(value))}\n"


def _is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | classmethod)


def _function(value: Any) -> Callable[..., object]:
    found: Callable[..., object] = getattr(value, "__func__", value)
    return found


def signature(name: str, function: Callable[..., object]) -> str:
    """A call as it is written, on one line if it fits."""
    described = inspect.signature(function)
    words = list(_parameters(described.parameters))
    result = described.return_annotation
    end = "" if result is described.empty else f" -> {result}"
    start = ("await " if inspect.iscoroutinefunction(function) else "") + name
    whole = f"{start}({', '.join(words)}){end}"
    if len(whole) <= WIDTH:
        return whole
    rows = "".join(f"    {word},\n" for word in words)
    return f"{start}(\n{rows}){end}"


def _parameters(parameters: Mapping[str, inspect.Parameter]) -> Iterator[str]:
    starred = False
    for parameter in parameters.values():
        if parameter.name in ("self", "cls") and parameter.annotation is parameter.empty:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        yield _parameter(parameter)


def _parameter(parameter: inspect.Parameter) -> str:
    stars = _STARS.get(parameter.kind, "")
    kind = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}{kind}"
    default = parameter.default
    shown = str(default) if isinstance(default, Enum) else repr(default)
    return f"{stars}{parameter.name}{kind} = {shown.removeprefix('Sentinel.')}"


def _attributes(cls: type) -> Iterator[str]:
    """The fields of a class and what its source says of them, as a table."""
    for base in cls.__bases__:
        if base.__name__ in lastgood.__all__:
            yield f"It has every attribute of a [{base.__name__}](#{base.__name__.lower()}), and:\n"
    if issubclass(cls, Enum):
        yield "Members: " + ", ".join(f"`{member.name}`" for member in cls) + ".\n"
    rows = [row for row in _own_fields(cls) if not row[0].startswith("_") and row[1] != "Codec"]
    if rows:
        # A bar inside a table cell is read differently by every reader of Markdown.
        lines = (f"| `{name}` | `{kind.replace('|', 'or')}` | {doc} |" for name, kind, doc in rows)
        yield "\n".join(["| attribute | type | |", "|---|---|---|", *lines]) + "\n"


def _own_fields(cls: type) -> Iterator[tuple[str, str, str]]:
    """Name, type and docstring of what is declared in the body of a class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    assert isinstance(tree.body[0], ast.ClassDef)
    body = tree.body[0].body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, ast.unparse(node.annotation), _string(after)


def _string(node: ast.stmt | None) -> str:
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return " ".join(value.value.split())
    return ""


def _doc(described: object) -> str:
    text = inspect.getdoc(described)
    assert text, f"{described} has no docstring"
    return _ERROR_NAME.sub(lambda name: f"[{name[0]}](errors.md#{name[0].lower()})", text)


def _fenced(code: str) -> str:
    return f"```text\n{code}\n```\n"


def error_page() -> str:
    """The page of errors."""
    docstring = inspect.getdoc(errors) or ""
    tree = textwrap.dedent(docstring.split("\n\n")[1])
    return "\n".join([ERRORS_HEAD.format(tree=tree), *map(_error, error_classes())])


def error_classes() -> list[type[lastgood.LastgoodError]]:
    """Every error, in the order of its module."""
    found = vars(errors).values()
    return [e for e in found if inspect.isclass(e) and issubclass(e, lastgood.LastgoodError)]


def _error(error: type[lastgood.LastgoodError]) -> str:
    note = NOTES[error.__name__]
    bases = " and ".join(f"`{base.__name__}`" for base in error.__bases__)
    example = f"\n```python\n{note['example']}\n```\n" if "example" in note else ""
    return (
        f"## {error.__name__}\n\n`code`: `{error.code}`. Derives from {bases}.\n\n{_doc(error)}\n\n"
        f"**When.** {note['when']}\n\n**What to do.** {note['then']}\n{example}"
    )


def main() -> None:
    """Write both pages."""
    (HERE / "api.md").write_text(api())
    (HERE / "errors.md").write_text(error_page())


if __name__ == "__main__":
    main()
