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
from rich_store import HOUR, NOON, build, open_store, questions

from lastgood import LastgoodError
from lastgood.backends.sqlite_schema import PAGE_SIZE

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
    answers = {name: ask(client) for name, ask in questions(made)}
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
    try:
        for name, ask in questions(store.made):
            try:
                answer = ask(client)
            except LastgoodError:
                continue
            except Exception as error:
                yield f"{name}: {type(error).__name__} is not ours: {error}"
                continue
            if answer != store.answers[name]:
                yield f"{name}: {answer!r:.160}"
        yield from _foreign_error_of_a_save(client)
    finally:
        with contextlib.suppress(LastgoodError):
            client.close()


def _foreign_error_of_a_save(client: Any) -> Iterator[str]:
    for thread, agent in (("chat", "agent"), ("team", "coder"), ("many-03", "solo"), ("new", "a")):
        try:
            client.save(agent, session_id=thread, execution_state={"after": "the flip"})
        except LastgoodError:
            continue
        except Exception as error:
            yield f"save {thread}/{agent}: {type(error).__name__} is not ours: {error}"


def flip_all(store: Store, spots: list[tuple[int, int]]) -> None:
    failures = []
    for byte, bit in spots:
        damage(store, byte, bit)
        wrongs = list(silent_wrongs(store))
        if wrongs:
            more = f" (and {len(wrongs) - 1} more)" if len(wrongs) > 1 else ""
            owner = store.pages.get(byte // PAGE_SIZE + 1, "a free page")
            failures.append(f"byte {byte} bit {bit} in {owner}: {wrongs[0]}{more}")
    assert not failures, f"{len(failures)} of {len(spots)} flips went unseen:\n" + "\n".join(
        failures[:SHOWN]
    )


def test_a_flipped_bit_anywhere_is_never_silent(
    store: Store, rng: random.Random, times: Callable[[int], int]
) -> None:
    spots = [(rng.randrange(len(store.content)), rng.randrange(8)) for _ in range(times(500))]
    flip_all(store, spots)


def test_a_flipped_bit_in_the_structure_of_a_page_is_never_silent(
    store: Store, rng: random.Random, times: Callable[[int], int]
) -> None:
    """Page headers and cell pointers: there a bit loses rows without touching any of them."""
    pages = range(0, len(store.content), PAGE_SIZE)
    spots = []
    for _ in range(times(300)):
        page = rng.choice(pages)
        start = page + (100 if page == 0 else 0)
        spots.append((start + rng.randrange(40), rng.randrange(8)))
    flip_all(store, spots)


def test_a_flipped_bit_in_the_header_of_the_file_is_never_silent(
    store: Store, rng: random.Random
) -> None:
    flip_all(store, [(byte, rng.randrange(8)) for byte in range(100)])


def test_the_questions_notice_a_lost_row(store: Store) -> None:
    """The test can fail: without its newest row, a store answers wrongly or complains."""
    client = open_store(store.path, LATER)
    client.expire(store.made["chat"][-1])
    client.close()
    assert any("latest chat/agent" in wrong for wrong in silent_wrongs(store))
