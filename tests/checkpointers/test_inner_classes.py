"""What stands in a state is brought into the classes that the annotations of the bound one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional  # noqa: UP035

import pydantic
import pytest

from lastgood import Opaque, SerializationError
from lastgood.checkpointers import InMemoryCheckpointer

CONFIG = {"thread_id": "t"}


@dataclass
class Item:
    name: str
    parts: list[Item] = field(default_factory=list)


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName")
    age: int = 0


@dataclass
class Order:
    first: Item | None = None
    items: list[Item] = field(default_factory=list)
    by_name: dict[str, Item] = field(default_factory=dict)
    pair: tuple[Item, ...] = ()
    rows: Sequence[dict[str, Optional[Item]]] = ()  # noqa: UP045
    buyer: Person | None = None
    either: Item | Person | None = None
    anything: Any = None
    mixed: tuple[Item, int] | None = None
    bare: Dict | None = None  # type: ignore[type-arg] # noqa: UP006
    plain: List | None = None  # type: ignore[type-arg] # noqa: UP006


class Basket(pydantic.BaseModel):
    items: list[Item] = []
    people: dict[str, Person] = {}
    anything: Any = None


@dataclass
class OldItem:
    name: str
    parts: list[Any] = field(default_factory=list)
    colour: str = "red"


class OldPerson(pydantic.BaseModel):
    name: str
    age: int = 0


@dataclass
class OldOrder:
    first: OldItem
    items: list[OldItem]
    buyer: OldPerson


def bound(state: Any, cls: type) -> Any:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    checkpointer.put_state(CONFIG, state)
    checkpointer.bind_state_type(cls)
    return checkpointer.get_state(CONFIG)


ITEM = {"name": "a"}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"first": ITEM}, Order(first=Item("a"))),
        ({"items": [ITEM, Item("b")]}, Order(items=[Item("a"), Item("b")])),
        ({"items": [{"name": "a", "parts": [ITEM]}]}, Order(items=[Item("a", [Item("a")])])),
        ({"by_name": {"x": ITEM}}, Order(by_name={"x": Item("a")})),
        ({"pair": (ITEM, ITEM)}, Order(pair=(Item("a"), Item("a")))),
        ({"rows": [{"x": ITEM, "y": None}]}, Order(rows=[{"x": Item("a"), "y": None}])),
        ({"buyer": {"name": "Ann"}}, Order(buyer=Person(fullName="Ann"))),
        ({"buyer": {"fullName": "Ann", "age": "7"}}, Order(buyer=Person(fullName="Ann", age=7))),
        ({"first": OldItem("a", [ITEM])}, Order(first=Item("a", [Item("a")]))),
        ({"buyer": OldPerson(name="Ann")}, Order(buyer=Person(fullName="Ann"))),
    ],
)
def test_a_dataclass_gets_what_it_is_annotated_with(stored: Any, expected: Order) -> None:
    assert bound(stored, Order) == expected


@pytest.mark.parametrize(
    "stored",
    [
        {"first": None},
        {"first": "no item"},
        {"items": ("a", 1)},
        {"anything": ITEM},
        {"either": ITEM},
        {"mixed": (ITEM, 1)},
        {"items": {"x": 1}},
        {"bare": {"x": ITEM}},
        {"plain": [ITEM]},
    ],
)
def test_what_no_single_class_is_named_for_stays_as_it_is(stored: dict[str, Any]) -> None:
    found = bound(stored, Order)
    assert {name: getattr(found, name) for name in stored} == stored


def test_a_model_validates_what_it_is_annotated_with() -> None:
    stored = {
        "items": [OldItem("a"), ITEM],
        "people": {"x": OldPerson(name="Ann", age=3), "y": {"name": "Bob", "age": "4"}},
        "anything": OldItem("z"),
    }
    found = bound(stored, Basket)
    assert found.items == [Item("a"), Item("a")]
    assert found.people["x"] == Person(fullName="Ann", age=3)
    assert found.people["y"] == Person(fullName="Bob", age=4)
    assert found.anything == OldItem("z")


def test_classes_that_are_gone_inside_and_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a module has moved: all of its classes have other names."""
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer(cache_bytes=0)
    old = OldOrder(OldItem("a"), [OldItem("b")], OldPerson(name="Ann"))
    checkpointer.put_state(CONFIG, old)
    for cls in (OldOrder, OldItem, OldPerson):
        monkeypatch.delitem(globals(), cls.__name__)
    assert isinstance(checkpointer.get_state(CONFIG), Opaque)
    checkpointer.bind_state_type(Order)
    expected = Order(Item("a"), [Item("b")], buyer=Person(fullName="Ann"))
    assert checkpointer.get_state(CONFIG) == expected


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (
            {"items": [ITEM, {"colour": "red"}]},
            r"Order: state\.items\[1\]: Item\.__init__\(\) miss",
        ),
        ({"buyer": {"age": "old"}}, r"state\.buyer\.fullName: Field required; state\.buyer\.age: "),
    ],
)
def test_the_place_of_what_does_not_fit_is_named(stored: Any, told: str) -> None:
    with pytest.raises(SerializationError, match=told):
        bound(stored, Order)


def test_annotations_that_name_nothing_are_left_alone() -> None:
    @dataclass
    class Local:
        items: list[Nowhere]  # type: ignore[name-defined]  # noqa: F821

    assert bound({"items": [ITEM]}, Local).items == [ITEM]
