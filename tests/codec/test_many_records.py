"""Many objects in one list: the bytes and types of each are those it has alone."""

import dataclasses

import pydantic
import pytest
from codec_samples import Fixed, Frozen, Pair, Point, same
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from lastgood.codec import ROW, Codec, Registry, array_header, heads, native, records
from lastgood.errors import SerializationError

codec = Codec()


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: object = 1
    b: object = 2
    c: object = 3


class Discreet(pydantic.BaseModel):
    a: int = 1
    _secret: list = pydantic.PrivateAttr(default_factory=list)


class Root(pydantic.RootModel):
    root: list[int]


def conversation(count: int) -> list:
    calls = [{"name": "look", "args": {"at": "the sea"}, "id": "c1"}]
    turn = [
        HumanMessage("What do you see?", id="1"),
        AIMessage("", tool_calls=calls, response_metadata={"model": "m"}),
        ToolMessage("water", tool_call_id="c1"),
        AIMessage("Water."),
    ]
    return [turn[index % 4].model_copy() for index in range(count)]


def one_by_one(values: list) -> bytes:
    return array_header(len(values)) + b"".join(codec.pack(value) for value in values)


LISTS = {
    "messages": conversation(3 * ROW + 1),
    "exactly a row": conversation(ROW),
    "dataclasses": [Point(index, [index]) for index in range(2 * ROW)],
    "sorts": [Point(1), Frozen("a"), Fixed(2), Pair(1, 2), Loose(), Discreet(), Root([1])] * ROW,
    "among other things": [Point(1), None, "a", {"k": (1,)}, Point(2), b"raw"] * ROW,
    "nested": [Point(1, [Point(2, Point(3, {"k": Point(4)}))])] * ROW * 2,
    "plain": [{"a": [index]} for index in range(2 * ROW)],
    "numbers": list(range(5 * ROW)),
    "bytes": [b"\xc4", {"a": b"x"}] * ROW,
}


@pytest.mark.parametrize("values", LISTS.values(), ids=LISTS)
def test_a_list_has_the_bytes_of_its_elements_and_comes_back(values):
    expected = one_by_one(values)
    for _ in range(2):  # the second time the classes are known
        assert codec.pack(values) == expected
        packed = codec.encoder().pack_each(values, ())
        assert array_header(len(packed)) + b"".join(packed) == expected
        assert codec.encoder().pack_row(values) == expected[len(array_header(len(packed))) :]
    assert same(codec.unpack(expected), values)


