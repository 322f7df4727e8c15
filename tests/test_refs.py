"""The grammar of refs: what is written is what is read, and what is no ref says why."""

from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lastgood import refs
from lastgood.ids import read_id
from lastgood.refs import Address

names = st.text(
    st.one_of(st.sampled_from("@/%~:-2F40aé"), st.characters(exclude_categories=("C", "Z"))),
    min_size=1,
    max_size=20,
)
numbers = st.integers(0, 10**9 - 1)
selected = st.one_of(
    st.just(("head", "")),
    st.tuples(st.sampled_from(["back", "seq", "step"]), numbers),
    st.tuples(st.sampled_from(["tag", "branch"]), names),
)


@given(names, st.none() | names, selected)
@example("a@b", "c/d", ("tag", "v@1"))
@example("100%25", "%40", ("branch", "x@y%40/z"))
def test_an_address_reads_back_as_it_was_written(
    thread: str, agent: str | None, selection: tuple[str, int | str]
) -> None:
    address = Address(thread, agent, *selection)  # type: ignore[arg-type]
    assert refs.parse(str(address)) == address


@given(names, numbers)
def test_a_short_name_is_a_ref(thread: str, seq: int) -> None:
    assert refs.parse(refs.short_name(thread, seq)) == Address(thread, None, "seq", seq)


@given(names)
def test_a_quoted_name_holds_nothing_that_means_something(name: str) -> None:
    quoted = refs.quote(name)
    assert not set("@/") & set(quoted)
    assert refs.parse(f"{quoted}@") == Address(name, None, "head")


def test_the_table_of_the_docstring() -> None:
    expected = {
        "run-001@": ("head", ""),
        "run-001@~2": ("back", 2),
        "run-001@42": ("seq", 42),
        "run-001@step:7": ("step", 7),
        "run-001@tag:NAME": ("tag", "NAME"),
        "run-001@branch:NAME": ("branch", "NAME"),
    }
    for ref, selection in expected.items():
        assert refs.parse(ref) == Address("run-001", None, *selection)  # type: ignore[arg-type]
        lane = ref.replace("@", "/worker@")
        assert refs.parse(lane) == Address("run-001", "worker", *selection)  # type: ignore[arg-type]


def test_an_id_is_a_ref_and_other_words_are_none() -> None:
    id = str(uuid4())
    assert refs.parse(id) == read_id(id)
    assert refs.parse(id.replace("-", "")) == read_id(id)
    assert refs.parse("run-001") is None
    assert refs.parse("~2") is None


def test_the_last_at_splits() -> None:
    assert refs.parse("user@example.com@3") == Address("user@example.com", None, "seq", 3)
    assert refs.parse("user%40example.com@3") == Address("user@example.com", None, "seq", 3)
    assert refs.parse("a%2fb/c%2Fd@") == Address("a/b", "c/d", "head")
    assert refs.parse("50%@") == Address("50%", None, "head")


def test_inside_a_thread_its_name_is_left_out() -> None:
    assert refs.parse("@42", "a/b") == Address("a/b", None, "seq", 42)
    assert refs.parse("@", "s") == Address("s", None, "head")
    assert refs.parse("t@1", "s") == Address("t", None, "seq", 1)


def test_names_of_full_length_can_be_addressed() -> None:
    longest = "@" * 255
    address = Address(longest, longest, "branch", longest)
    assert refs.parse(str(address)) == address


NOTHING = ["s@x", "s@~", "s@-1", "s@step:", "s@tag:", "s@branch:", "s@~x", "s@1.5", "s@ 1", "s@٣"]


@pytest.mark.parametrize("ref", NOTHING)
def test_a_selector_that_selects_nothing(ref: str) -> None:
    with pytest.raises(ValueError, match=r"selects nothing\. Write thread@, thread@~N"):
        refs.parse(ref)


@pytest.mark.parametrize("ref", ["@", "@42", "/a@", "s/@"])
def test_an_address_without_a_name(ref: str) -> None:
    with pytest.raises(ValueError, match="names no thread"):
        refs.parse(ref)


@pytest.mark.parametrize("ref", ["", "a\x00b@", "a\ud800@", "s@tag:\x07", "a" * 256 + "@"])
def test_text_that_no_name_can_have(ref: str) -> None:
    with pytest.raises(ValueError, match=r"empty|contains|longer than 255 bytes"):
        refs.parse(ref)


@pytest.mark.parametrize("ref", [None, 5, b"s@"])
def test_what_is_not_text(ref: object) -> None:
    with pytest.raises(TypeError, match="ref must be a str"):
        refs.parse(ref)
