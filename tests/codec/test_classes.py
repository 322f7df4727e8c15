"""Classes by their labels: found, missing, changed, registered, and never called."""

import contextlib
import copy
import dataclasses
import enum
import pickle
import subprocess
import sys
import threading
import types
from collections import Counter, OrderedDict
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Optional, TypeVar

import attrs
import msgspec
import ormsgpack
import pydantic
import pytest
from codec_samples import (
    Celsius,
    Crate,
    Derived,
    Fixed,
    Frozen,
    Order,
    Outer,
    Pair,
    Point,
    calls,
    same,
)

import lastgood
from lastgood.codec import Codec, Opaque, Registry, register
from lastgood.codec.kinds import Number
from lastgood.errors import SerializationError

T = TypeVar("T")
codec = Codec()


def stored(label: str, fields: dict, code: int = Number.RECORD) -> bytes:
    """What another process wrote for an object of a class that may not exist here."""
    head = [label] if code == Number.RECORD else label
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb([head, fields])))


@pytest.fixture
def module():
    """A module that the test may fill and take away."""
    made = types.ModuleType("vanishing")
    sys.modules["vanishing"] = made
    yield made
    sys.modules.pop("vanishing", None)


def place(module: types.ModuleType, cls: type) -> type:
    cls.__module__, cls.__qualname__ = module.__name__, cls.__name__
    setattr(module, cls.__name__, cls)
    return cls


def test_a_missing_class_gives_an_opaque_that_is_written_back_byte_for_byte(module):
    place(module, dataclasses.make_dataclass("Order", ["a"]))
    packed = codec.pack({"order": module.Order((1, {2}))})
    del sys.modules["vanishing"]
    restored = codec.unpack(packed)
    assert type(restored["order"]) is Opaque
    assert codec.pack(restored) == packed
    assert codec.pack({"order": restored["order"], 1: 2}).count(packed[7:]) == 1
    assert codec.pack(codec.loads_text(codec.dumps_text(restored))) == packed
    sys.modules["vanishing"] = module
    assert codec.unpack(codec.pack(restored))["order"] == module.Order((1, {2}))


def test_an_opaque_says_what_to_import_when_the_application_touches_it():
    opaque = codec.unpack(stored("shop:Order", {"a": 1}))
    expected = (
        "This value is a shop.Order, and module 'shop' is not imported here. "
        "Import it before restoring, or use lastgood.register."
    )
    for touch in (
        lambda: opaque.a,
        lambda: opaque["a"],
        lambda: list(opaque),
        lambda: len(opaque),
        lambda: "a" in opaque,
        lambda: opaque(),
        lambda: setattr(opaque, "a", 1),
        lambda: delattr(opaque, "a"),
        lambda: opaque.__setitem__("a", 1),
    ):
        with pytest.raises(SerializationError) as caught:
            touch()
        assert str(caught.value) == expected


def test_a_class_of_another_programs_main_script():
    data = stored("__main__:Elsewhere", {"x": 1, "y": 2})
    with pytest.raises(SerializationError) as caught:
        codec.unpack(data).x  # noqa: B018
    assert str(caught.value) == (
        "This value is a __main__.Elsewhere, and the program that saved it had this class in its "
        'main script. Say which class it is: lastgood.register(Elsewhere, "__main__:Elsewhere").'
    )
    told = Codec(Registry())
    told.registry.register(Point, "__main__:Elsewhere")
    assert told.unpack(data) == Point(1, 2)


def test_opaques_compare_hash_copy_and_show_by_content():
    one, two = (codec.unpack(stored("shop:Order", {"a": 1})) for _ in range(2))
    other = codec.unpack(stored("shop:Order", {"a": 2}))
    assert one == two
    assert one != other
    assert one != 1
    assert len({one, two, other}) == 2
    assert copy.deepcopy(one) is copy.copy(one) is one
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "<Opaque shop:Order, 17 bytes>"
    assert bool(one)
    assert not hasattr(one, "__array__")


def test_opaques_live_in_sets_and_as_keys():
    inner = stored("shop:Key", {"a": 1})
    packed = ormsgpack.packb(ormsgpack.Ext(Number.SET, b"\x91" + inner))
    restored = codec.unpack(packed)
    assert codec.pack(restored) == packed
    assert same(codec.unpack(codec.pack({next(iter(restored)): 1})), {next(iter(restored)): 1})


def test_an_opaque_made_from_pieces_equals_one_made_whole(module):
    place(module, dataclasses.make_dataclass("Order", ["a", "b"]))
    order = module.Order([1, 2], {3: 4})
    packed = codec.pack(order)
    shape = codec.encoder().shape(order)
    del sys.modules["vanishing"]
    joined = codec.join(shape.kind, shape.extra, shape.content)
    assert type(joined) is Opaque
    assert codec.pack(joined) == packed
    assert codec.encoder().shape(joined) == shape


