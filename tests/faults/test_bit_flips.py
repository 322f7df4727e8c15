"""One flipped bit anywhere in the file: every answer is what was saved, or an error of ours.

Silence is the failure: an older head, a missing row, "not found" for what was saved, a wrong state.
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
from rich_store import HOUR, NOON, about_users, build, open_store, questions

from lastgood import CheckpointNotFoundError, LastgoodError
from lastgood.backends.sqlite.schema import PAGE_SIZE

LATER = NOON + HOUR
"""By now the checkpoint with a TTL is over its time."""
SHOWN = 30


class Store(NamedTuple):
    path: Path
    pages: dict[int, str]
    content: bytes
    made: dict[str, list[str]]
    answers: dict[str, Any]


@pytest.fixture
def store(place: Path) -> Store:
    path = place / "rich.db"
    made = build(path)
    client = open_store(path, LATER)
    answers = {name: ask(client) for name, ask in (*questions(made), *about_users())}
    client.close()
    assert not path.with_name("rich.db-wal").exists(), "closed and checkpointed"
    return Store(path, owners_of_pages(path), path.read_bytes(), made, answers)


def owners_of_pages(path: Path) -> dict[int, str]:
    """Which table or index each page belongs to, to be told when something goes wrong there."""
    connection = apsw.Connection(str(path))
    found = connection.execute("SELECT pageno, name FROM dbstat").fetchall()
    connection.close()
    return dict(found)


def damage(store: Store, byte: int, bit: int) -> None:
    for suffix in ("-wal", "-shm"):
        store.path.with_name(store.path.name + suffix).unlink(missing_ok=True)
    changed = bytearray(store.content)
    changed[byte] ^= 1 << bit
    store.path.write_bytes(changed)


def silent_wrongs(store: Store) -> Iterator[str]:
    """Ask everything of the store as it is now; yields the answers that are wrong."""
    client = open_store(store.path, LATER)
    noticed = ""
    try:
        for name, ask in (*questions(store.made), *about_users()):
            if name not in store.answers:
                continue
            try:
                answer = ask(client)
            except LastgoodError as error:
                noticed = noticed or f"{name}: {error}"
                continue
            except Exception as error:
                yield f"{name}: {type(error).__name__} is not ours: {error}"
                continue
            if answer != store.answers[name]:
                yield f"{name}: {difference(answer, store.answers[name])}"
        yield from _verified_wrongly(client, noticed)
        yield from _wrong_moves(client)
        yield from _foreign_error_of_a_save(client)
    finally:
        with contextlib.suppress(LastgoodError):
            client.close()


def _verified_wrongly(client: Any, noticed: str) -> Iterator[str]:
    """What any read notices, verify reports; or it cannot open the store and says so."""
    try:
        report = client.verify(data=True)
    except LastgoodError:
        if not noticed:
            yield "verify raises, and everything can be read"
    except Exception as error:
        yield f"verify: {type(error).__name__} is not ours: {error}"
    else:
        if noticed and report.clean:
            yield f"verify finds nothing, but {noticed}"


def difference(answer: Any, expected: Any) -> str:
    """What is wrong, in one line."""
    if not isinstance(answer, list):
        return f"{answer!r:.80} instead of {expected!r:.80}"
    if len(answer) != len(expected):
        return f"{len(answer)} rows instead of {len(expected)}"
    pairs = (pair for pair in zip(answer, expected, strict=True) if pair[0] != pair[1])
    return "{!r:.200} instead of {!r:.200}".format(*next(pairs))


def _wrong_moves(client: Any) -> Iterator[str]:
    """An undo goes where it would have gone, twice; a switch to the branch that it names."""
    for name, move in (
        ("undo", lambda: client.undo("moved")),
        ("undo again", lambda: client.undo("moved")),
        ("switch", lambda: client.switch("moved", "main")),
    ):
        try:
            found = move()
        except CheckpointNotFoundError as error:
            yield f"{name}: {error}"
        except LastgoodError:
            return
        except Exception as error:
            yield f"{name}: {type(error).__name__} is not ours: {error}"
        else:
            expected = {"undo": "rewound", "undo again": "idea", "switch": "main"}[name]
            branch = "rewound" if found.branch.startswith("main-") else found.branch
            if branch != expected or found.head is None:
                yield f"{name}: to {found.branch} at {found.head}"


def _foreign_error_of_a_save(client: Any) -> Iterator[str]:
    for thread, agent in (("chat", "agent"), ("team", "coder"), ("many-03", "solo"), ("new", "a")):
        try:
            client.save(agent, session_id=thread, execution_state={"after": "the flip"})
        except LastgoodError:
            continue
        except Exception as error:
            yield f"save {thread}/{agent}: {type(error).__name__} is not ours: {error}"


PARTS = 4
in_parts = pytest.mark.parametrize("part", range(PARTS))
"""So that no test takes long, also on a busy machine."""


def flip_all(store: Store, spots: list[tuple[int, int]]) -> None:
    failures = []
    for byte, bit in spots:
        damage(store, byte, bit)
        wrongs = list(silent_wrongs(store))
        if wrongs:
            more = f" (and {len(wrongs) - 1} more)" if len(wrongs) > 1 else ""
            owner = store.pages.get(byte // PAGE_SIZE + 1, "a free page")
            failures.append(f"byte {byte} bit {bit} in {owner}: {wrongs[0]:.200}{more}")
    assert not failures, f"{len(failures)} of {len(spots)} flips went unseen:\n" + "\n".join(
        failures[:SHOWN]
    )


@in_parts
def test_a_flipped_bit_anywhere_is_never_silent(
    part: int, store: Store, rng: random.Random, times: Callable[[int], int]
) -> None:
    spots = [(rng.randrange(len(store.content)), rng.randrange(8)) for _ in range(times(500))]
    flip_all(store, spots[part::PARTS])


@in_parts
def test_a_flipped_bit_in_the_structure_of_a_page_is_never_silent(
    part: int, store: Store, rng: random.Random, times: Callable[[int], int]
) -> None:
    """Page headers and cell pointers: there a bit loses rows without touching any of them."""
    pages: dict[str, list[int]] = {}
    for number, owner in store.pages.items():
        pages.setdefault(owner, []).append(number)
    owners = sorted(pages) * (times(400) // len(pages))  # small tables as often as large ones
    spots = [structural_spot(store.content, rng.choice(pages[owner]), rng) for owner in owners]
    flip_all(store, spots[part::PARTS])


@in_parts
@pytest.mark.parametrize("table", ["checkpoint", "thread"])
def test_a_flipped_bit_in_the_pointers_of_the_fullest_page_of_a_table_is_never_silent(
    store: Store, table: str, part: int
) -> None:
    """All of them: a pointer to a neighbour's row keeps the count and loses a row."""
    leaves = [
        (number - 1) * PAGE_SIZE
        for number, owner in store.pages.items()
        if owner == f"lastgood_{table}" and store.content[(number - 1) * PAGE_SIZE] == 13
    ]
    cells, start = max((int.from_bytes(store.content[at + 3 : at + 5]), at) for at in leaves)
    pointers = range(start + 8, start + 8 + 2 * cells)
    flip_all(store, [(byte, bit) for byte in pointers for bit in range(8)][part::PARTS])