@pytest.mark.parametrize("part", [bytearray(b"ab"), {"k": [bytearray(b"ab")]}, (bytearray(b"c"),)])
@pytest.mark.parametrize("place", [0, ROW // 2, ROW + 1, 2 * ROW - 1])
def test_a_look_alike_among_many_comes_back_as_what_it_was(part, place):
    for make in (lambda inner: Point(1, inner), lambda inner: Loose(a=inner), lambda inner: inner):
        values: list = [make("text") for _ in range(2 * ROW)]
        values[place] = make(part)
        assert same(codec.unpack(codec.pack(values)), values)
        joined = b"".join(codec.encoder().pack_each(values, ()))
        assert same(codec.unpack_array(len(values), joined), values)


def test_a_field_that_holds_the_bytes_of_a_record_is_kept():
    record = codec.pack(Point(1, "a"))
    values = [Point(1, record), Point(2, record + record), Point(3, [record[:9], record[9:]])]
    assert codec.pack(values) == one_by_one(values)
    assert codec.encoder().pack_each(values, ()) == [codec.pack(value) for value in values]
    assert same(codec.unpack(codec.pack(values)), values)


def test_records_of_all_sizes_have_the_bytes_they_have_alone():
    sizes = [*range(heads._MAX_SIZES + 50), *range(0xFFF0 - 40, 0xFFF0 + 40)]
    registry = Registry()
    registry.register(Point, "p")  # short, so that the smallest are of a fixed length
    known = Codec(registry)
    values = [Point("", "x" * size) for size in sizes]
    expected = [known.pack(value) for value in values]
    for _ in range(2):
        assert known.encoder().pack_each(values, ()) == expected
        assert known.pack(values) == array_header(len(values)) + b"".join(expected)
    assert known.unpack(known.pack(values)) == values


@pytest.mark.parametrize(
    "odd", [None, {"a": Point(1)}, (1,), bytearray(b"b"), Frozen("f"), Loose()]
)
@pytest.mark.parametrize("place", [1, native._BATCH - 1, native._BATCH, native._BATCH + ROW + 1])
def test_something_else_late_among_many_records_is_kept(odd, place):
    values: list = [Point(index) for index in range(native._BATCH + 3 * ROW)]
    values[place] = odd
    fresh = Codec(Registry())
    for _ in range(2):
        packed = fresh.encoder().pack_each(values, ())
        assert same(fresh.unpack_array(len(values), b"".join(packed)), values)
        assert same(fresh.unpack(fresh.pack(values)), values)


def test_models_with_more_combinations_of_fields_than_are_remembered():
    names = [f"n{number}" for number in range(3 * records._MAX_HEADS)]
    models = [Loose.model_construct({"a", name}, a=1) for name in names] * 2
    packed = codec.pack(models)
    assert packed == one_by_one(models)
    restored = codec.unpack(packed)
    assert [model.model_fields_set for model in restored] == [{"a", name} for name in names] * 2


def test_a_name_that_utf8_cannot_hold_is_kept_among_many():
    models = [Loose.model_construct({"\ud800"}, a=index) for index in range(2 * ROW)]
    models[1].__pydantic_extra__["later"] = 1
    restored = codec.unpack(codec.pack(models))
    assert restored[2].model_fields_set == {"\ud800"}
    assert [model.model_extra for model in restored[:3]] == [{}, {"later": 1}, {}]
    assert same(restored, models)


def test_fields_set_extra_and_private_are_those_of_each_object():
    models = [Loose(), Loose(a=5), Loose(b=5), Loose(a=1, c=2), Loose(a=1, b=2, c=3), Loose(d=4)]
    models += [Loose.model_construct(), Discreet(), Discreet(a=2), Root([2])]
    models[7]._secret.append(7)
    for model in models * 2:
        restored = codec.unpack(codec.pack(model))
        assert restored == model
        assert restored.model_fields_set == model.model_fields_set
        assert restored.model_extra == model.model_extra
        assert vars(restored) == vars(model)
    assert codec.unpack(codec.pack([models[7]]))[0]._secret == [7]


def test_fields_that_are_set_after_a_save_count_at_the_next():
    model = Loose(a=5)
    codec.pack(model)
    model.b = 6
    assert codec.unpack(codec.pack(model)).model_fields_set == {"a", "b"}
    model.__pydantic_fields_set__.discard("a")
    assert codec.unpack(codec.pack(model)).model_fields_set == {"b"}


def test_the_path_leads_to_the_one_of_many_that_cannot_be_stored():
    values = [Point(index) for index in range(2 * ROW)]
    values[ROW + 3].y = {"lock": print}
    with pytest.raises(SerializationError) as caught:
        codec.pack(values)
    assert caught.value.path == f"state[{ROW + 3}].y.lock"
    dropping = Codec(on_unserializable="drop").encoder()
    packed = dropping.pack_each(values, ())
    assert len(packed) == len(values)
    assert [loss.path for loss in dropping.losses] == [f"state[{ROW + 3}].y.lock"]


def test_an_interrupt_while_many_are_packed_is_not_swallowed():
    class Slow:
        pass

    def interrupted(value):
        raise KeyboardInterrupt

    registry = Registry()
    registry.register(Slow, "slow", encode=interrupted, decode=Slow)
    values = [Point(1), Point(2, Slow())]
    known = Codec(registry)
    known.pack(Point(1))
    for pack in (known.pack, lambda values: known.encoder().pack_each(values, ())):
        with pytest.raises(KeyboardInterrupt):
            pack(values)


def test_an_object_that_was_never_filled_is_refused_among_many():
    values = [Loose() for _ in range(ROW)] + [Loose.__new__(Loose)]
    with pytest.raises(SerializationError, match="cannot be taken apart"):
        codec.pack(values)


def test_a_class_that_is_defined_anew_is_met_with_its_own_fields(monkeypatch):
    import codec_samples

    values = [Point(index) for index in range(2 * ROW)]
    packed = codec.pack(values)
    again = dataclasses.make_dataclass("Point", [("x", int), ("y", object), ("z", int, 9)])
    again.__module__, again.__qualname__ = Point.__module__, Point.__qualname__
    monkeypatch.setattr(codec_samples, "Point", again)
    restored = codec.unpack(packed)
    assert {type(each) for each in restored} == {again}
    assert restored[5] == again(5, None, 9)
    assert codec.unpack(codec.pack(restored)) == restored