def test_a_module_imported_later_is_found():
    packed = stored("vanishing:Order", {"a": 1})
    assert type(codec.unpack(packed)) is Opaque
    late = types.ModuleType("vanishing")
    sys.modules["vanishing"] = late
    try:
        place(late, dataclasses.make_dataclass("Order", ["a"]))
        assert codec.unpack(packed) == late.Order(1)
        place(late, dataclasses.make_dataclass("Order", ["a"]))
        assert type(codec.unpack(packed)) is late.Order
    finally:
        del sys.modules["vanishing"]


@pytest.mark.parametrize(
    "label",
    [
        "os:system",
        "builtins:eval",
        "builtins:object",
        "builtins:dict",
        "subprocess:Popen",
        "sys:modules",
        "sys:",
        "os",
        "os:path.join",
        "antigravity:fly",
        "this:s",
        "pickle:Unpickler",
        "codec_samples:Celsius",
        "codec_samples:calls",
        "codec_samples:Outer.Phase",
        "codec_samples:Point.__init__",
        "codec_samples:Point.__class__",
        "pydantic.main:BaseModel",
        "msgspec:Struct",
        ":",
        "",
        "a:b[c",
    ],
)
def test_a_label_that_names_no_data_class_is_neither_imported_nor_called(label, capfd):
    before = set(sys.modules)
    calls.clear()
    for code in (Number.RECORD, Number.CUSTOM):
        restored = codec.unpack(stored(label, {"args": "true", "0": 1}, code))
        assert type(restored) is Opaque
    if label != "codec_samples:Outer.Phase":
        member = ormsgpack.Ext(Number.ENUM, ormsgpack.packb([label, "START"]))
        assert type(codec.unpack(ormsgpack.packb(member))) is Opaque
    assert set(sys.modules) == before
    assert calls == []
    assert capfd.readouterr() == ("", "")


def test_a_lazy_module_is_not_loaded_by_looking_into_it():
    class Lazy(types.ModuleType):
        def __getattribute__(self, name):
            calls.append(name)
            return super().__getattribute__(name)

        def __getattr__(self, name):
            calls.append(name)
            return Point

    sys.modules["lazy_shop"] = Lazy("lazy_shop")
    calls.clear()
    try:
        assert type(codec.unpack(stored("lazy_shop:Order", {"a": 1}))) is Opaque
        assert calls == []
    finally:
        del sys.modules["lazy_shop"]


def test_a_stored_field_never_reaches_a_property_or_setattr(module):
    @dataclasses.dataclass
    class Guarded:
        a: int = 0

        def __setattr__(self, name, value):
            calls.append("__setattr__")

        @property
        def door(self):
            return 1

        @door.setter
        def door(self, value):
            calls.append("setter")

    place(module, Guarded)
    calls.clear()
    restored = codec.unpack(stored("vanishing:Guarded", {"a": 5, "door": 2}))
    assert calls == []
    assert vars(restored) == {"a": 5, "door": 2}


def test_a_field_added_to_the_class_gets_its_plain_default(module):
    fields = [("a", int), ("b", int, 5), ("c", list, dataclasses.field(default_factory=list))]
    fields.append(("d", int, dataclasses.field(default_factory=lambda: calls.append("factory"))))
    for slots in (False, True):
        place(module, dataclasses.make_dataclass("Order", fields, slots=slots))
        calls.clear()
        restored = codec.unpack(stored("vanishing:Order", {"a": 1}))
        assert (restored.a, restored.b, restored.c) == (1, 5, [])
        assert not hasattr(restored, "d")
        assert calls == []


def test_a_field_added_to_a_model_stands_where_the_class_has_it(module):
    """Or its JSON would differ from that of an object which was made today."""
    old = place(module, pydantic.create_model("Order", a=(int, 1), c=(int, 2)))
    packed = codec.pack(old(a=5))
    new = place(module, pydantic.create_model("Order", a=(int, 1), b=(str, "new"), c=(int, 2)))
    assert codec.unpack(packed).model_dump_json() == new(a=5).model_dump_json()


