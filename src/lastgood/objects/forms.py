"""Which types stand where in a state: remembered from one walk to the next, and checked each time.

From save to save most values of a large state change neither their place nor their type. Listing
the types of all takes half the time of asking of each whether it is looked into. Owns what is
remembered: types, and no value. Must not know what is made of a walk. Invariant: what is remembered
holds for values that have the very types that it was found out from, and is used for no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import compress, count
from operator import itemgetter

from lastgood.objects.walking import Sift, Sifted, Sort, sort_of, without_atoms

MANY, MOST = 256, 1 << 16
"""Something is remembered about levels of so many values: at most 16 bytes for each of them."""


class Forms:
    """The forms of a state's levels, as they were at the last walk through it."""

    def __init__(self) -> None:
        self._by_depth: dict[int, _Form] = {}

    def sift(self) -> Sift:
        """How the values of one level after the other are told from atoms, in one walk."""
        depths = count()
        return lambda values: self._sifted(next(depths), values)

    def _sifted(self, depth: int, values: list[object]) -> Sifted:
        if not MANY <= len(values) <= MOST:
            return without_atoms(values)
        types = list(map(type, values))
        form = self._by_depth.get(depth)
        more = len(types) - len(form.types) if form else -1
        if form is None or more < 0 or (types[more:] if more else types) != form.types:
            self._by_depth[depth] = _Form(types)
            return without_atoms(values)
        if more > len(form.types) // 4:
            self._by_depth[depth] = _Form(types)
        if not more:
            return form.chosen(values), form.kinds
        # The interpreter lists what a list holds from its end, which is where lists grow.
        found, kinds = without_atoms(values[:more])
        return found + form.chosen(values[more:]), form.kinds | kinds


class _Form:
    """The types of a level, and what follows from them: only found out when they recur."""

    def __init__(self, types: list[type]) -> None:
        self.types = types

    @cached_property
    def kinds(self) -> frozenset[type]:
        """The types that are no atoms."""
        return frozenset(cls for cls in set(self.types) if sort_of(cls) is not Sort.ATOM)

    @cached_property
    def chosen(self) -> Callable[[list[object]], list[object]]:
        """How they are taken from values of these types, without touching the others."""
        places = list(compress(_numbers(), map(self.kinds.__contains__, self.types)))
        if len(places) == len(self.types):
            return lambda values: values
        if len(places) <= 1:
            return lambda values: [values[place] for place in places]
        taken = itemgetter(*places)
        return lambda values: list(taken(values))


@cache
def _numbers() -> Sequence[int]:
    """The places that there can be, made once, as all forms hold them: two megabytes."""
    return tuple(range(MOST))
