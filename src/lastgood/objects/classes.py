"""The classes of objects, by the names that states have for them.

Owns which imported class a name means. Must not know states. Invariant: nothing is imported, and no
class that does not derive from `Checkpointable` is found.
"""

from __future__ import annotations

from collections.abc import Mapping

from lastgood.errors import SchemaMigrationError
from lastgood.objects.fields import Stateful


def classes_named(name: str, near: Stateful) -> Mapping[str, type[Stateful]]:
    """The imported classes of a name, by their full ones; those beside an object before others."""
    found = [cls for cls in _descendants(Stateful) if cls.__name__ == name]
    beside = [cls for cls in found if cls.__module__ == type(near).__module__]
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in beside or found}


def class_named(name: str, near: Stateful) -> type[Stateful]:
    """The one class that a stored name means; one beside its owner goes before others."""
    newest = classes_named(name, near)
    if len(newest) == 1:
        return next(iter(newest.values()))
    if newest:
        raise SchemaMigrationError(
            f"the state holds a {name}, and there are several: {', '.join(sorted(newest))}.",
            hint="Rename one, or let the target have an object of the right class in its place.",
        )
    raise SchemaMigrationError(
        f"the state holds a {name}, and no class of that name that derives from Checkpointable is "
        "imported here.",
        hint="Import it before loading.",
    )


def _descendants(cls: type[Stateful]) -> list[type[Stateful]]:
    own = cls.__subclasses__()
    return [*own, *(below for each in own for below in _descendants(each))]