def test_a_default_that_objects_find_in_their_class_stays_there(module):
    """They are made without the field, so what came back would be other bytes than what was."""

    @dataclasses.dataclass
    class Task:
        name: str
        is_done: bool = dataclasses.field(default=False, init=False)

    @dataclasses.dataclass(init=False)
    class Usage:
        requests: int = 0
        tokens: int = 0

        def __init__(self, requests):
            self.requests = requests

    @dataclasses.dataclass(slots=True)
    class Slotted:
        name: str
        is_done: bool = dataclasses.field(default=False, init=False)

    for cls in (Task, Usage, Slotted):
        value = place(module, cls)(1)
        restored = codec.unpack(codec.pack(value))
        assert restored == value
        assert codec.pack(restored) == codec.pack(value)
    assert vars(codec.unpack(codec.pack(Task("a")))) == {"name": "a"}
    assert not codec.unpack(stored("vanishing:Task", {"name": "a"})).is_done
    assert codec.unpack(stored("vanishing:Slotted", {"name": "a"})).is_done is False


@pytest.mark.parametrize("kind", ["worker", None])
def test_a_default_that_a_subclass_replaces_is_not_put_in_its_place(module, kind):
    @dataclasses.dataclass
    class Agent:
        name: str
        kind: str = dataclasses.field(default="agent", init=False)

    cls = place(module, type("Worker", (Agent,), {"kind": kind}))
    restored = codec.unpack(codec.pack(cls("ann")))
    assert restored.kind == kind
    assert codec.pack(restored) == codec.pack(cls("ann"))


def test_a_default_that_a_class_shares_is_the_same(module):
    """Only models copy whatever can change; what stands for nothing is known by its identity."""

    @dataclasses.dataclass
    class Nothing:
        lock: Any = dataclasses.field(default_factory=threading.Lock)

    nothing = Nothing()

    @attrs.define
    class Row:
        name: str
        size: Any = nothing
        tags: Any = ["new"]  # noqa: RUF008

    class Struct(msgspec.Struct):
        name: str
        size: Any = nothing

    for cls in (Row, Struct):
        place(module, cls)
        one, two = (codec.unpack(stored(f"vanishing:{cls.__name__}", {"name": "x"})) for _ in "ab")
        assert one.size is nothing
        assert two.size is nothing
    assert codec.unpack(stored("vanishing:Row", {"name": "x"})).tags == ["new"]


def test_a_default_that_can_change_is_no_other_objects(module):
    class Settings(pydantic.BaseModel):
        tags: list = []

    class Agent(pydantic.BaseModel):
        name: str
        settings: Settings = place(module, Settings)()
        tools: list = ["search"]

    place(module, Agent)
    one, two = (codec.unpack(stored("vanishing:Agent", {"name": "x"})) for _ in range(2))
    one.settings.tags.append(1)
    one.tools.append("pay")
    assert (two.settings.tags, two.tools) == ([], ["search"])
    assert Agent(name="y").settings.tags == []


def test_a_field_added_to_a_pydantic_model_counts_as_not_set(module):
    place(module, pydantic.create_model("Order", a=(int, ...), b=(int, 5), c=(list, [])))
    restored = codec.unpack(stored("vanishing:Order", {"a": 1}))
    assert (restored.a, restored.b, restored.c) == (1, 5, [])
    assert restored.model_fields_set == {"a"}


def test_a_class_that_was_a_pydantic_model_keeps_what_it_had_beside_its_fields(module):
    class Agent(pydantic.BaseModel):
        model_config = {"extra": "allow"}
        name: str
        _private: int = 1

    packed = codec.pack(place(module, Agent)(name="x", more=2))
    place(module, dataclasses.make_dataclass("Agent", ["name"]))
    assert vars(codec.unpack(packed)) == {"name": "x", "more": 2, "_private": 1}
    for made in (
        dataclasses.make_dataclass("Agent", ["name"], slots=True),
        msgspec.defstruct("Agent", ["name"]),
        NamedTuple("Agent", [("name", str)]),
    ):
        place(module, made)
        with pytest.raises(
            SerializationError, match="no place for the stored field _private, more"
        ):
            codec.unpack(packed)


def test_what_a_pydantic_model_got_room_for_since_can_be_used(module):
    class Agent(pydantic.BaseModel):
        model_config = {"extra": "allow"}
        name: str
        _cache: dict = pydantic.PrivateAttr(default_factory=dict)
        _limit: int = 9

    place(module, Agent)
    restored = codec.unpack(stored("vanishing:Agent", {"name": "x"}))
    assert (restored._cache, restored._limit) == ({}, 9)
    assert restored == Agent(name="x")
    restored.more = 1
    assert restored.model_extra == {"more": 1}
    assert codec.unpack(codec.pack(restored)) == restored


def test_a_field_added_to_other_sorts_gets_its_default_too(module):
    place(module, attrs.make_class("A", {"a": attrs.field(), "b": attrs.field(default=5)}))
    place(module, msgspec.defstruct("S", [("a", int), ("b", int, 5), ("c", list, [])]))
    assert codec.unpack(stored("vanishing:A", {"a": 1})) == module.A(1, 5)
    assert codec.unpack(stored("vanishing:S", {"a": 1})) == module.S(1, 5, [])
    assert codec.unpack(stored("codec_samples:Pair", {"left": 1})) == Pair(1, None)


