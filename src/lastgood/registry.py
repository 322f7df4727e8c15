"""Which backend serves which address: url scheme -> backend. The one list to extend.

A backend's module is loaded when its scheme is first used, so `import lastgood` loads no driver.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import unquote

from lastgood.backend import Backend


class Entry(NamedTuple):
    """A backend: where its class is, and how an address becomes its arguments."""

    module: str
    name: str
    arguments: Callable[[str], dict[str, Any]]
    contract: bool = True
    """Whether it promises what `lastgood.testing` checks; the null backend promises nothing."""


def _sqlite_path(url: str) -> dict[str, Any]:
    """`sqlite:///rel.db` is relative, `sqlite:////abs.db` is absolute."""
    rest = url.removeprefix("sqlite:")
    if rest in ("", "//", "///"):
        return {}
    if not rest.startswith("///") or "?" in rest or "#" in rest:
        raise ValueError(
            f"{url!r} is not the address of a SQLite file. Write sqlite:///rel.db or "
            "sqlite:////abs.db, without options; for a store in memory: memory:"
        )
    return {"path": unquote(rest[3:])}


def _nothing(_url: str) -> dict[str, Any]:
    return {}


BACKENDS: dict[str, Entry] = {
    "sqlite": Entry("lastgood.backends.sqlite", "SqliteBackend", _sqlite_path),
    "memory": Entry("lastgood.backends.memory", "MemoryBackend", _nothing),
    "null": Entry("lastgood.backends.null", "NullBackend", _nothing, contract=False),
}


def make(scheme: str, **arguments: Any) -> Backend:
    """A backend by its scheme."""
    entry = BACKENDS[scheme]
    backend: Backend = getattr(import_module(entry.module), entry.name)(**arguments)
    return backend


def open_url(url: str, **options: Any) -> Backend:
    """A backend by its address, such as `sqlite:///agent.db` or `memory:`."""
    scheme = str(url).partition(":")[0]
    if scheme not in BACKENDS:
        known = ", ".join(f"{name}:" for name in BACKENDS)
        raise ValueError(
            f"{url!r} is not an address that Lastgood knows. Use one of {known} "
            "for example sqlite:///lastgood.db"
        )
    if options and scheme != "sqlite":
        raise ValueError(f"{url!r} takes no {', '.join(options)}: it keeps nothing.")
    return make(scheme, **BACKENDS[scheme].arguments(url), **options)
