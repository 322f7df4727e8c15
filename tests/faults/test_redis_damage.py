"""One flipped bit in any value of a thread: every answer is what was saved, or an error of ours.

Silence is the failure: an older head, a missing row, "not found" for what was saved, a wrong state.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import redis
from rich_store import fill, questions
from stores import Stores
from test_bit_flips import difference

from lastgood import BlockingClient, LastgoodError
from lastgood.backends.redis.backend import RedisBackend

pytestmark = pytest.mark.server("valkey")

HOUR = 3600 * 1_000_000


class Rich(NamedTuple):
    stores: Stores
    url: str
    made: dict[str, list[str]]
    answers: dict[str, Any]
    values: dict[tuple[str, bytes], bytes]
    """What can be flipped: what stands where in the tables of threads."""


def opened(url: str, shift: int) -> BlockingClient:
    address, _, prefix = url.rpartition("prefix=")
    backend = RedisBackend(address.rstrip("?&"), prefix=prefix, shift=lambda: shift)
    return BlockingClient.on(backend, stale_after_seconds=1e12)


@pytest.fixture
def rich(valkey_url: str) -> Iterator[Rich]:
    with Stores(valkey_url) as stores:
        url = stores.alone("rich")
        made = fill(opened(url, 0))
        client = opened(url, HOUR)
        answers = {name: ask(client) for name, ask in questions(made)}
        client.close()
        yield Rich(stores, url, made, answers, dict(values_of(url)))


def values_of(url: str) -> Iterator[tuple[tuple[str, bytes], bytes]]:
    address, _, prefix = url.rpartition("prefix=")
    with redis.Redis.from_url(address.rstrip("?&")) as raw:
        for key in raw.scan_iter(f"{prefix}:{{*", _type="hash"):
            for field, value in raw.hgetall(key).items():
                yield (key.decode().removeprefix(prefix), field), value


def flipped(rich: Rich, place: tuple[str, bytes], byte: int, bit: int) -> str:
    """A copy of the store with one bit changed."""
    url = rich.stores.copied(rich.url, "flipped")
    address, _, prefix = url.rpartition("prefix=")
    value = bytearray(rich.values[place])
    value[byte] ^= 1 << bit
    with redis.Redis.from_url(address.rstrip("?&")) as raw:
        raw.hset(prefix + place[0], place[1], bytes(value))
    return url


def remove(url: str) -> None:
    address, _, prefix = url.rpartition("prefix=")
    with redis.Redis.from_url(address.rstrip("?&")) as raw:
        for key in raw.scan_iter(f"{prefix}:*", count=1000):
            raw.unlink(key)


def silent_wrongs(rich: Rich, url: str) -> Iterator[str]:
    client = opened(url, HOUR)
    noticed = ""
    for name, ask in questions(rich.made):
        try:
            answer = ask(client)
        except LastgoodError as error:
            noticed = noticed or f"{name}: {error}"
            continue
        except Exception as error:
            yield f"{name}: {type(error).__name__} is not ours: {error}"
            continue
        if answer != rich.answers[name]:
            yield f"{name}: {difference(answer, rich.answers[name])}"
    if noticed and client.verify(data=True).clean:
        yield f"verify finds nothing, but {noticed}"
    client.close()


def test_a_flipped_bit_in_the_key_of_a_thread_is_never_silent(rich: Rich) -> None:
    """It may become the key of another one, or no key at all; the others stay on the lists."""
    place = min(place for place in rich.values if place[1] == b"t")
    failures = []
    for byte, bit in itertools.product(range(3, 5), range(8)):
        url = flipped(rich, place, byte, bit)
        failures += [f"byte {byte} bit {bit}: {wrong:.300}" for wrong in silent_wrongs(rich, url)]
        remove(url)
    assert not failures, "\n".join(failures)


def test_a_flipped_bit_in_the_version_of_any_thread_is_never_silent(rich: Rich) -> None:
    """Of deleted ones, too."""
    failures = []
    for place in (place for place in rich.values if place[1] == b"v"):
        url = flipped(rich, place, 0, 4)
        failures += [f"{place}: {wrong:.300}" for wrong in silent_wrongs(rich, url)]
        remove(url)
    assert not failures, "\n".join(failures)


def test_a_flipped_bit_in_any_value_is_never_silent(
    rich: Rich, rng: random.Random, times: Callable[[int], int]
) -> None:
    failures = []
    tables: dict[str, list[tuple[str, bytes]]] = {}
    for place in rich.values:
        kind = place[0].rpartition("}")[2] or place[1][:1].decode()
        tables.setdefault(kind, []).append(place)
    kinds = sorted(tables) * times(5)  # small tables as often as large ones
    for kind in kinds:
        place = rng.choice(tables[kind])
        byte, bit = rng.randrange(len(rich.values[place])), rng.randrange(8)
        url = flipped(rich, place, byte, bit)
        for wrong in silent_wrongs(rich, url):
            failures.append(f"{place} byte {byte} bit {bit}: {wrong:.300}")
            break
        remove(url)
    assert not failures, "\n".join(failures)
    assert {"t", "l", "b", "g", ":c", ":i", ":p", ":r"} <= set(tables)