def test_a_struct_field_without_a_value_stays_unset():
    restored = codec.unpack(stored("codec_samples:Job", {"args": [1]}))
    assert restored.args == [1]
    with pytest.raises(AttributeError):
        _ = restored.name


def test_what_a_struct_has_beside_its_fields_is_stored_with_them(module):
    class Roomy(msgspec.Struct, dict=True):
        name: str

        @cached_property
        def length(self):
            return len(self.name)

    value = place(module, Roomy)("x")
    value.note = ["beside"]
    assert value.length == 1
    restored = codec.unpack(codec.pack(value))
    assert (restored.name, vars(restored)) == ("x", {"note": ["beside"]})


def test_a_field_taken_from_the_class_stays_on_the_object_if_it_has_room():
    assert vars(codec.unpack(stored("codec_samples:Point", {"x": 1, "old": 2})))["old"] == 2


@pytest.mark.parametrize("label", ["Frozen", "Fixed", "Job", "Pair"])
def test_a_field_taken_from_a_class_without_room_is_an_error_that_names_it(label):
    with pytest.raises(SerializationError, match="no place for the stored field old"):
        codec.unpack(stored(f"codec_samples:{label}", {"old": 1}))


def test_an_enum_member_that_is_gone_is_opaque():
    packed = ormsgpack.packb(
        ormsgpack.Ext(Number.ENUM, ormsgpack.packb(["codec_samples:Outer.Phase", "MIDDLE"]))
    )
    restored = codec.unpack(packed)
    assert type(restored) is Opaque
    assert codec.pack(restored) == packed


def test_what_is_said_of_it_is_what_helps(module):
    phase = place(module, enum.Enum("Phase", {"NEW": 1, "OLD": 2}))
    packed = codec.pack({"phase": phase.NEW})
    place(module, enum.Enum("Phase", {"OLD": 2}))
    found = codec.unpack(packed)["phase"]
    with pytest.raises(SerializationError, match="has no member 'NEW'") as caught:
        found.value  # noqa: B018
    assert "that saved it has that member" in caught.value.hint


@pytest.mark.parametrize(("base", "listed", "value"), [(str, "a", "b"), (int, 1, 7)])
def test_a_member_that_an_open_enum_made_for_a_value_comes_back(module, base, listed, value):
    """As the enums of google-genai do for what a newer server says."""

    def missing(cls, value):
        calls.append("missing")
        made = base.__new__(cls, value)
        made._name_, made._value_ = "OPEN", value
        return made

    def ended(**more):
        made = enum.Enum("Ended", {"LISTED": listed, **more}, type=base, module=module.__name__)
        made._missing_ = classmethod(missing)
        return place(module, made)

    member = ended()(value)
    packed = codec.pack(member)
    calls.clear()
    for found in (codec.unpack(packed), codec.loads_text(codec.dumps_text(member))):
        assert (type(found), found, found.name, found.value) == (type(member), value, "OPEN", value)
    newer = ended(KNOWN=value)
    assert codec.unpack(packed) is newer.KNOWN
    assert calls == []


def test_an_object_of_an_enum_that_could_only_be_looked_up_by_name_is_refused(module):
    ended = place(module, enum.Enum("Ended", "A"))
    made = object.__new__(ended)
    made._name_, made._value_ = "A", 2
    with pytest.raises(SerializationError, match=r"state\.x: a Ended that is none of its members"):
        codec.pack({"x": made})
    for key in (["B"], ["B", 2], ["B", "x"], [1, "x"], [["x"], {}]):
        with contextlib.suppress(SerializationError):
            assert type(codec.unpack(stored("vanishing:Ended", key, Number.ENUM))) is Opaque


def test_flags_are_combined_without_code_of_their_class(module):
    class Access(enum.Flag):
        READ = 1
        WRITE = 2

        @classmethod
        def _missing_(cls, value):
            calls.append("_missing_")
            return super()._missing_(value)

    place(module, Access)
    calls.clear()
    body = ormsgpack.packb(["vanishing:Access", 3])
    restored = codec.unpack(ormsgpack.packb(ormsgpack.Ext(Number.ENUM, body)))
    assert calls == []
    assert restored is Access.READ | Access.WRITE


def test_a_cached_property_is_computed_again_and_not_stored():
    derived = Derived(1.5)
    assert derived.double == 3
    restored = codec.unpack(codec.pack(derived))
    assert "double" not in vars(restored)
    assert restored.double == 3
    assert restored.area == derived.area


