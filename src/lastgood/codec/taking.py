"""Many records apart at once: their heads in one list, what stands behind these in another.

Owns nothing but the loop. Must not know bytes. Invariant: each object gives what `take` of its
plan gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lastgood.codec.heads import BARE, Head
from lastgood.codec.records import FULL, UNKNOWN, Plan


class NotTaken(Exception):
    """One of many is no record, or was never filled."""


def take_each(values: Sequence[Any], plans: Mapping[type, Plan]) -> tuple[list[Head], list[Any]]:
    """The heads and the fields; for a head that nobody shares, `BARE` and `[head, fields]`.

    What a pydantic model shares with others is found here as in `PydanticPlan.take`: a call for
    each would take half as long again.
    """
    heads: list[Any] = []
    bodies: list[Any] = []
    try:
        for value in values:
            plan = plans[type(value)]
            shared = plan.shared
            if shared is not None and not (extra := value.__pydantic_extra__):
                state = value.__dict__
                names = value.__pydantic_fields_set__
                count = len(names)
                if count == len(state) and names == state.keys():
                    count = FULL
                known = shared.get(count, UNKNOWN)
                like_others = known[0] == names and known[1] is type(extra)
                if like_others and value.__pydantic_private__ is None:
                    heads.append(known[2])
                    bodies.append(state)
                    continue
            head, body = plan.take(value)
            if type(head) is not Head:
                head, body = BARE, [head, body]
            heads.append(head)
            bodies.append(body)
    except Exception as error:
        raise NotTaken from error
    return heads, bodies
