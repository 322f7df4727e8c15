"""Following a value back: what it costs, beside what the contract says of its results."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood.codec import Codec
from lastgood.tracing import counterpart


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a codec was asked to pack."""
    seen: list[Any] = []
    pack = Codec.pack

    def watched(self: Codec, value: Any) -> bytes:
        seen.append(value)
        return pack(self, value)

    monkeypatch.setattr(Codec, "pack", watched)
    return seen


def test_an_element_that_kept_its_place_is_found_without_what_comes_behind(
    packed: list[Any],
) -> None:
    old = {"done": list(range(1000))}
    new = {"done": list(range(1001))}
    assert counterpart(Codec(), new, old, ("done", 5)) == ("done", 5)
    assert packed == [list(range(6))] * 2


@pytest.mark.parametrize(
    ("old", "new", "index", "found"),
    [
        ([1, 2, 3], [0, 1, 2, 3], 2, 1),
        ([1, 2, 3], [2, 3], 0, 1),
        ([1, 2, 3], [1, 9, 3], 1, 1),
        ([1], [1, 2], 1, None),
        ([], [1], 0, None),
    ],
)
def test_one_that_moved_or_was_edited_is_found_by_what_is_around_it(
    old: list[int], new: list[int], index: int, found: int | None
) -> None:
    steps = counterpart(Codec(), new, old, (index,))
    assert steps == (None if found is None else (found,))