@pytest.mark.parametrize("default", [{}, {"area": 0}], ids=["bare", "default"])
@pytest.mark.parametrize("make", [dataclasses.dataclass, attrs.define(slots=False)])
def test_a_field_in_the_place_of_a_cached_property_is_stored(module, make, default):
    class Computed:
        @cached_property
        def area(self):
            return 0

    stated = type("Stated", (Computed,), {"__annotations__": {"area": int}, **default})
    value = place(module, make(stated))(area=7)
    assert codec.unpack(codec.pack(value)).area == 7


def test_what_typing_notes_on_an_object_is_not_stored():
    """`Crate[int](1)` has an `__orig_class__`, which is no field."""
    made = Crate[int]([1, Crate[str]("x")])
    assert "__orig_class__" in vars(made)
    assert codec.pack(made) == codec.pack(Crate([1, Crate("x")]))
    found = codec.unpack(codec.pack(made))
    assert found == made
    assert vars(found) == {"content": [1, Crate("x")]}
    assert codec.pack([made] * 40) == codec.pack([Crate([1, Crate("x")])] * 40)
    assert "__orig_class__" in vars(made)


class Couple(NamedTuple, Generic[T]):
    left: T


class Wider(Couple[T], Generic[T]):
    """It has a `__dict__`, as it names no slots."""

    @cached_property
    def right(self):
        return self.left


@pytest.mark.parametrize(
    "value",
    [
        Counter[str]("abca"),
        Counter[int]({1: 2}),
        OrderedDict[str, int](a=1),
        OrderedDict[int, int]({1: 1}),
        Wider[int](1),
    ],
    ids=repr,
)
def test_what_typing_notes_on_a_container_hinders_no_save(value):
    assert "__orig_class__" in vars(value)
    assert getattr(value, "right", 1) == 1  # kept on the object from here on
    found = codec.unpack(codec.pack([value]))[0]
    assert (type(found), found) == (type(value), value)
    assert not vars(found)


def test_strict_types_accept_registered_classes_only():
    strict = Codec(Registry([Point]), strict_types=True)
    assert strict.unpack(strict.pack(Point(1, (2,)))) == Point(1, (2,))
    with pytest.raises(SerializationError, match="codec_samples:Frozen: it is not registered"):
        strict.unpack(codec.pack([Frozen("a")]))
    with pytest.raises(SerializationError, match=r"Outer\.Phase: it is not registered"):
        strict.unpack(codec.pack([Outer.Phase.END]))
    with pytest.raises(SerializationError, match="Frozen cannot be stored"):
        strict.pack(Frozen("a"))
    codec.pack(Frozen("a"))
    with pytest.raises(SerializationError, match="Frozen cannot be stored") as refused:
        strict.pack(Frozen("a"))
    assert refused.value.hint == "Register the class, or add it to the allowlist."
    with pytest.raises(SerializationError, match="object cannot be stored") as refused:
        strict.pack(object())
    assert "encode=" in refused.value.hint


def called_alike(module: types.ModuleType) -> tuple[type, type]:
    """Two classes of one name; the second is known to the module by another one."""
    module.Deep = place(module, dataclasses.make_dataclass("Point", ["x", "y", ("z", int, 0)]))
    return place(module, dataclasses.make_dataclass("Point", ["x", "y"])), module.Deep


class Box(pydantic.BaseModel, Generic[T]):
    held: T


def test_a_class_whose_name_leads_to_another_one_is_refused(module):
    """What is called alike and is there beside it would come back in its place."""
    flat, deep = called_alike(module)
    one, two = (Box[pydantic.create_model("Item", n=(int, n))] for n in (1, 2))
    assert one.__qualname__ == two.__qualname__
    for value in (flat(1, 2), two.model_construct(held=1)):
        assert type(codec.unpack(codec.pack(value))) is type(value)
    for value in (deep(1, 2, 3), one.model_construct(held=1)):
        with pytest.raises(SerializationError, match="cannot be found again by its name") as caught:
            codec.pack({"x": value})
        assert caught.value.path == "state.x"


class Shelf:
    class Tray(pydantic.BaseModel, Generic[T]):
        held: T


def test_a_parametrised_model_is_called_by_the_place_of_the_generic_one(module):
    """Pydantic puts it into the module that names it first: another one in another process."""
    module.Generic = Box
    exec("Named = Generic[complex]", vars(module))
    packed = codec.pack(module.Named(held=1j))
    del sys.modules["vanishing"]
    assert codec.unpack(packed) == Box[complex](held=1j)
    for value in (Shelf.Tray[int](held=1), Shelf.Tray[Shelf.Tray[str]](held={"held": "x"})):
        assert same(codec.unpack(codec.pack(value)), value)


