"""`msgspec.UNSET`: what stands in a field of a struct that has no value.

Owns its kind; msgspec is not imported for it. Must not know bytes or the registry. Invariant: it
comes back as the very object, as code asks for it with `is`.
"""

from __future__ import annotations

import sys

from lastgood.codec.kinds import Kind, Number, Unresolved
from lastgood.codec.labels import namespace


def unset_kind(cls: type) -> Kind | None:
    """The kind of UNSET, for its class."""
    return UNSET if cls is namespace(sys.modules.get("msgspec")).get("UnsetType") else None


def _make(body: object) -> object:
    if body is not None:
        raise ValueError("UNSET has no parts")
    found = namespace(sys.modules.get("msgspec"))
    if "UNSET" not in found:
        raise Unresolved("msgspec:UNSET", "module 'msgspec' is not imported here")
    return found["UNSET"]


UNSET = Kind(Number.UNSET, "unset", lambda _: None, _make)
