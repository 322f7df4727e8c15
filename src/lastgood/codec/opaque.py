"""A stored value whose class this process does not know: kept whole, never guessed at.

Owns the stand-in; must not know how to find classes. Invariant: an `Opaque` is written back
byte for byte, and an application that takes it for the real object gets an error, not data.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import Never

from lastgood import paths
from lastgood.errors import SerializationError, an

_set = object.__setattr__
_IMPORT = "Import it before restoring, or use lastgood.register."
_BORN: ContextVar[list[Opaque] | None] = ContextVar("born", default=None)


NOWHERE = "This value"
"""The place of one that is not told: inside of a set, of a key, or of another one."""


class Opaque:
    """A stand-in for an object that cannot be rebuilt here, such as one of an unknown class.

    It can be saved again, byte for byte. Its own attributes begin with `lastgood_`, so that no
    field of the missing class is ever mistaken for one of them. Every other attribute, item or
    iteration raises `SerializationError`.
    """

    __slots__ = (
        "lastgood_code",
        "lastgood_hint",
        "lastgood_label",
        "lastgood_path",
        "lastgood_payload",
        "lastgood_reason",
    )

    lastgood_label: str
    lastgood_code: int
    lastgood_payload: bytes
    lastgood_reason: str
    lastgood_hint: str
    """What to do about it, where importing something does not help."""
    lastgood_path: str
    """Where in the state it stands, as far as that is known."""

    def __init__(
        self, label: str, code: int, payload: bytes, reason: str = "", hint: str = ""
    ) -> None:
        _set(self, "lastgood_label", label)
        _set(self, "lastgood_code", code)
        _set(self, "lastgood_payload", payload)
        _set(self, "lastgood_reason", reason)
        _set(self, "lastgood_hint", hint)
        _set(self, "lastgood_path", NOWHERE)
        born = _BORN.get()
        if born is not None:
            born.append(self)

    def _refuse(self) -> SerializationError:
        label = self.lastgood_label
        return SerializationError(
            f"{self.lastgood_path} is {an(label.replace(':', '.'))}, and {self.lastgood_reason}.",
            hint=self.lastgood_hint or _of_a_script(label) or _IMPORT,
        )

    def __getattr__(self, name: str) -> Never:
        # Protocol probes (copy, repr tools, numpy) ask for dunders and expect AttributeError.
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise self._refuse()

    def __setattr__(self, name: str, value: object) -> Never:
        raise self._refuse()

    def __delattr__(self, name: str) -> Never:
        raise self._refuse()

    def __getitem__(self, key: object) -> Never:
        raise self._refuse()

    def __setitem__(self, key: object, value: object) -> Never:
        raise self._refuse()

    def __iter__(self) -> Never:
        raise self._refuse()

    def __len__(self) -> Never:
        raise self._refuse()

    def __bool__(self) -> bool:
        return True

    def __contains__(self, item: object) -> Never:
        raise self._refuse()

    def __call__(self, *_: object, **__: object) -> Never:
        raise self._refuse()

    def __eq__(self, other: object) -> bool:
        if type(other) is not Opaque:
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[int, bytes]:
        return self.lastgood_code, self.lastgood_payload

    def __repr__(self) -> str:
        return f"<Opaque {self.lastgood_label}, {len(self.lastgood_payload)} bytes>"

    def __copy__(self) -> Opaque:
        return self

    def __deepcopy__(self, memo: object) -> Opaque:
        return self

    def __reduce__(self) -> tuple[type[Opaque], tuple[str, int, bytes, str]]:
        parts = (self.lastgood_label, self.lastgood_code, self.lastgood_payload)
        return Opaque, (*parts, self.lastgood_reason)


def _of_a_script(label: str) -> str:
    """What helps where the class was in the main script: to import it gives it another name."""
    module, _, name = label.partition(":")
    if module != "__main__":
        return ""
    own = name[name.partition("[")[0].rfind(".") + 1 :]
    return f'Say which class it is: lastgood.register({own}, "{label}").'


class Noticing:
    """The opaques that are made inside the block."""

    def __enter__(self) -> list[Opaque]:
        found: list[Opaque] = []
        self._token = _BORN.set(found)
        return found

    def __exit__(self, *_: object) -> None:
        _BORN.reset(self._token)


def name_places(value: object, root: str) -> None:
    """Tell every opaque inside a value where it stands, for the error that names it."""
    todo: list[tuple[object, paths.Steps]] = [(value, ())]
    seen: set[int] = set()
    while todo:
        part, steps = todo.pop()
        if type(part) is Opaque:
            _set(part, "lastgood_path", paths.render(steps, root))
        elif id(part) not in seen:
            seen.add(id(part))
            todo += [(inner, (*steps, step)) for step, inner in _parts(part)]


def _parts(part: object) -> list[tuple[object, object]]:
    if isinstance(part, dict):
        return list(part.items())
    if isinstance(part, list | tuple | deque):
        return list(enumerate(part))
    return list(getattr(part, "__dict__", {}).items())
