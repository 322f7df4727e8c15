"""The sentences for values that cannot be stored: what it is, where it is, what to do.

Owns the nouns and the wording; must not know how anything is encoded. Invariant: every
refusal begins with the path of the value and ends with a next step.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, MappingView

from lastgood import paths
from lastgood.errors import SerializationError
from lastgood.paths import Steps

_DROP = 'Keep it out of the state, or on_unserializable="drop".'
_AWAIT = "Write `await` before the call that gave it, or keep it out of the state."
_REGISTER = "Register the class with lastgood.register(cls, encode=..., decode=...), or drop it."
_TEXT = "Store what is needed of it, such as its text: repr(error)."
_PLAIN = (
    "Store {0}(value), which is plain, or register the class with lastgood.register(cls, "
    "encode={0}, decode=...)."
)
_LISTED = "Store list(value), which is plain."
_PATTERN = "Store its text, value.pattern, and compile it again where it is used."
_SECRET = (
    "It would be stored in the clear: keep it out of the state, or register the class with "
    "lastgood.register({0}, encode={0}.get_secret_value, decode={0})."
)
_BASES = (str, bytes, int, float, dict, list, tuple, set, frozenset)
_WHOLE = {
    _DROP: 'Keep it out; on_unserializable="drop" does not apply here, where nothing would tell.',
    _REGISTER: "Register the class with lastgood.register(cls, encode=..., decode=...).",
}
"""What to do instead where dropping is no way out."""

# Concrete classes of locks and sockets differ by platform and version; their modules do not.
_NOUNS_BY_MODULE = {
    "_thread": "a lock",
    "threading": "a threading object",
    "socket": "a socket",
    "_socket": "a socket",
    "ssl": "a socket",
    "_io": "an open file",
    "tempfile": "an open file",
    "sqlite3": "a database connection",
    "_asyncio": "an asyncio object",
    "asyncio": "an asyncio object",
    "weakref": "a weak reference",
    "logging": "a logger",
    "multiprocessing": "a multiprocessing object",
}

_NOUNS_BY_TEST: tuple[tuple[Callable[[object], bool], str], ...] = (
    (inspect.isroutine, "a function"),
    (inspect.isclass, "a class"),
    (inspect.ismodule, "a module"),
    (inspect.isgenerator, "a generator"),
    (inspect.isasyncgen, "an async generator"),
    (inspect.iscoroutine, "a coroutine"),
    (lambda value: isinstance(value, memoryview), "a memoryview"),
    (lambda value: isinstance(value, BaseException), "an exception"),
)


def refused(
    value: object, path: Steps, root: str, because: str = "", hint: str = ""
) -> SerializationError:
    """The error for a value that has no stored form; `because` overrides the description."""
    where = paths.shortened(path, root)
    what = because or f"{noun(value)} cannot be stored ({identity(value)})"
    hint = hint or _next_step(value, because)
    return SerializationError(f"{where}: {what}.", path=where, hint=hint)


def _next_step(value: object, because: str) -> str:
    if inspect.isawaitable(value):
        return _AWAIT
    if because:
        return _DROP
    if isinstance(value, BaseException):
        return _TEXT
    if _noun_of(value):
        return _DROP
    return _for_class(value)


def _for_class(value: object) -> str:
    if isinstance(value, Iterator | MappingView):
        return _LISTED
    if isinstance(value, re.Pattern):
        return _PATTERN
    if hasattr(type(value), "get_secret_value"):
        return _SECRET.format(type(value).__name__)
    base = next((each.__name__ for each in _BASES if isinstance(value, each)), "")
    if not base and isinstance(value, Mapping):
        base = "dict"
    return _PLAIN.format(base) if base else _REGISTER


def without_dropping(hint: str) -> str:
    """A hint for a part of something that is kept whole or not at all."""
    return _WHOLE.get(hint, hint)


def too_deep(path: Steps, root: str, limit: int) -> SerializationError:
    """The error for nesting beyond the limit."""
    where = paths.shortened(path, root)
    hint = "Flatten the state, or keep the inner part as a string."
    return SerializationError(
        f"{where}: values nest deeper than {limit} levels.", path=where, hint=hint
    )


def circular(path: Steps, root: str) -> SerializationError:
    """The error for a container that is reached again through itself."""
    where = paths.shortened(path, root)
    hint = "Store an id instead of the object that leads back."
    return SerializationError(f"{where} contains itself.", path=where, hint=hint)


def type_name(value: object) -> str:
    """The full name of the value's class, without `builtins`."""
    cls = type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def noun(value: object) -> str:
    """A word for what the value is, with its article."""
    return _noun_of(value) or f"a value of class {type_name(value)}"


def _noun_of(value: object) -> str:
    for test, word in _NOUNS_BY_TEST:
        if test(value):
            return word
    return _NOUNS_BY_MODULE.get(str(type(value).__module__).partition(".")[0], "")


def identity(value: object) -> str:
    """Which one it is: name and place in the source for code, the class for all else."""
    code = _code_of(value)
    if code is not None:
        file = code.co_filename.replace("\\", "/").rpartition("/")[2]
        return f"{code.co_name}, {file}:{code.co_firstlineno}"
    if inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value):
        return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", value))
    return type_name(value)


def _code_of(value: object) -> types.CodeType | None:
    if isinstance(value, types.MethodType):
        value = value.__func__
    for type_, attribute in _CODE_ATTRIBUTES:
        if isinstance(value, type_):
            code = getattr(value, attribute)
            return code if isinstance(code, types.CodeType) else None
    return None


_CODE_ATTRIBUTES: tuple[tuple[type, str], ...] = (
    (types.FunctionType, "__code__"),
    (types.GeneratorType, "gi_code"),
    (types.CoroutineType, "cr_code"),
    (types.AsyncGeneratorType, "ag_code"),
)