def test_parametrised_models_are_told_apart_by_the_modules_of_their_parameters(module):
    """Both are called `Box[Point]`, and which of them was made last differs by process."""
    mine, other = Box[Point], Box[place(module, pydantic.create_model("Point", n=(int, 1)))]
    assert mine.__qualname__ == other.__qualname__
    for value in (mine.model_construct(held=1), other.model_construct(held=2)):
        assert same(codec.unpack(codec.pack(value)), value)


HOLDERS = {
    "list": lambda item: list[item],
    "dict of tuples": lambda item: dict[str, tuple[item, ...]],
    "union": lambda item: item | None,
    "optional": lambda item: Optional[item],  # noqa: UP045
    "beside a literal": lambda item: dict[Literal["a", 1], item],
    "another generic": lambda item: list[Box[item]],
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_so_they_are_where_a_parameter_holds_a_class(module, holder):
    """Which one was made last makes no difference to what is saved or restored."""
    items = [Point, place(module, pydantic.create_model("Point", n=(int, 1)))]
    boxes = [Box[HOLDERS[holder](item)] for item in items]
    assert boxes[0].__qualname__ == boxes[1].__qualname__
    for box in boxes:
        assert type(codec.unpack(codec.pack(box.model_construct(held=None)))) is box


def test_a_short_name_that_two_of_them_have_is_not_guessed_at(module):
    for item in (Point, place(module, pydantic.create_model("Point", n=(int, 1)))):
        assert Box[set[item]].__name__ == "Box[set[Point]]"
    vars(sys.modules[__name__]).pop("Box[set[Point]]", None)
    assert type(codec.unpack(stored(f"{__name__}:Box[set[Point]]", {}))) is Opaque


def test_a_parametrised_model_that_nothing_has_named_here_is_told():
    found = codec.unpack(stored(f"{__name__}:Box[Unnamed]", {"held": 1}))
    with pytest.raises(SerializationError, match=r"nothing has named Box\[Unnamed\] here yet"):
        found.held  # noqa: B018
    assert type(codec.unpack(stored(f"{__name__}:Boxes[int]", {}))) is Opaque


def test_a_class_that_was_defined_again_is_stored_by_its_name(module):
    """Its module was loaded again, or its cell run again, while objects of it are in use."""
    old, new = (place(module, dataclasses.make_dataclass("Note", ["n"])) for _ in range(2))
    module._3 = old  # as a notebook keeps what it has shown
    assert codec.unpack(codec.pack(old(1))) == new(1)


def test_so_it_is_as_an_argument_of_a_parametrised_model(module):
    boxes = []
    for _ in range(2):
        item = place(module, pydantic.create_model("Item", n=(int, 1)))
        boxes.append(Box[item](held=item(n=2)))
    for box in boxes:
        found = codec.unpack(codec.pack(box))
        assert (type(found), found.held.n) == (type(boxes[1]), 2)


def test_a_registered_name_replaces_the_label_and_old_labels_still_read():
    named = Codec(Registry())
    named.registry.register(Point, "shop.point")
    packed = named.pack(Point(1))
    assert b"shop.point" in packed
    assert b"codec_samples" not in packed
    assert named.unpack(packed) == Point(1)
    assert named.unpack(codec.pack(Point(1))) == Point(1)
    assert type(codec.unpack(packed)) is Opaque


def test_a_registered_name_takes_nothing_from_another_class(module):
    """That is called as the registered one would be without its name."""
    flat, deep = called_alike(module)
    before = Codec().pack(flat(1, 2))
    named = Codec(Registry())
    named.registry.register(deep, "deep")
    for value in (flat(1, 2), deep(1, 2, 3)):
        found = named.unpack(named.pack(value))
        assert (type(found), found) == (type(value), value)
    assert type(named.unpack(before)) is flat


def test_a_class_that_moved_is_read_under_its_old_label():
    moved = Codec(Registry())
    moved.registry.register(Point, "old_shop:Point")
    assert moved.unpack(stored("old_shop:Point", {"x": 1})) == Point(1)


def test_a_local_class_can_be_stored_once_it_is_registered():
    @dataclasses.dataclass
    class Local:
        a: int

    local = Codec(Registry([Local]))
    assert local.unpack(local.pack(Local(1))) == Local(1)


def test_functions_make_any_class_storable():
    custom = Codec(Registry())
    custom.registry.register(
        Celsius, "celsius", encode=lambda c: (c.degrees,), decode=lambda v: Celsius(*v)
    )
    value = {"t": Celsius(21.5), Celsius(1): [Celsius(2)]}
    assert custom.unpack(custom.pack(value)) == value
    assert custom.loads_text(custom.dumps_text(value)) == value
    opaque = codec.unpack(custom.pack([Celsius(1)]))[0]
    with pytest.raises(SerializationError, match="no decode function is registered for it"):
        opaque.degrees  # noqa: B018


def test_a_failing_encode_function_is_told_with_the_path():
    custom = Codec(Registry())
    custom.registry.register(Celsius, encode=lambda c: 1 / 0, decode=Celsius)
    with pytest.raises(SerializationError, match=r"state\.t: .*ZeroDivisionError"):
        custom.pack({"t": Celsius(1)})


def test_a_failing_decode_function_is_a_serialization_error():
    custom = Codec(Registry())
    custom.registry.register(Celsius, encode=lambda c: 1, decode=lambda v: 1 / 0)
    with pytest.raises(SerializationError, match="division by zero"):
        custom.unpack(custom.pack([Celsius(1)]))


@pytest.mark.parametrize("read", ["unpack", "loads_text"])
def test_a_failing_decode_function_is_told_by_its_name(read):
    custom = Codec(Registry())
    register = custom.registry.register
    register(Celsius, "celsius", encode=lambda c: {}, decode=lambda v: v["degrees"])
    write = {"unpack": custom.pack, "loads_text": custom.dumps_text}[read]
    with pytest.raises(SerializationError, match=r"for celsius failed: KeyError\('deg") as caught:
        getattr(custom, read)(write({"t": [Celsius(1)]}))
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_cannot_be_registered_is_told_at_once():
    registry = Registry()
    for given in (3, None, Point(1, 2)):
        with pytest.raises(TypeError, match="what is registered is a class, not "):
            registry.register(given)
    with pytest.raises(TypeError, match="encode must be a function, not int"):
        registry.register(Celsius, encode=3, decode=Celsius)
    with pytest.raises(TypeError, match="decode must be a function, not str"):
        registry.register(Celsius, encode=str, decode="Celsius")
    assert registry.kind_of(Celsius) is None


def test_one_name_means_one_class():
    registry = Registry()
    registry.register(Point, "p")
    registry.register(Point, "p")
    with pytest.raises(ValueError, match="'p' is already the name of Point"):
        registry.register(Frozen, "p")
    with pytest.raises(ValueError, match="belong together"):
        registry.register(Frozen, "f", encode=str)
    with pytest.raises(ValueError, match="is not a data class"):
        registry.register(Celsius, "c")


def test_a_class_that_is_defined_again_takes_its_own_place(module):
    """As when a module is reloaded, or a cell of a notebook run again."""
    registry = Registry()
    reading = Codec(registry)
    fields = [["a"], ["a", ("b", int, 2)]]
    old, new = (place(module, dataclasses.make_dataclass("Invoice", each)) for each in fields)
    registry.register(old)
    packed = [reading.pack(old(1))]
    registry.register(old, "invoice")
    packed.append(reading.pack(old(1)))
    registry.register(new, "invoice")
    packed.append(reading.pack(old(1)))
    assert [reading.unpack(each) for each in packed] == [new(1)] * 3


def test_classes_of_one_function_do_not_take_each_others_names():
    def made():
        class Invoice(Point):
            pass

        return Invoice

    registry = Registry()
    registry.register(made(), "invoice")
    with pytest.raises(ValueError, match="'invoice' is already the name of"):
        registry.register(made(), "invoice")


def test_register_is_a_decorator_in_three_ways_for_the_whole_process():
    @register
    @dataclasses.dataclass
    class One:
        a: int

    @register("test.two")
    @dataclasses.dataclass
    class Two:
        a: int

    class Three:
        pass

    register(Three, "test.three", encode=lambda _: None, decode=lambda _: Three())
    strict = Codec(Registry(), strict_types=True)
    assert strict.unpack(strict.pack([One(1), Two(2)])) == [One(1), Two(2)]
    assert type(codec.unpack(codec.pack([Three()]))[0]) is Three


def test_registering_after_the_first_save_takes_effect():
    registry = Registry()
    late = Codec(registry)
    late.pack(Fixed(1))
    registry.register(Fixed, "fixed")
    assert b"codec_samples" not in late.pack(Fixed(1))


@pytest.mark.scenario("S01")
def test_a_nested_enum_in_a_model_comes_back_in_a_fresh_process():
    packed = codec.pack(Order(id=1, phase=Outer.Phase.END))
    script = (
        "import codec_samples as s; from lastgood.codec import Codec;"
        f"order = Codec().unpack(bytes.fromhex('{packed.hex()}'));"
        "assert type(order) is s.Order and order.phase is s.Outer.Phase.END"
    )
    _run(script)


def test_a_class_of_the_main_module_comes_back_in_the_main_module():
    _run(
        "import dataclasses; from lastgood.codec import Codec\n"
        "@dataclasses.dataclass\nclass P:\n    a: int\n"
        "assert Codec().unpack(Codec().pack(P(1))) == P(1)"
    )


def test_importing_the_codec_imports_no_third_party_module_but_ormsgpack():
    _run(
        "import sys; before = set(sys.modules); import lastgood.codec\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "own = {n for n in new if not n.startswith('_sysconfigdata')}\n"
        "assert own - set(sys.stdlib_module_names) <= {'lastgood', 'ormsgpack'}"
    )


def _run(script: str) -> None:
    here, source = Path(__file__).parent, Path(next(iter(lastgood.__path__))).parent
    paths = f"import sys; sys.path[:0] = [{str(here)!r}, {str(source)!r}]\n"
    subprocess.run([sys.executable, "-c", paths + script], check=True)


@dataclasses.dataclass
class Account:
    """A field that a property keeps under another name: its default is the property."""

    balance: int

    @property
    def balance(self):
        return self._cents / 100

    @balance.setter
    def balance(self, value):
        self._cents = 100 * value


def test_a_field_that_a_property_keeps_is_no_attribute_beside_it():
    packed = codec.pack([Account(3)])
    found = codec.unpack(packed)
    assert (vars(found[0]), found[0].balance) == ({"_cents": 300}, 3)
    assert codec.pack(found) == packed


@attrs.frozen(cache_hash=True)
class Slug:
    text: str


@attrs.frozen(cache_hash=True, slots=False)
class OpenSlug:
    text: str


@pytest.mark.parametrize("cls", [Slug, OpenSlug])
def test_a_hash_that_attrs_keeps_is_not_stored(cls):
    """It can be told in this process only, and is there from the first use as a key."""
    fresh, used = cls("a"), cls("a")
    assert {used: 1}[fresh] == 1
    packed = codec.pack([used, {used: 1}])
    found, keyed = codec.unpack(packed)
    assert (found, keyed) == (fresh, {fresh: 1})
    assert codec.pack([found, keyed]) == packed
    assert codec.pack([cls("a")]) == codec.pack([used])


class Cell(pydantic.BaseModel):
    __slots__ = ("note",)
    n: int = 1


def test_a_model_with_values_in_slots_of_its_own_is_refused():
    assert codec.unpack(codec.pack([Cell()] * 40)) == [Cell()] * 40
    noted = Cell()
    object.__setattr__(noted, "note", 5)
    for state in ({"a": noted}, {"a": [noted] * 40}):
        with pytest.raises(SerializationError, match="values in slots of its own") as caught:
            codec.pack(state)
        assert caught.value.path.startswith("state.a")


@pytest.mark.parametrize("name", ["\ud800", 5])
def test_an_attribute_whose_name_is_no_plain_text_is_refused_with_its_path(name):
    odd = Point(1, "x" * 5000)
    vars(odd)[name] = 2
    with pytest.raises(SerializationError, match="whose name is not text") as caught:
        codec.pack({"a": [odd]})
    assert caught.value.path == "state.a[0]"
    with pytest.raises(SerializationError, match="whose name is not text"):
        codec.encoder().shape(odd)
    dropping = codec.encoder(policy="drop")
    assert codec.unpack(dropping.pack({"a": [odd], "b": 1})) == {"a": [], "b": 1}
    assert [loss.path for loss in dropping.losses] == ["state.a[0]"]


def test_a_class_that_a_function_made_under_the_name_of_another_one_is_refused(module):
    """It would come back as that: as another member of another enum, or with fields it lacks."""
    module.Status = place(module, enum.Enum("Status", {"OPEN": 1, "DONE": 2}))
    module.Item = place(module, dataclasses.make_dataclass("Item", ["n"]))
    module.Row = place(module, NamedTuple("Row", [("a", int)]))
    module.Job = place(module, msgspec.defstruct("Job", [("a", int)]))
    made = [
        enum.Enum("Status", {"OPEN": 2, "WAITING": 1}, module="vanishing").OPEN,
        dataclasses.make_dataclass("Item", ["m"])(1),
        pydantic.create_model("Item", n=(int, 1))(),
        NamedTuple("Row", [("a", int), ("b", int)])(1, 2),
        msgspec.defstruct("Job", [("b", int)])(1),
    ]
    for value in made:
        type(value).__module__, type(value).__qualname__ = "vanishing", type(value).__name__
        with pytest.raises(SerializationError, match="cannot be found again by its name") as caught:
            codec.pack({"x": value})
        assert caught.value.path == "state.x"
