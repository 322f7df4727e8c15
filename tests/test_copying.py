"""Copies between every two kinds of stores, and what a fingerprint covers."""

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient, StorageError
from lastgood.fingerprints import Fingerprint
from lastgood.manifest import Slot, Spot
from lastgood.rows import CheckpointRow, ItemRow, ThreadRow, pack_slots
from lastgood.testing import Store, harness_for
from lastgood.testing.copies_cases import filled, same
from lastgood.testing.harnesses import harness_class
from lastgood.testing.suite import contract_schemes


def pairs() -> list[Any]:
    """Every two registered backends that promise something."""
    return [
        pytest.param(
            *pair,
            marks=[
                pytest.mark.server(kind) for each in pair if (kind := harness_class(each).server)
            ],
        )
        for pair in product(contract_schemes(), repeat=2)
    ]


@pytest.mark.parametrize(("source", "target"), pairs())
def test_every_store_into_every_other(source: str, target: str, tmp_path: Path) -> None:
    asyncio.run(_there_and_back(source, target, tmp_path))


async def _there_and_back(source: str, target: str, directory: Path) -> None:
    harnesses = []
    for number, scheme in enumerate((source, target)):
        (directory / str(number)).mkdir()
        harnesses.append(harness_for(scheme, directory / str(number)))
    stores = [Store(harness, "async") for harness in harnesses]
    one, other = (store.client() for store in stores)
    try:
        await filled(one)
        assert (await one.copy_to(other)).threads == 3
        await same(one, other, "talk", "short", "large")
        assert (await other.copy_to(one)).same == 3
        assert (await other.verify(data=True)).clean
    finally:
        for store, harness in zip(stores, harnesses, strict=True):
            await store.close()
            harness.close()


def test_the_source_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with BlockingClient.sqlite(path) as client:
        client.save("a", session_id="s", execution_state={"n": 1})
    before = path.read_bytes()
    with BlockingClient.sqlite(path) as client, BlockingClient.memory() as target:
        assert client.copy_to(target).threads == 1
    assert path.read_bytes() == before


def test_a_store_that_keeps_nothing_is_no_target() -> None:
    with BlockingClient.memory() as source, BlockingClient.null() as target:
        source.save("a", session_id="s", execution_state={"n": 1})
        with pytest.raises(StorageError, match="keeps nothing"):
            source.copy_to(target)


def _row(**changed: Any) -> CheckpointRow:
    values: dict[str, Any] = dict.fromkeys(CheckpointRow._fields, 1)
    return CheckpointRow(**{**values, "slots": pack_slots([Slot(7, 2)]), **changed})


class TestFingerprints:
    THREAD = ThreadRow(1, "t", "n", 1, 0, 1, "", None, 1, 1, b"", 0, 1, 1, 0, 0, 0, 1, None, 1, 1)

    def _print(self, *, stream: int = 7, **changed: Any) -> str:
        found = Fingerprint()
        found.row(ItemRow(1, "shelf", b"k", changed.pop("value", b"v"), None, 1, 1, None))
        found.row(ItemRow(1, "shelf", b"l", b"w", None, 1, 1, None))
        born = changed.pop("born", 1)
        found.checkpoint(_row(**{"slots": pack_slots([Slot(stream, 2)]), **changed}))
        found.part(Spot(stream, 1), born, b"digest")
        return found.whole(self.THREAD)

    def test_keys_of_a_store_do_not_matter(self) -> None:
        assert self._print(stream=7, thread=1) == self._print(stream=99, thread=5)

    @pytest.mark.parametrize(
        "name", [n for n in CheckpointRow._fields if n not in ("thread", "slots")]
    )
    def test_every_column_matters(self, name: str) -> None:
        assert self._print() != self._print(**{name: b"other"})

    def test_items_parts_and_streams_matter(self) -> None:
        others = [
            self._print(value=b"w"),
            self._print(born=2),
            self._print(slots=pack_slots([Slot(7, 3)])),
        ]
        assert len({self._print(), *others}) == 4
