"""Values to bytes: one native call where it can be, a walk where it must be.

Owns the decision between the two, and how a value is opened by one level for whoever stores
its parts apart. Must not know pages or stores. Invariant: opening, packing the parts and
joining give the same value as packing the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import add, itemgetter
from typing import Any, Literal

from lastgood.codec.atoms import SURROGATES
from lastgood.codec.containers import SETS
from lastgood.codec.decoder import Decoder
from lastgood.codec.kinds import DROPPED, Dropped, Family, Number, Shape
from lastgood.codec.msgpack import skip
from lastgood.codec.native import PLAIN, Inspection, Native
from lastgood.codec.opaque import Opaque
from lastgood.codec.registry import Registry
from lastgood.codec.walk import Item, Walker, plain_keys
from lastgood.errors import SerializationError
from lastgood.model import Loss
from lastgood.paths import Steps

Policy = Literal["raise", "drop"]


class Encoder:
    """Packs the values of one save and collects what had to be left out."""

    def __init__(
        self,
        registry: Registry,
        *,
        root: str = "state",
        strict_types: bool = False,
        policy: Policy = "raise",
        max_depth: int = 200,
    ) -> None:
        self._drops = policy == "drop"
        self._registry = registry
        self._native = Native(registry, strict_types=strict_types, max_depth=max_depth)
        self._root = root
        self._max_depth = max_depth
        self._lazy_walker: Walker | None = None

    @property
    def losses(self) -> list[Loss]:
        """What was left out so far, under the drop policy."""
        return self._lazy_walker.losses if self._lazy_walker else []

    @property
    def _walker(self) -> Walker:
        """Made when a walk is needed, which most saves never do."""
        if self._lazy_walker is None:
            self._lazy_walker = Walker(
                self._native, root=self._root, drops=self._drops, max_depth=self._max_depth
            )
        return self._lazy_walker

    def pack(self, value: object, path: Steps = ()) -> bytes | Dropped:
        """The bytes of a value, or DROPPED when policy says so and it cannot be kept."""
        try:
            return self._native.pack(value) or self._walker.pack(value, path)
        except SerializationError as error:
            self._walker.lose(error, value)
            return DROPPED

    def pack_key(self, key: object, path: Steps, value: object) -> bytes | Dropped:
        """The same for a key, or an element of a set: no part of it is left out, but the value."""
        try:
            return self._native.pack(key) or self._walker.drive(self._walker.whole(key, path))
        except SerializationError as error:
            self._walker.lose(error, value)
            return DROPPED

    def pack_at_once(self, value: object) -> bytes | None:
        """The bytes of a value from one native call, or None if it must be walked."""
        return self._native.pack(value)

    def pack_each(
        self, values: Sequence[object], path: Steps, *, exact: bool = True
    ) -> list[bytes]:
        """The bytes of each element; under the drop policy of those that can be kept.

        With `exact=False` the caller sees to it with `inspect`, for those that turn out to be new.
        """
        packed = self._native.pack_each(values)
        if packed is None or (exact and not self._native.inspect(values, packed).exact):
            return self._walker.drive(self._walker.each(values, path))
        return packed

    def pack_more(
        self, values: Sequence[object], path: Steps, first: Callable[[], int]
    ) -> tuple[list[bytes], bool]:
        """The same for the end of a list, exact, and whether any may hold something binary.

        Which number the first of them has is asked where paths have to be told.
        """
        packed = self._native.pack_each(values)
        if packed is not None:
            seen = self._native.inspect(values, packed)
            if seen.exact:
                return packed, seen.binary
        return self._walker.drive(self._walker.each(values, path, first())), True

    def pack_items(self, items: Sequence[Item], path: Steps, *, exact: bool = True) -> list[bytes]:
        """The bytes of each key and its value, put together."""
        values = list(chain.from_iterable(items))
        flat = self._native.pack_each(values)
        if flat is None or (exact and not self._native.inspect(values, flat).exact):
            return self._walker.drive(self._walker.items(items, path))
        return list(map(add, flat[::2], flat[1::2]))

    def pack_plain(self, values: Sequence[object]) -> list[bytes] | None:
        """The bytes of each element; None if one holds anything binary, or must be walked."""
        packed = self._native.pack_each(values)
        if packed is None or self._native.inspect(values, packed) != PLAIN:
            return None
        return packed

    def pack_row(self, values: list[object]) -> memoryview | None:
        """The bytes of values one behind the other, not `exact`; None if one must be walked.

        For comparing; boundaries are not told.
        """
        return self._native.view_row(values)

    def inspect(
        self, positions: Sequence[int], content: Any, packed: Sequence[bytes], *, items: bool
    ) -> Inspection:
        """What the elements (or items) at some positions are made of."""
        values = [content[position] for position in positions]
        if items:
            values = list(map(list, values))
        return self._native.inspect(values, [packed[position] for position in positions])

    def shape(self, value: object, path: Steps = ()) -> Shape | Dropped:
        """Open a value by one level, for whoever stores its parts apart.

        The parts stay as they are, whatever another thread does to the value meanwhile.
        """
        opener = _OPENERS.get(type(value), Encoder._open_special)
        try:
            return opener(self, value, path)
        except SerializationError as error:
            self._walker.lose(error, value)
            return DROPPED

    def _open_dict(self, value: Any, path: Steps) -> Shape:  # noqa: ARG002
        items = list(value.items())
        number = Number.DICT if plain_keys(items) else Number.PAIRS
        return Shape(Family.MAP, number, b"", items)

    def _open_list(self, value: Any, path: Steps) -> Shape:  # noqa: ARG002
        return Shape(Family.ARRAY, Number.LIST, b"", value.copy())

    def _open_str(self, value: Any, path: Steps) -> Shape:  # noqa: ARG002
        try:
            return Shape(Family.TEXT, Number.STR, b"", value.encode())
        except UnicodeEncodeError:
            return Shape(Family.TEXT, Number.SURROGATES, b"", SURROGATES.take(value))

    def _open_bytes(self, value: Any, path: Steps) -> Shape:  # noqa: ARG002
        return Shape(Family.TEXT, Number.BYTES, b"", value)

    def _open_special(self, value: object, path: Steps) -> Shape:
        kind = self._walker.kind_of(value, path)
        if kind.family is Family.RAW:
            return self._open_whole(value, path)
        if kind.whole and self._drops:
            self._whole(value, path)  # raises if a part would have to be left out
        body = self._walker.take(kind, value, path)
        extra = b""
        if kind.headed:
            head, body = body
            extra = self._walker.drive(self._walker.extra(head, path))
        number = kind.number
        if kind.family is Family.MAP:
            body = self._with_gaps(body, path) if kind.gaps and self._drops else list(body.items())
            number = number if plain_keys(body) else self._walker.paired(number, path)
        elif number in SETS:
            body = self._canonical(body, path)
        return Shape(kind.family, number, extra, body)

    def _with_gaps(self, body: dict[str, object], path: Steps) -> list[Item]:
        """The fields of a record, None in the place of those that cannot be kept."""
        found: list[Item] = []
        for name, item in list(body.items()):
            known = len(self.losses)
            lost = isinstance(self.pack(item, (*path, name)), Dropped)
            if not lost:
                del self.losses[known:]  # told again when it is packed for good
            found.append((name, None if lost else item))
        return found

    def _open_whole(self, value: object, path: Steps) -> Shape:
        return Shape(Family.RAW, Number.RAW, b"", self._whole(value, path))

    def _open_opaque(self, value: Any, path: Steps) -> Shape:
        """A record that this process lacks the class of opens like the record itself."""
        if value.lastgood_code != Number.RECORD:
            return self._open_whole(value, path)
        payload: bytes = value.lastgood_payload
        end = skip(payload, 1)  # behind the array header: the head, then the fields
        fields = Decoder(self._registry, strict_types=False).value(payload[end:])
        return Shape(Family.MAP, Number.RECORD, payload[1:end], list(fields.items()))

    def _canonical(self, elements: list[object], path: Steps) -> list[object]:
        packed = [self.pack_key(each, (*path, at), each) for at, each in enumerate(elements)]
        keyed = [each for each in zip(packed, elements, strict=True) if each[0] is not DROPPED]
        return [element for _, element in sorted(keyed, key=itemgetter(0))]

    def _whole(self, value: object, path: Steps) -> bytes:
        return self._native.pack(value) or self._walker.pack(value, path)


_OPENERS: dict[type, Callable[[Encoder, Any, Steps], Shape]] = {
    dict: Encoder._open_dict,
    list: Encoder._open_list,
    str: Encoder._open_str,
    bytes: Encoder._open_bytes,
    Opaque: Encoder._open_opaque,
    **dict.fromkeys((type(None), bool, int, float), Encoder._open_whole),
}
