"""Refs: how people and programs name a checkpoint.

A ref is a checkpoint id, or an address `thread[/agent]@selector`, split at the last `@`:

    run-001@            the head of the current branch     run-001@tag:NAME     a tag
    run-001@~2          two before it on that line         run-001@branch:NAME  a branch's head
    run-001@42          the checkpoint with seq 42         run-001@step:7       the newest at step 7

`@`, `/` and `%` inside a name are written `%40`, `%2F` and `%25`. Owns the grammar alone: nothing
is looked up here.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from lastgood.ids import LANE_LIMIT, NAME_LIMIT, check_name, read_id

Selector = Literal["head", "back", "seq", "step", "tag", "branch"]

_QUOTED = {"%": "%25", "@": "%40", "/": "%2F"}
_PLAIN = {quoted: plain for plain, quoted in _QUOTED.items()}
_ESCAPE = re.compile("%(?:25|40|2F)", re.IGNORECASE)
_SELECTOR = re.compile(r"~(?P<back>\d{1,9})|(?P<seq>\d{1,10})|step:(?P<step>\d{1,18})", re.ASCII)
_SPELLED: dict[Selector, str] = {
    "head": "",
    "back": "~{}",
    "seq": "{}",
    "step": "step:{}",
    "tag": "tag:{}",
    "branch": "branch:{}",
}
HELP = (
    "Write thread@, thread@~N, thread@SEQ, thread@step:N, thread@tag:NAME or thread@branch:NAME; "
    "an @ inside a name is %40."
)


class Address(NamedTuple):
    """A ref that names a checkpoint by its place."""

    thread: str
    agent: str | None
    selector: Selector
    value: int | str = ""

    def __str__(self) -> str:
        lane = quote(self.thread) + (f"/{quote(self.agent)}" if self.agent else "")
        value = quote(self.value) if isinstance(self.value, str) else self.value
        return f"{lane}@{_SPELLED[self.selector].format(value)}"


def quote(name: str) -> str:
    """A name as it stands in an address."""
    return "".join(_QUOTED.get(char, char) for char in name)


def unquote(text: str) -> str:
    """The name behind what stands in an address."""
    return _ESCAPE.sub(lambda match: _PLAIN[match[0].upper()], text)


def _read(text: str, what: str, limit: int = NAME_LIMIT) -> str:
    return check_name(unquote(text), what, limit)


def short_name(thread: str, seq: int) -> str:
    """The name shown everywhere: `run-001@42`."""
    return f"{quote(thread)}@{seq}"


def parse(ref: object, thread: str | None = None) -> bytes | Address | None:
    """The id or the address behind a ref; None if it is neither.

    Where a `thread` is given, `@42` is short for `thread@42`.
    """
    if not isinstance(ref, str) or "@" not in ref:
        return read_id(check_name(ref, "ref"))
    place, _, selector = ref.rpartition("@")
    if not place and thread is not None:
        return _address(ref, thread, None, selector)
    name, slash, agent = place.partition("/")
    if not name or (slash and not agent):
        raise ValueError(f"ref {ref!r} names no thread. {HELP}")
    lane = _read(agent, "agent", LANE_LIMIT) if slash else None
    return _address(ref, _read(name, "thread"), lane, selector)


def _address(ref: str, thread: str, agent: str | None, selector: str) -> Address:
    if not selector:
        return Address(thread, agent, "head")
    for kind in ("tag", "branch"):
        if selector.startswith(f"{kind}:") and selector != f"{kind}:":
            value = _read(selector.removeprefix(f"{kind}:"), kind)
            return Address(thread, agent, kind, value)
    match = _SELECTOR.fullmatch(selector)
    if match is None:
        raise ValueError(f"{selector!r} in ref {ref!r} selects nothing. {HELP}")
    found: Selector = match.lastgroup  # type: ignore[assignment]
    return Address(thread, agent, found, int(match[found]))
