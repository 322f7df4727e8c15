"""Operations of a store, checked before the first of a batch is carried out. Pure.

What is wrong with one is told in the words of its caller; no store ever sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchOp,
    validate_op_namespace,
)
from pydantic import BaseModel

from lastgood.model import LONGEST_TTL


def checked(ops: Iterable[Op]) -> list[Op]:
    """The operations; raises ValueError or TypeError for what none can be."""
    listed = list(ops)
    for number, op in enumerate(listed):
        if not isinstance(op, GetOp | SearchOp | ListNamespacesOp | PutOp):
            raise ValueError(  # noqa: TRY004 - as LangGraph's own stores
                f"{type(op).__name__} is no operation of a store. "
                "Use GetOp, SearchOp, ListNamespacesOp or PutOp."
            )
        validate_op_namespace(op)
        if not isinstance(op, ListNamespacesOp):
            _check_labels(op.namespace_prefix if isinstance(op, SearchOp) else op.namespace)
        if isinstance(op, PutOp):
            _check_ttl(op.ttl)
            listed[number] = op._replace(value=_fields(op.value))
    return listed


def _fields(value: Any) -> Any:
    """What readers take by keys: LangGraph's own stores make a dict of any mapping or model."""
    is_mapping = isinstance(value, Mapping | BaseModel) and type(value) is not dict
    return dict(value) if is_mapping else value


def _check_labels(labels: Iterable[str]) -> None:
    for label in labels:
        if not label.isascii() and any("\ud800" <= char <= "\udfff" for char in label):
            raise ValueError(
                f"the label {label!r} of a namespace holds half of a character. "
                "Use text that UTF-8 can hold."
            )


def _check_ttl(ttl: object) -> None:
    if ttl is None:
        return
    if not isinstance(ttl, int | float):
        raise TypeError(f"ttl must be a number of minutes, not {type(ttl).__name__}.")
    if not -LONGEST_TTL < ttl * 60 < LONGEST_TTL:
        raise ValueError(
            f"ttl must be less than 950 years, in minutes, not {ttl!r}. Leave it out to keep the "
            "value."
        )
