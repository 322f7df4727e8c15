"""Fields that a class sets itself, through properties and other descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lastgood import Checkpointable, CheckpointManager


class Rod(Checkpointable):
    """Its setter looks at another field."""

    def __init__(self, unit: str = "m", length: float = 1.0) -> None:
        self.unit = unit
        self.length = length

    def _checkpoint_fields(self) -> list[str]:
        return ["length", "unit"]

    @property
    def length(self) -> float:
        return self._metres if self.unit == "m" else self._metres * 100

    @length.setter
    def length(self, value: float) -> None:
        self._metres = value if self.unit == "m" else value / 100


class Cents:
    """Takes euros, keeps cents, under its own name in the object."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, value: Any, cls: type | None = None) -> Any:
        return self if value is None else value.__dict__[self.name] / 100

    def __set__(self, value: Any, euros: float) -> None:
        value.__dict__[self.name] = round(euros * 100)


class Account(Checkpointable):
    balance = Cents()

    def __init__(self, balance: float = 5.0) -> None:
        self.balance = balance


class Named(Account):
    def _checkpoint_fields(self) -> list[str]:
        return ["balance"]


class Holder(Checkpointable):
    def __init__(self, inner: Any = None) -> None:
        self.inner = inner


def through_a_store(value: Any) -> Any:
    manager = CheckpointManager()
    manager.save("k", value)
    return manager.load("k", type(value)())


def in_a_new_object(value: Any) -> Any:
    return through_a_store(Holder(value)).inner


def through_a_rollback(value: Any) -> Any:
    with pytest.raises(RuntimeError), CheckpointManager().rollback_context("k", value):
        raise RuntimeError
    return value


def by_cloning(value: Any) -> Any:
    return value.clone()


Way = Callable[[Any], Any]


@pytest.mark.parametrize("way", [through_a_store, in_a_new_object, through_a_rollback, by_cloning])
class TestEveryWay:
    def test_a_setter_finds_the_other_fields_written(self, way: Way) -> None:
        found = way(Rod("cm", 250))
        assert (found.unit, found.length, found._metres) == ("cm", 250, 2.5)

    @pytest.mark.parametrize("make", [Account, Named])
    def test_what_was_read_past_a_descriptor_is_written_past_it(
        self, way: Way, make: type[Account]
    ) -> None:
        assert way(make(7.5)).balance == 7.5


def test_a_field_that_has_become_a_property_is_set_through_it() -> None:
    class Renamed(Checkpointable):
        def __init__(self) -> None:
            self._inside = 0

        @property
        def outside(self) -> int:
            return self._inside

        @outside.setter
        def outside(self, value: int) -> None:
            self._inside = value

    found = Renamed()
    found.load_state_dict({"outside": 3})
    assert vars(found) == {"_inside": 3}


class ByClass(Checkpointable):
    """Sets what its property shows in a way of its own."""

    def __init__(self, x: int = 0) -> None:
        self.x = x

    @property
    def x(self) -> int:
        return self._x

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__("_x" if name == "x" else name, value)

    def _checkpoint_fields(self) -> list[str]:
        return ["x"]


class _Shown(property):
    def __set__(self, value: Any, item: object) -> None:
        value.__dict__["_x"] = item


class ByDescriptor(Checkpointable):
    def __init__(self, x: int = 0) -> None:
        self._x = x

    x = _Shown(lambda self: self._x)

    def _checkpoint_fields(self) -> list[str]:
        return ["x"]


@pytest.mark.parametrize("cls", [ByClass, ByDescriptor])
def test_a_property_may_be_set_by_other_code_than_its_setter(cls: Any) -> None:
    target = cls()
    target.load_state_dict(cls(7).state_dict())
    assert (target.x, cls(7).clone().x) == (7, 7)
