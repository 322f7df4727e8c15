"""The difference between two states, as a value that can be read, applied and passed on.

Owns `Diff`; finding edits is `diffing` and `comparing`, the rest is done by the modules that each
method names. The one invariant: `diff(a, b).patch(a)` equals b, type for type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from lastgood.changes import Change, changes_of
from lastgood.codec import Codec, Noticing, name_places
from lastgood.diffing import compare
from lastgood.edits import Edit
from lastgood.json_patch import json_patch
from lastgood.patching import patched
from lastgood.summaries import summary


@dataclass(frozen=True, slots=True, eq=False)
class Diff:
    """What turns one state into another: a sequence of changes that happen at once.

    A diff counts as false if the states are equal. Two values are equal if their encodings are: 1,
    1.0 and True differ, NaN equals NaN, and the order of a dict's keys does not matter.
    """

    changes: tuple[Change, ...]
    """The changes, in the order in which they are shown."""
    _edit: Edit | None = field(repr=False)
    _codec: Codec = field(repr=False)

    @classmethod
    def between(cls, old: object, new: object, *, codec: Codec | None = None) -> Self:
        """Return the difference between two values.

        Raises SerializationError for a value that the codec cannot encode.
        """
        codec = codec or Codec()
        return cls.of(codec, compare(codec.pack(old, "old"), codec.pack(new, "new")))

    @classmethod
    def of(cls, codec: Codec, edit: Edit | None) -> Self:
        """The diff of an edit; decodes what it names."""
        return cls(changes_of(codec, edit), edit, codec)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __eq__(self, other: object) -> bool:
        return self._edit == other._edit if isinstance(other, Diff) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._edit)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes))

    def patch(self, state: object) -> Any:
        """Return the new state, made from the old one, which stays as it is.

        Raises ValueError with the path of a place at which `state` is not the one that the diff
        starts from.
        """
        data = self._codec.pack(state)
        if self._edit is not None:
            data = patched(self._codec, data, self._edit)
        with Noticing() as opaques:
            value = self._codec.unpack(data)
        if opaques:
            name_places(value, "state")
        return value

    def to_json_patch(self) -> list[dict[str, Any]]:
        """Return the same as a JSON Patch (RFC 6902), whose operations happen one after the other.

        Raises TypeError, with the path, for a value that JSON cannot express.
        """
        return json_patch(self._codec, self._edit)

    def summary(self) -> str:
        """Return one line of prose, such as "2 messages added, plan changed"."""
        return summary(self._codec, self._edit)
