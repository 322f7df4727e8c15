"""Part by part, for what the native path declines: it knows the path and the policy.

Writes dicts with odd keys as pairs and lone surrogates as they are, finds cycles and depth, and
leaves out what cannot be kept if that is the policy. Must not know how values are cut up for
storage. Invariant: the bytes are those of the native path wherever that has any.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from operator import itemgetter
from typing import Any, TypeVar

from lastgood.codec import refusal
from lastgood.codec.atoms import SURROGATES
from lastgood.codec.containers import SETS
from lastgood.codec.heads import Head
from lastgood.codec.kinds import Family, Kind, Number, Refused, paired
from lastgood.codec.msgpack import array, array_header, ext, map_header
from lastgood.codec.native import Native
from lastgood.codec.opaque import Opaque
from lastgood.errors import SerializationError
from lastgood.model import Loss
from lastgood.paths import Steps

R = TypeVar("R")
Item = tuple[object, object]
Request = tuple[object, Steps]
Walk = Generator[Request, bytes, bytes]
Walks = Generator[Request, bytes, list[bytes]]
"""A walk asks for the bytes of a part, at its path, and goes on when it gets them."""

# Above this depth the native call is still tried on each part the walk comes to.
_FREE_DEPTH = 16
_NONE = b"\xc0"
_SCALARS = frozenset({type(None), bool, int, float, str, bytes})


class Walker:
    """The careful way through the values of one save."""

    def __init__(self, native: Native, *, root: str, drops: bool, max_depth: int) -> None:
        self.losses: list[Loss] = []
        self._native = native
        self._root = root
        self._drops = drops
        self._max_depth = max_depth
        self._trail: dict[int, None] = {}
        self._wholes = 0
        """How many objects around us are kept whole or not at all."""

    def pack(self, value: object, path: Steps) -> bytes:
        """The bytes of a value, or the error that names the part which has none."""
        return self.drive(self._visit(value, path))

    def drive(self, first: Generator[Request, bytes, R]) -> R:
        """Run a walk to its end on a stack of its own: Python's is too short for 200 levels."""
        stack: list[Generator[Request, Any, Any]] = [first]
        answer: Any = None
        failure: SerializationError | None = None
        while stack:
            walk = stack[-1]
            try:
                request = walk.throw(failure) if failure else walk.send(answer)
                failure = answer = None
                stack.append(self._visit(*request))
            except StopIteration as end:
                stack.pop()
                failure, answer = None, end.value
            except SerializationError as error:
                stack.pop()
                failure = error
        if failure is not None:
            raise failure
        return answer  # type: ignore[no-any-return]

    def _visit(self, value: object, path: Steps) -> Walk:
        if type(value) is str:
            return ext(SURROGATES.number, SURROGATES.take(value))  # type: ignore[arg-type]
        if id(value) in self._trail:
            raise refusal.circular(path, self._root)
        if len(path) >= self._max_depth:
            raise refusal.too_deep(path, self._root, self._max_depth)
        self._trail[id(value)] = None
        try:
            return (yield from _WALKERS.get(type(value), Walker._special)(self, value, path))
        finally:
            del self._trail[id(value)]

    def _quick(self, value: object) -> bytes | None:
        """The native way, wherever it neither hides a depth nor takes longer than a visit."""
        if type(value) in _SCALARS or len(self._trail) < _FREE_DEPTH:
            return self._native.pack(value)
        return None

    def _list(self, value: Any, path: Steps, *, gaps: bool = False) -> Walk:
        return array((yield from self.each(value, path, gaps=gaps)))

    def _dict(self, value: Any, path: Steps, *, gaps: bool = False) -> Walk:
        number, packed = yield from self._mapping(Number.DICT, value, path, gaps=gaps)
        return packed if number == Number.DICT else ext(number, packed)

    def _mapping(
        self, number: int, value: Any, path: Steps, *, gaps: bool
    ) -> Generator[Request, bytes, tuple[int, bytes]]:
        """The kind to use and the body: a map if every key is plain text, else pairs."""
        items = list(value.items())  # another thread may change it
        parts = yield from self.items(items, path, gaps=gaps)
        if plain_keys(items):
            return number, b"".join((map_header(len(parts)), *parts))
        return self.paired(number, path), array_header(2 * len(parts)) + b"".join(parts)

    def paired(self, number: int, path: Steps) -> int:
        """The kind for a mapping with other keys; a record has none, its attributes are names."""
        if number == Number.RECORD:
            because = "an object with an attribute whose name is not text that UTF-8 can hold"
            raise refusal.refused(None, path, self._root, f"{because} cannot be stored")
        return paired(number)

    def _special(self, value: object, path: Steps) -> Walk:
        if type(value) is Opaque:
            return ext(value.lastgood_code, value.lastgood_payload)
        kind = self.kind_of(value, path)
        body = self.take(kind, value, path)
        if kind.raw:
            return ext(kind.number, body)
        self._native.level += 1
        try:
            if kind.number == Number.CUSTOM:
                return ext(kind.number, (yield from self._custom(kind, value, body, path)))
            return (yield from self._ext(kind, body, path))
        finally:
            self._native.level -= 1

    def _custom(self, kind: Kind, value: object, body: Any, path: Steps) -> Walk:
        """What an encode function gave: its decode function counts on all of it."""
        label, encoded = body
        if kind.gaps and type(encoded) in _WALKERS:
            name = self._quick(label) or (yield label, path)
            walk = _WALKERS[type(encoded)]
            return array([name, (yield from walk(self, encoded, path, gaps=True))])
        self._wholes += 1
        try:
            return (yield from self._entire(body, path))
        except SerializationError as error:
            if not self._drops or self._wholes > 1:
                raise
            because = f"{refusal.noun(value)} cannot be stored without a part of it"
            inside = error.message.removesuffix(".")
            raise refusal.refused(value, path, self._root, f"{because} ({inside})") from error
        finally:
            self._wholes -= 1

    def _ext(self, kind: Kind, body: Any, path: Steps) -> Walk:
        head = b""
        if kind.headed:
            extra, body = body
            head = b"\x92" + (yield from self.extra(extra, path))
        number = kind.number
        if kind.whole or kind.family is Family.RAW:
            packed = yield from self._entire(body, path)
        elif kind.family is Family.MAP:
            number, packed = yield from self._mapping(number, body, path, gaps=kind.gaps)
        else:
            parts = yield from self.each(body, path, whole=number in SETS)
            packed = array(sorted(parts) if number in SETS else parts)
        return ext(number, packed, head)

    def _entire(self, body: Any, path: Steps) -> Walk:
        """A body of which nothing may be left out; only records name their parts in the path."""
        if type(body) not in {dict, list}:
            return self._quick(body) or (yield body, path)
        parts = []
        if type(body) is dict:
            for key, item in list(body.items()):
                parts.append((yield from self._item(key, item, (*path, key))))
            return map_header(len(parts)) + b"".join(parts)
        for item in body:
            part = self._quick(item) or (yield item, path)
            parts.append(part)
        return array(parts)

    def extra(self, extra: Any, path: Steps) -> Walk:
        """The head of a body; the sections of a record in it are maps of names like its fields."""
        if type(extra) is Head:
            return extra.packed
        if type(extra) is not list:
            return self._quick(extra) or (yield extra, path)
        parts = []
        for section in extra:
            quick = self._quick(section)
            if quick is None and type(section) is dict:
                quick = yield from self._dict(section, path)
            parts.append(quick or (yield section, path))
        return array(parts)

    def each(
        self,
        values: Iterable[object],
        path: Steps,
        first: int = 0,
        *,
        gaps: bool = False,
        whole: bool = False,
    ) -> Walks:
        """The bytes of each element that can be kept; the first one has that number."""
        found = []
        for index, value in enumerate(values, first):
            try:
                visit = self.whole if whole else _asked
                found.append(self._quick(value) or (yield from visit(value, (*path, index))))
            except SerializationError as error:
                self.lose(error, value)
                if gaps:
                    found.append(_NONE)
        return found

    def items(self, items: Iterable[Item], path: Steps, *, gaps: bool = False) -> Walks:
        """The bytes of each key and value that can be kept, put together."""
        found = []
        for key, value in items:
            try:
                found.append((yield from self._item(key, value, (*path, key))))
            except SerializationError as error:
                self.lose(error, value)
                if gaps and (name := self._quick(key)):
                    found.append(name + _NONE)
        return found

    def whole(self, value: object, path: Steps) -> Walk:
        """A key, or an element of a set: without a part of it, it could be equal to another one."""
        self._wholes += 1
        try:
            return (yield value, path)
        finally:
            self._wholes -= 1

    def _item(self, key: object, value: object, path: Steps) -> Walk:
        name = self._quick(key) or (yield from self.whole(key, path))
        return name + (self._quick(value) or (yield value, path))

    def lose(self, error: SerializationError, value: object) -> None:
        """Report a part that is left out, if policy allows that; else go on raising."""
        if not self._drops or self._wholes:
            raise error
        self.losses.append(Loss(error.path, refusal.type_name(value), error.message))

    def kind_of(self, value: object, path: Steps) -> Kind:
        try:
            kind = self._native.kind_of(value)
        except Refused as reason:
            raise refusal.refused(value, path, self._root, str(reason), reason.hint) from None
        if kind is None:
            raise refusal.refused(value, path, self._root)
        return kind

    def take(self, kind: Kind, value: object, path: Steps) -> Any:
        try:
            return kind.take(value)
        except Refused as reason:
            raise refusal.refused(value, path, self._root, str(reason)) from None
        except Exception as error:  # an object that was never filled, a failing encode function
            because = f"{refusal.noun(value)} cannot be taken apart ({error!r})"
            raise refusal.refused(value, path, self._root, because) from error


def _asked(value: object, path: Steps) -> Walk:
    return (yield value, path)


_WALKERS: dict[type, Callable[..., Walk]] = {
    list: Walker._list,
    dict: Walker._dict,
}


def plain_keys(items: Iterable[Item]) -> bool:
    """Whether every key is exactly a `str` that UTF-8 can hold."""
    keys = list(map(itemgetter(0), items))
    if not set(map(type, keys)) <= {str}:
        return False
    try:
        "".join(keys).encode()
    except UnicodeEncodeError:
        return False
    return True
