"""One grammar for places inside a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import paths
from lastgood.codec import Codec
from lastgood.errors import SerializationError

steps = st.lists(st.text() | st.integers() | st.from_regex(r"[a-z_]\w*", fullmatch=True)).map(tuple)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ((), ""),
        (("items", 3, "name"), "items[3].name"),
        (("a.b",), '["a.b"]'),
        ((0, "x"), "[0].x"),
        (("", "a b", 'q"'), '[""]["a b"]["q\\""]'),
        (("a", -1), "a[-1]"),
    ],
)
def test_a_path_is_written_and_read(steps, text):
    assert paths.render(steps) == text
    assert paths.parse(text) == steps


@given(steps)
def test_what_is_rendered_parses_back(steps):
    parsed = paths.parse(paths.render(steps))
    assert parsed == steps
    assert list(map(type, parsed)) == list(map(type, steps))


@pytest.mark.parametrize(
    "text",
    [".a", "a.", "a..b", "a[", "a[x]", "a b", '["a"', "[1.5]", "3", "a.3", "[(1, 2)]", "[01"],
)
def test_anything_else_is_no_path(text):
    with pytest.raises(ValueError, match="not a path"):
        paths.parse(text)


@given(st.text())
def test_parsing_any_text_gives_a_path_or_a_value_error(text):
    try:
        found = paths.parse(text)
    except ValueError:
        return
    assert paths.parse(paths.render(found)) == found


def test_a_root_word_stands_in_front():
    assert paths.render(("items", 3, "callback"), "state") == "state.items[3].callback"
    assert paths.render(("a b",), "state") == 'state["a b"]'
    assert paths.render((), "state") == "state"


def test_other_keys_are_shown_by_their_repr():
    assert paths.render((None, (1, 2))) == "[None][(1, 2)]"


class Mute:
    def __repr__(self):
        raise RuntimeError("nothing to show")


@pytest.mark.parametrize("key", [Mute(), (1, Mute())], ids=["alone", "inside"])
def test_a_key_that_cannot_show_itself_is_told_by_its_class(key):
    where = rf"state.a\[a {type(key).__name__}\]"
    with pytest.raises(SerializationError, match=where):
        Codec().pack({"a": {key: 1}})


def test_a_long_path_is_shortened_in_the_middle():
    text = paths.shortened(tuple(range(100)), "state")
    assert text == "state[0][1][2][3][4][5] ... [94][95][96][97][98][99] (100 levels deep)"


def test_the_names_in_a_path_that_people_read():
    assert paths.names('state.items[3]["a.b"][(1, 2)].run') == ["state", "items", "a.b", "run"]
    long = paths.shortened(("first", *range(100), "last"), "state")
    assert paths.names(long) == ["state", "first", "last"]