def test_a_pointer_to_nowhere_in_a_page_of_parts_is_never_silent(store: Store) -> None:
    """Rows out of order: whoever looks for the next one finds the one before."""
    starts = [
        (number - 1) * PAGE_SIZE
        for number, owner in store.pages.items()
        if owner == "lastgood_part" and store.content[(number - 1) * PAGE_SIZE] == 13
    ]
    flip_all(store, [(start + 8, bit) for start in starts for bit in range(5)])


@pytest.mark.parametrize("table", ["lane", "branch", "tag", "run"])
def test_a_pointer_to_nowhere_in_a_table_that_is_looked_up_by_name_is_never_silent(
    store: Store, table: str
) -> None:
    """What a search does not find because it went the wrong way is still in the list."""
    (number,) = (n for n, owner in store.pages.items() if owner == f"lastgood_{table}")
    start = (number - 1) * PAGE_SIZE
    cells = int.from_bytes(store.content[start + 3 : start + 5])
    high_bytes = range(start + 8, start + 8 + 2 * cells, 2)
    flip_all(store, [(byte, bit) for byte in high_bytes for bit in (2, 3)])


def structural_spot(content: bytes, page: int, rng: random.Random) -> tuple[int, int]:
    """A bit of the header or of the cell pointers of a b-tree page."""
    start = (page - 1) * PAGE_SIZE + (100 if page == 1 else 0)
    header = 12 if content[start] in (2, 5) else 8
    cells = int.from_bytes(content[start + 3 : start + 5])
    if content[start] not in (2, 5, 10, 13):
        header, cells = 4, 0  # an overflow page: only the number of the next one
    return start + rng.randrange(header + 2 * cells), rng.randrange(8)


def test_a_flipped_bit_in_the_header_of_the_file_is_never_silent(
    store: Store, rng: random.Random
) -> None:
    flip_all(store, [(byte, rng.randrange(8)) for byte in range(100)])


def test_a_flipped_bit_in_the_header_of_the_schema_is_never_silent(store: Store) -> None:
    """All of them: without its tables a full store must not be taken for a new one."""
    flip_all(store, [(byte, bit) for byte in range(100, 108) for bit in range(8)])


def test_the_questions_notice_a_lost_row(store: Store) -> None:
    """The test can fail: without its newest row, a store answers wrongly or complains."""
    client = open_store(store.path, LATER)
    client.expire(store.made["chat"][-1])
    client.close()
    assert any("latest chat/agent" in wrong for wrong in silent_wrongs(store))
