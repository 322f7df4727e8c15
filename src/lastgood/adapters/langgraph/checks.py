"""Operations of a store, checked before the first of a batch is carried out. Pure.

What is wrong with one is told in the words of its caller; no store ever sees it.
"""

from __future__ import annotations

from collections.abc import Iterable

from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

from lastgood.model import LONGEST_TTL


def checked(ops: Iterable[Op]) -> list[Op]:
    """The operations; raises ValueError or TypeError for what none can be."""
    listed = list(ops)
    for op in listed:
        if not isinstance(op, GetOp | SearchOp | ListNamespacesOp | PutOp):
            raise ValueError(  # noqa: TRY004 - as LangGraph's own stores
                f"{type(op).__name__} is no operation of a store. "
                "Use GetOp, SearchOp, ListNamespacesOp or PutOp."
            )
        validate_op_namespace(op)
        if not isinstance(op, ListNamespacesOp):
            _check_labels(op.namespace_prefix if isinstance(op, SearchOp) else op.namespace)
        if isinstance(op, PutOp) and op.ttl is not None:
            _check_ttl(op.ttl)
    return listed


def _check_labels(labels: Iterable[str]) -> None:
    for label in labels:
        if not label.isascii() and any("\ud800" <= char <= "\udfff" for char in label):
            raise ValueError(
                f"the label {label!r} of a namespace holds half of a character. "
                "Use text that UTF-8 can hold."
            )


def _check_ttl(ttl: object) -> None:
    if not isinstance(ttl, int | float):
        raise TypeError(f"ttl must be a number of minutes, not {type(ttl).__name__}.")
    if not -LONGEST_TTL < ttl * 60 < LONGEST_TTL:
        raise ValueError(
            f"ttl must be less than 950 years, in minutes, not {ttl!r}. Leave it out to keep the "
            "value."
        )
