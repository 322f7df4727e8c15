"""What stands in a state is brought into the classes that the annotations of the bound one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional  # noqa: UP035

import attrs
import msgspec
import pydantic
import pydantic.dataclasses
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


class OldBasket(pydantic.BaseModel):
    model_config = {"extra": "allow"}
    items: list[Any] = []


@attrs.define
class OldRow:
    first: Any = None


class OldStruct(msgspec.Struct):
    first: Any = None


class Loose(pydantic.BaseModel):
    model_config = {"extra": "allow"}


@pydantic.dataclasses.dataclass
class Sized:
    size: int = pydantic.Field(0, alias="cm")


class Aliased(pydantic.BaseModel):
    deep: int = pydantic.Field(0, validation_alias=pydantic.AliasPath("sizes", 0))
    other: int = pydantic.Field(
        0, validation_alias=pydantic.AliasChoices(pydantic.AliasPath("others", 0), "o")
    )
    pair: tuple[Sized, str] | None = None
    either: Sized | str = ""


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"deep": 1, "other": 2}, {"deep": 1, "other": 2}),
        ({"sizes": [1], "o": 2}, {"deep": 1, "other": 2}),
        ({"pair": ({"size": 3}, "x")}, {"pair": ({"size": 3}, "x")}),
        ({"either": {"size": 4}}, {"either": {"size": 4}}),
    ],
)
def test_a_field_is_never_its_default_for_the_name_of_its_alias(stored: Any, expected: Any) -> None:
    found = bound(stored, Aliased)
    assert found.model_dump(include=set(expected)) == expected


def test_a_dataclass_of_pydantic_takes_its_fields_by_name() -> None:
    assert bound({"size": 3}, Sized).size == 3


@dataclass
class OldWorker:
    """It keeps something of its own, and a field behind a property."""

    name: str
    job: int = 1

    def __post_init__(self) -> None:
        self._cache: dict[str, Any] = {}

    @property  # type: ignore[no-redef]
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name


@dataclass
class Worker:
    name: str
    job: int


class StrictWorker(pydantic.BaseModel):
    model_config = {"extra": "forbid"}
    name: str
    job: int


class Chained(pydantic.BaseModel):
    a: int = pydantic.Field(0, alias="b")
    b: int = pydantic.Field(0, alias="c")


@pytest.mark.parametrize(
    ("stored", "cls", "expected"),
    [
        (OldWorker("ann", 2), Worker, Worker("ann", 2)),
        (OldWorker("ann", 2), StrictWorker, StrictWorker(name="ann", job=2)),
        (OldWorker("ann", 2), dict, {"name": "ann", "job": 2}),
        ({"a": 1}, Chained, Chained(b=1)),
        ({"a": 1, "c": 3}, Chained, Chained(b=1, c=3)),
    ],
)
def test_a_field_gets_its_own_value_and_no_other(stored: Any, cls: type, expected: Any) -> None:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    checkpointer.put_state(CONFIG, stored)
    checkpointer.bind_state_type(cls)
    assert checkpointer.get_state(CONFIG) == expected


@pytest.mark.parametrize("gone", [False, True], ids=["known", "gone"])
@pytest.mark.parametrize(
    ("stored", "cls", "expected"),
    [
        (OldBasket(more=[5]), Loose, Loose(items=[], more=[5])),  # type: ignore[call-arg]
        (OldBasket(more=[5]), dict, {"items": [], "more": [5]}),  # type: ignore[call-arg]
        (OldRow({"name": "x"}), Order, Order(Item("x"))),
        (OldStruct({"name": "x"}), Order, Order(Item("x"))),
    ],
)
def test_every_field_of_every_sort_of_record_is_taken(
    stored: Any, cls: type, expected: Any, gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer(cache_bytes=0)
    checkpointer.put_state(CONFIG, stored)
    if gone:
        monkeypatch.delitem(globals(), type(stored).__name__)
    checkpointer.bind_state_type(cls)
    assert checkpointer.get_state(CONFIG) == expected


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ([1], "stored list does not fit Order: list has no fields"),
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


def test_one_that_names_nothing_does_not_keep_the_others_from_being_made() -> None:
    """As where a class is imported for type checkers alone."""

    @dataclass
    class Local(Order):
        clock: Nowhere | None = None  # type: ignore[name-defined]  # noqa: F821

    found = bound({"items": [ITEM], "first": ITEM, "clock": ITEM}, Local)
    assert found == Local(first=Item("a"), items=[Item("a")], clock=ITEM)
