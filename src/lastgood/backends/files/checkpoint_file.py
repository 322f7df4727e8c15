"""The file of a checkpoint: its row, its whole state as JSON, and how the state is cut into pages.

Pure: bytes in, rows and pages out, and back. The state stands in the file once, as people read it;
manifest and pages are rebuilt from it. So a state that was edited gives other pages or another
manifest, and whatever finds damage in a part or a row on other stores finds it here.

    thread, agent   the names that the row's keys stand for
    checkpoint      the row, column by column, without its manifest
    state           in the text spelling of the codec
    form            the manifest without the values in it, and which elements are stored apart
    pages           a line for neighbours in a stream that one save brought: stream, first number,
                    the seq of that save, their sizes, their digests
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from lastgood import manifest, pages
from lastgood.backends.files.rows import Columns, read_columns, spelled
from lastgood.backends.memory.shelves import StoredPart
from lastgood.codec import text
from lastgood.errors import CheckpointIntegrityError, LastgoodError
from lastgood.filling import Filling, sequences
from lastgood.manifest import Slot, Spot
from lastgood.rows import CheckpointRow, fields_of, read_slots
from lastgood.tree import Extent, Node, Sequence
from lastgood.whole import Whole, refilled, stripped, whole

FORMAT = 1
DIGEST = 16
_MANIFEST = fields_of(CheckpointRow).index("manifest")
_SLOTS = fields_of(CheckpointRow).index("slots")

Pages = Mapping[Spot, StoredPart]


class Names(NamedTuple):
    """What people call the thread and the agent of a checkpoint."""

    thread: str
    agent: str


class Opened(NamedTuple):
    """What a file holds, damaged or not."""

    names: Names
    columns: Columns
    pages: Pages
    size: int
    """Bytes of the file."""
    checked: bool = False
    """Whether the pages are known to fit their digests."""


class _Entry(NamedTuple):
    """What is known of a page besides its data."""

    born: int
    size: int
    digest: bytes


# writing


def spots_of(row: CheckpointRow, known: Pages) -> list[Spot]:
    """The pages that a checkpoint needs; at first only those of its manifest, if it has any."""
    slots = read_slots(row.slots)
    node, is_split = manifest.read(row.manifest)
    wanted = list(_spots(node, slots))
    if is_split and known.keys() >= set(wanted):
        inner = manifest.read_skeleton(_filled(node, slots, known))
        wanted += _spots(inner, slots)
    return wanted


def file_of(names: Names, row: CheckpointRow, columns: Columns, parts: Pages) -> bytes:
    """The file of a checkpoint, given its row and all its pages."""
    slots = read_slots(row.slots)
    node, is_split = manifest.read(row.manifest)
    form: dict[str, object] = {}
    if is_split:
        form["skeleton"] = _base64(row.manifest)
        node = manifest.read_skeleton(_filled(node, slots, parts))
    state, apart = whole(_filled(node, slots, parts))
    form["tree"] = _base64(manifest.records_of(stripped(node)))
    if apart:
        form["apart"] = [list(places) for places in apart]
    document = {
        "lastgood": FORMAT,
        **names._asdict(),
        "checkpoint": spelled(CheckpointRow, columns),
        "state": text.spell(state),
        "form": form,
        "pages": [_spelled_run(run) for run in _runs(parts)],
    }
    return f"{text.lines(document)}\n".encode()


def _filled(node: Node, slots: tuple[Slot, ...], parts: Pages) -> Node:
    filling = Filling(node, slots)
    wanted = ((slots[e.slot].stream, e.first, e.length) for e in filling.wanted())
    found = [
        [parts[Spot(stream, number)].data for number in range(first, first + length)]
        for stream, first, length in wanted
    ]
    return filling.filled(iter(found))


Run = list[tuple[Spot, StoredPart]]


def _runs(parts: Pages) -> Iterator[Run]:
    """Neighbours in a stream that one save brought."""
    ordered = enumerate(sorted(parts.items()))
    for _, found in groupby(
        ordered, lambda each: (each[1][0].stream, each[1][0].number - each[0], each[1][1].born)
    ):
        yield [item for _, item in found]


def _spelled_run(run: Run) -> str:
    (stream, first), part = run[0]
    sizes = ",".join([str(len(each.data)) for _, each in run])
    digests = _base64(b"".join([each.digest for _, each in run]))
    return f"{stream} {first} {part.born} {sizes} {digests}"


# reading


def opened(raw: bytes, where: str) -> Opened:
    """What a file holds; CheckpointIntegrityError if it cannot be read at all."""
    try:
        document = text.parse(raw.decode())
        if document["lastgood"] != FORMAT:
            raise ValueError(f"its format is {document['lastgood']!r}")
        names = Names(document["thread"], document["agent"])
        columns = read_columns(CheckpointRow, document["checkpoint"])
        state, form = text.pack(document["state"]), document["form"]
        records = _bytes(form["tree"])
        entries = dict(_entries(document["pages"]))
    except (LastgoodError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointIntegrityError(
            f"{where} is damaged: {error}", hint="Put back a copy of the file."
        ) from error
    try:
        recipe, found = _rebuilt(columns, form, records, state, entries)
    except (LastgoodError, LookupError, TypeError, ValueError, AttributeError):
        recipe, found = records, {}
    columns = (*columns[:_MANIFEST], recipe, *columns[_MANIFEST + 1 :])
    return Opened(names, columns, found, len(raw))


def _rebuilt(
    columns: Columns, form: Any, records: bytes, state: bytes, entries: Mapping[Spot, _Entry]
) -> tuple[bytes, Pages]:
    """The manifest and the pages of a state."""
    slots = read_slots(columns[_SLOTS])  # type: ignore[arg-type]
    apart = tuple([tuple(places) for places in form.get("apart", ())])
    tree = refilled(manifest.read_records(records), Whole(state, apart))
    found = dict(_cut(sequences(tree), slots, entries))
    spelled_tree = manifest.records_of(tree)
    if "skeleton" not in form:
        return manifest.inline(spelled_tree), found
    recipe = _bytes(form["skeleton"])
    skeleton = manifest.read(recipe)[0]
    assert isinstance(skeleton, Sequence)
    found |= _pages_of(skeleton, spelled_tree, slots, entries)
    return recipe, found


def _cut(
    found: Iterable[Sequence], slots: tuple[Slot, ...], entries: Mapping[Spot, _Entry]
) -> Iterator[tuple[Spot, StoredPart]]:
    seen: dict[Spot, bytes] = {}
    for node in found:
        for spot, part in _pages_of(node, pages.joined(node.chunks), slots, entries):
            # A page may stand in a state twice: then one that was changed is not hidden.
            if spot not in seen or manifest.part_digest(part.data) != part.digest:
                seen[spot] = part.data
                yield spot, part


def _pages_of(
    node: Sequence, body: bytes, slots: tuple[Slot, ...], entries: Mapping[Spot, _Entry]
) -> Iterator[tuple[Spot, StoredPart]]:
    """The pages of one sequence. What is too much or too little ends up in the last one."""
    start, count = 0, sum(extent.length for extent in _extents(node))
    for nth, spot in enumerate(_own_spots(node, slots), start=1):
        entry = entries.get(spot)
        if entry is None:
            return  # nobody knows where the next one begins
        end = len(body) if nth == count else start + entry.size
        yield spot, StoredPart(entry.born, entry.digest, body[start:end])
        start = end


def _spots(node: Node, slots: tuple[Slot, ...]) -> Iterator[Spot]:
    for each in sequences(node):
        yield from _own_spots(each, slots)


def _own_spots(node: Sequence, slots: tuple[Slot, ...]) -> Iterator[Spot]:
    for extent in _extents(node):
        stream = slots[extent.slot].stream
        yield from (Spot(stream, extent.first + nth) for nth in range(extent.length))


def _extents(node: Sequence) -> Iterator[Extent]:
    for place in node.places:
        assert isinstance(place, Extent), "stored pages have a place"
        yield place


def _entries(told: list[str]) -> Iterator[tuple[Spot, _Entry]]:
    for line in told:
        stream, first, born, sizes, spelled_digests = line.split()
        digests = _bytes(spelled_digests)
        for nth, size in enumerate(map(int, sizes.split(","))):
            digest = digests[nth * DIGEST : (nth + 1) * DIGEST]
            yield Spot(int(stream), int(first) + nth), _Entry(int(born), size, digest)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(spelled_data: str) -> bytes:
    return base64.b64decode(spelled_data, validate=True)
