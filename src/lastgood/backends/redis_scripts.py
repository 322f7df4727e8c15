"""The Lua scripts, with the places of columns filled in."""

from __future__ import annotations

from importlib import resources

from lastgood.backend import WEIGHT
from lastgood.backends.redis_keys import SUFFIXES
from lastgood.backends.redis_wire import Script
from lastgood.rows import TABLES, fields_of

_READ = ("thread", "lane", "branch", "item", "checkpoint")


def _places() -> str:
    """Where the columns are: a table for each kind of row that the server looks into."""
    lines = [f"local WEIGHT = {WEIGHT}"]
    for cls, name in TABLES.items():
        if name in _READ:
            places = ", ".join(f"{field} = {i}" for i, field in enumerate(fields_of(cls), 1))
            lines.append(f"local {name.upper()} = {{{places}}}")
    suffixes = ", ".join(f"'{suffix}'" for suffix in SUFFIXES)
    return "\n".join([*lines, f"local SUFFIXES = {{{suffixes}}}", ""])


def _script(name: str) -> Script:
    folder = resources.files("lastgood.backends").joinpath("redis_lua")
    prelude, text = (folder.joinpath(f"{each}.lua").read_text() for each in ("prelude", name))
    return Script(_places() + prelude + text)


ASK = _script("ask")
COMMIT = _script("commit")
HINT = _script("hint")
