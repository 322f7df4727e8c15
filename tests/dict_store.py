"""A store of pages that is a dict: what fails on it is the algorithm and not a backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from lastgood import manifest, tree
from lastgood.building import build
from lastgood.codec import Codec, Family, split_values
from lastgood.filling import Filling
from lastgood.manifest import Slot, Spot, Stored
from lastgood.pages import SLICE, pages_of
from lastgood.splitting import rebased, split
from lastgood.tree import Node, detached

CODEC = Codec()


@dataclass
class Shop:
    """What a backend does with plans, in the smallest way."""

    pages: dict[Spot, bytes] = field(default_factory=dict)
    large: dict[bytes, Spot] = field(default_factory=dict)
    streams: int = 0

    def save(
        self, node: Node, base: Stored | None = None
    ) -> tuple[bytes, tuple[Slot, ...], Stored, int]:
        found = {d: self.large[d] for d in manifest.large_pages(node) if d in self.large}
        plan = manifest.plan(node, base, found)
        if any(self._spot(plan.slots, part) in self.pages for part in plan.parts):
            plan = manifest.plan(node, base, found, fresh=True)
        slots = tuple(self._opened(slot) for slot in plan.slots)
        for part in plan.parts:
            spot = Spot(slots[part.slot].stream, part.number)
            assert spot not in self.pages, "a page is never written twice"
            self.pages[spot] = part.data
            if len(part.data) >= SLICE:
                self.large[part.digest] = spot
        assert plan.stored is not None
        written = sum(len(part.data) for part in plan.parts) + len(plan.manifest)
        return plan.manifest, slots, Stored(plan.stored.tree, slots, plan.stored.skeleton), written

    def _spot(self, slots: tuple[Slot, ...], part: manifest.Part) -> Spot:
        return Spot(slots[part.slot].stream, part.number)

    def _opened(self, slot: Slot) -> Slot:
        if slot.stream:
            return slot
        self.streams += 1
        return slot._replace(stream=self.streams)

    def load(self, data: bytes, slots: tuple[Slot, ...], near: Stored | None = None) -> Stored:
        node, is_skeleton = manifest.read(data)
        if not is_skeleton:
            return Stored(self._filled(node, slots, near), slots)
        skeleton = self._filled(node, slots, None)
        assert isinstance(skeleton, tree.Sequence)
        whole = self._filled(manifest.read_skeleton(skeleton), slots, near)
        return Stored(whole, slots, skeleton)

    def _filled(self, node: Node, slots: tuple[Slot, ...], near: Stored | None) -> Node:
        filling = Filling(node, slots, near)
        ranges = [
            [self.pages[Spot(slots[e.slot].stream, e.first + i)] for i in range(e.length)]
            for e in filling.wanted()
        ]
        return filling.filled(iter(ranges))


def made(value: Any, base: Node | None = None) -> Node:
    node = split(CODEC.encoder(), value, base)
    assert isinstance(node, tree.Leaf | tree.Fields | tree.Sequence)
    return node


def check_counts(node: Node) -> None:
    """Every range knows how many elements are in it, whatever happened to its sequence."""
    if isinstance(node, tree.Fields):
        for child in node.children.values():
            check_counts(child)
    elif isinstance(node, tree.Sequence) and node.family in (Family.ARRAY, Family.MAP):
        stored = iter(pages_of(node.chunks))
        for place in node.places:
            assert isinstance(place, tree.Extent)
            values = len(split_values(b"".join(islice(stored, place.length))))
            assert place.elements * (2 if node.family is Family.MAP else 1) == values
        assert next(stored, None) is None
        for child in node.nested:
            check_counts(child)


def play(versions: list[Any], *, forget: int = 5, lay: int = 2) -> list[int]:
    """Save versions one on top of the other; every one must come back, with a hash of its own.

    So many are saved before one is read from the store, and before one is made without its base.
    """
    shop, base, rows, costs = Shop(), None, [], []
    for number, value in enumerate(versions):
        alone = made(value)
        node = made(value, base.tree if base else None)
        assert node.hash == alone.hash, "the hash depends on the base"
        if base is not None:
            laid = rebased(alone, base.tree)
            assert laid.hash == alone.hash, "rebasing changes the hash"
            if number % lay == lay - 1:
                node = laid
        assert detached(node).hash == alone.hash
        data, slots, stored, cost = shop.save(node, base)
        rows.append((data, slots, alone.hash))
        costs.append(cost)
        base = shop.load(data, slots) if number % forget == forget - 1 else stored
    near: Stored | None = None
    for value, (data, slots, digest) in zip(versions, rows, strict=True):
        for loaded in (shop.load(data, slots), near := shop.load(data, slots, near)):
            assert loaded.tree.hash == digest
            assert CODEC.pack(build(CODEC, loaded.tree)) == CODEC.pack(value)
        check_counts(shop.load(data, slots).tree)
    return costs
