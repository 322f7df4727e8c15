"""The list of cases: a decorator puts a body on it, one entry per row of its table.

Knows nothing of backends. The one invariant: a case's name is unique, so that a failure can be
found and run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from lastgood.testing.store import Store

Body = Callable[[Store], Coroutine[Any, Any, None]]
F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, None]])


@dataclass(frozen=True, slots=True)
class Case:
    """One promise or scenario of the contract, as a function that runs on any store."""

    name: str
    body: Body
    scenarios: tuple[str, ...] = ()
    slow: bool = False
    first: bool = False
    """Whether it is about the first call that ever was: it needs a harness that reuses nothing."""


CASES: dict[str, Case] = {}


def case(
    *scenarios: str,
    slow: bool = False,
    first: bool = False,
    each: Mapping[str, Any] | None = None,
) -> Callable[[F], F]:
    """Make a body a case; with `each`, one case per row, which the body gets as its argument."""

    def register(body: F) -> F:
        topic = body.__module__.rpartition(".")[2]
        name = f"{topic}.{body.__name__}"
        rows = [(name, body)] if each is None else _rows(name, body, each)
        for row_name, row_body in rows:
            assert row_name not in CASES, row_name
            CASES[row_name] = Case(row_name, row_body, scenarios, slow, first)
        return body

    return register


def _rows(name: str, body: Any, each: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(f"{name}({key})", partial(_with_row, body, row)) for key, row in each.items()]


async def _with_row(body: Any, row: object, store: Store) -> None:
    await body(store, row)
