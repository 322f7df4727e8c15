"""The codec of one client: settings, and the ways in and out.

Owns nothing but the settings; the work is in `encoder`, `decoder` and `text`. Safe to share
between threads: each call makes its own encoder or decoder. Invariant: what `pack` or
`dumps_text` accept comes back equal and of the same type.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from lastgood.codec import refusal, text
from lastgood.codec.decoder import KINDS, Decoder, as_damage
from lastgood.codec.encoder import Encoder, Policy
from lastgood.codec.kinds import Dropped, Number, keyed_by_text
from lastgood.codec.msgpack import array_header, map_header
from lastgood.codec.registry import DEFAULT, Registry
from lastgood.errors import SerializationError

_PLAIN_MAKERS: dict[int, Any] = {
    Number.DICT: dict,
    Number.LIST: list,
    Number.STR: lambda content: content.decode(),
    Number.BYTES: bytes,
}
_HEADED = frozenset({Number.RECORD, *(kind.number for kind in KINDS.values() if kind.headed)})


class Codec:
    """Turns values into bytes or text and back, type for type."""

    def __init__(
        self,
        registry: Registry | None = None,
        *,
        strict_types: bool = False,
        on_unserializable: Policy = "raise",
        max_depth: int = 200,
    ) -> None:
        self.registry = registry if registry is not None else DEFAULT
        self.strict_types = strict_types
        self.on_unserializable: Policy = on_unserializable
        self.max_depth = max_depth
        self._shows = False

    def showing(self) -> Codec:
        """One to which a class that is not accepted is opaque, instead of an error."""
        other = copy(self)
        other._shows = True
        return other

    def encoder(self, root: str = "state", policy: Policy | None = None) -> Encoder:
        """An encoder for one save; `root` is the first word of the paths in its errors."""
        return Encoder(
            self.registry,
            root=root,
            strict_types=self.strict_types,
            policy=policy or self.on_unserializable,
            max_depth=self.max_depth,
        )

    def pack(self, value: object, root: str = "state") -> bytes:
        """The bytes of a value; `SerializationError` with the path of what cannot be stored."""
        return _kept(self.encoder(root), value, root)

    def pack_whole(self, value: object, root: str) -> bytes:
        """The bytes of a value that has no place for a loss report: nothing of it is dropped."""
        try:
            return _kept(self.encoder(root, "raise"), value, root)
        except SerializationError as error:
            error.hint = refusal.without_dropping(error.hint)
            raise

    def pack_parts(self, values: Sequence[object], root: str) -> bytes:
        """The bytes of a list of values that do not belong together: paths begin inside of each.

        Raises `SerializationError` also under the drop policy, for a value that is lost whole.
        """
        encoder = self.encoder(root)
        whole = encoder.pack_at_once(list(values))
        if whole is not None:
            return whole
        return array_header(len(values)) + b"".join(_kept(encoder, each, root) for each in values)

    def unpack(self, *pieces: bytes) -> object:
        """The value of some bytes; `SerializationError` whatever is wrong with them."""
        return self._decoder().value(*pieces)

    def unpack_array(self, count: int, body: bytes) -> list[object]:
        """The values whose encodings stand one behind the other in `body`."""
        return self._decoder().array(count, body)

    def unpack_map(self, count: int, body: bytes) -> dict[str, object]:
        """The items whose encodings stand one behind the other in `body`, keys plain text."""
        return self._decoder().map(count, body)

    def join(self, kind: int, extra: bytes, content: Any) -> object:
        """Close what `Encoder.shape` opened: the same kind and extra, the parts as values."""
        try:
            return self._joined(kind, extra, content)
        except Exception as error:
            raise as_damage(error) from None

    def dumps_text(self, value: object, *, indent: int | None = None) -> str:
        """The value as JSON text, types included."""
        return text.from_binary(self.pack(value), indent=indent)

    def loads_text(self, spelled: str) -> object:
        """The value of a text made by `dumps_text`."""
        return self.unpack(text.to_binary(spelled))

    def _decoder(self) -> Decoder:
        return Decoder(self.registry, strict_types=self.strict_types, shows=self._shows)

    def _joined(self, kind: int, extra: bytes, content: Any) -> object:
        if kind in _PLAIN_MAKERS:
            return _PLAIN_MAKERS[kind](content)
        if kind == Number.RAW:
            return self.unpack(content)
        body = _body(kind, content)
        if kind in _HEADED:
            body = [self.unpack(extra), body]
        return self._decoder().made(kind, body, lambda: self._payload(kind, extra, content))

    def _payload(self, kind: int, extra: bytes, content: Any) -> bytes:
        """What the ext of the joined value would hold, for an `Opaque` to keep."""
        parts = self.encoder().pack_items(content, ())
        header = map_header(len(parts)) if keyed_by_text(kind) else array_header(2 * len(parts))
        return b"\x92" + extra + header + b"".join(parts)


def _kept(encoder: Encoder, value: object, root: str) -> bytes:
    data = encoder.pack(value)
    if isinstance(data, Dropped):
        raise SerializationError(encoder.losses[-1].reason, path=root)
    return data


def _body(kind: int, content: Any) -> Any:
    if kind in KINDS and KINDS[kind].family.value != "map":
        return content
    if keyed_by_text(kind):
        return dict(content)
    return [part for item in content for part in item]
