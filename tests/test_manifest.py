"""The records of a manifest: read in one call, and never believed when they are cut off."""

import pytest

from lastgood import CheckpointIntegrityError, manifest
from lastgood.codec import Codec, Dropped
from lastgood.manifest import plan
from lastgood.splitting import split
from lastgood.tree import Node

STATE = {
    "messages": [{"role": "user", "text": "x" * 100, "n": number} for number in range(100)],
    "nested": {"texts": ["y" * 300] * 20, "none": None, "no": False},
    "empty": {},
}


def tree_of(state: object) -> Node:
    made = split(Codec().encoder(), state)
    assert not isinstance(made, Dropped)
    return made


def test_a_manifest_is_read_as_it_was_spelled() -> None:
    made = plan(tree_of(STATE))
    node, is_skeleton = manifest.read(made.manifest)
    assert not is_skeleton
    assert made.stored is not None
    assert manifest._records(node) == manifest._records(made.stored.tree)


def test_a_manifest_that_is_cut_off_anywhere_is_damaged() -> None:
    records = plan(tree_of(STATE)).manifest[1:]
    manifest.read_records(records)
    for length in range(len(records)):
        with pytest.raises(CheckpointIntegrityError):
            manifest.read_records(records[:length])


@pytest.mark.parametrize("key", ["a", "größe", "\udcff", "x" * 300, "a\x00b", ""])
@pytest.mark.parametrize(
    "others", [{}, {"big": ["y" * 900] * 20}, {str(n): n for n in range(5000)}]
)
def test_a_key_that_is_there_may_be_there(key: str, others: dict[str, object]) -> None:
    for value in (None, [1, 2], "v" * 10_000):
        spelled = plan(tree_of({**others, key: value})).manifest
        assert manifest.may_have(spelled, key)
        assert manifest.may_have(plan(tree_of({1: 2, **others, key: value})).manifest, key)


def test_of_a_key_that_is_not_there_nothing_is_decoded() -> None:
    assert not manifest.may_have(plan(tree_of({"a": 1})).manifest, "b")
    assert not manifest.may_have(plan(tree_of(STATE)).manifest, "b")
