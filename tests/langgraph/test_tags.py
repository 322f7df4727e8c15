"""The words of the adapter are there for its own classes: other values are stored as everywhere."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path

import pytest

from lastgood.adapters.langgraph import LastgoodSaver
from lastgood.codec import Codec

GOLDEN = Path(__file__).parents[1] / "golden" / "codec-v1.json"


@pytest.fixture
def codec() -> Codec:
    LastgoodSaver.from_memory().close()
    return Codec()


@pytest.mark.parametrize(
    "name", ["IP addresses", "IP networks", "zone and fold", "uuid", "pure paths"]
)
def test_a_value_has_the_same_bytes_with_and_without_the_adapter(codec: Codec, name: str) -> None:
    stored = bytes.fromhex(json.loads(GOLDEN.read_text())[name]["hex"])
    assert codec.pack(codec.unpack(stored)) == stored


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ("c71a3592af6e65742e4950763441646472657373a831302e302e302e31", IPv4Address("10.0.0.1")),
        ("c7163592af6e65742e495076364e6574776f726ba43a3a2f30", IPv6Network("::/0")),
    ],
)
def test_addresses_that_the_adapter_once_tagged_are_read(
    codec: Codec, stored: str, value: object
) -> None:
    assert codec.unpack(bytes.fromhex(stored)) == value
