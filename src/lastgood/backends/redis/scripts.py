"""The Lua scripts, with the places of columns filled in."""

from __future__ import annotations

from importlib import resources

from lastgood.backend import WEIGHT
from lastgood.backends.redis.keys import NEWS, NOTHING, OWN, SUFFIXES
from lastgood.backends.redis.wire import Script
from lastgood.rows import TABLES, fields_of

_READ = ("thread", "lane", "branch", "item", "checkpoint")


def _places() -> str:
    """Where the columns are: a table for each kind of row that the server looks into."""
    lines = [f"local WEIGHT = {WEIGHT}"]
    for cls, name in TABLES.items():
        if name in _READ:
            places = ", ".join(f"{field} = {i}" for i, field in enumerate(fields_of(cls), 1))
            lines.append(f"local {name.upper()} = {{{places}}}")
    return "\n".join([*lines, ""])


def _suffixes() -> str:
    known, own = (", ".join(map(repr, some)) for some in (SUFFIXES, OWN))
    places = f"local SUFFIXES, OWN = {{{known}}}, {{{own}}}\n"
    return places + f"local NEWS, ABSENT = {NEWS!r}, {NOTHING!r}\n"


def _script(*names: str, head: str = "") -> Script:
    folder = resources.files("lastgood.backends.redis").joinpath("lua")
    return Script(head + "".join(folder.joinpath(f"{name}.lua").read_text() for name in names))


ASK = _script("prelude", "own", "columns", "ask", "survey", "reply", head=_places() + _suffixes())
COMMIT = _script("prelude", "own", "commit", head=_suffixes())
HINT = _script("prelude", "own", "hint", head=_suffixes())
STAGE = _script("stage")
WATCH = _script("watch")
