"""Addresses are kept by the classes of their libraries, and by no others."""

import subprocess
import sys
from ipaddress import IPv4Address, IPv4Network

import pytest
from ormsgpack import packb
from pydantic import AnyUrl, HttpUrl

from lastgood.codec import Codec, Registry
from lastgood.codec.kinds import Number
from lastgood.codec.msgpack import ext
from lastgood.errors import SerializationError

ELSEWHERE = """
import sys
from lastgood.codec import Codec
codec = Codec()
ip, url = codec.unpack(bytes.fromhex(sys.argv[1]))
assert "pydantic" not in sys.modules
assert str(ip) == "10.0.0.1" and type(ip).__name__ == "IPv4Address"
assert codec.pack([ip, url]).hex() == sys.argv[1]
print(type(url).__name__)
try:
    url.host
except Exception as error:
    print(error)
"""


class Numbered(IPv4Address):
    """Somebody's own."""


class Shortened(HttpUrl):
    """Somebody's own."""


@pytest.mark.parametrize("value", [Numbered("10.0.0.1"), Shortened("http://a.example")])
def test_a_derived_class_is_not_taken_for_its_base(value: object) -> None:
    with pytest.raises(SerializationError, match="cannot be stored"):
        Codec().pack({"at": value})


def test_strict_types_allow_them() -> None:
    values = [IPv4Address("10.0.0.1"), AnyUrl("urn:a")]
    codec = Codec(strict_types=True)
    assert codec.unpack(codec.pack(values)) == values


def test_what_a_user_registered_goes_first() -> None:
    registry = Registry()
    registry.register(HttpUrl, "app.url", encode=lambda url: str(url)[::-1], decode=HttpUrl)
    codec = Codec(registry)
    packed = codec.pack(HttpUrl("http://a.example/"))
    assert b"app.url" in packed
    assert b"/elpmaxe.a//:ptth" in packed


def test_a_process_without_pydantic_keeps_a_url_as_it_is() -> None:
    data = Codec().pack([IPv4Address("10.0.0.1"), HttpUrl("http://a.example")]).hex()
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, data], capture_output=True, text=True, check=True
    )
    kind, message = done.stdout.splitlines()
    assert kind == "Opaque"
    assert "pydantic.networks.HttpUrl, and module 'pydantic' is not imported here" in message


@pytest.mark.parametrize(
    ("number", "body"),
    [
        (Number.IP, ["IPv4Address", "no address"]),
        (Number.IP, ["ip_address", "10.0.0.1"]),
        (Number.IP, ["IPv4Address", 167772161]),
        (Number.IP, [["IPv4Address"], "10.0.0.1"]),
        (Number.IP, "IPv4Address"),
        (Number.URL, ["HttpUrl", "no url"]),
        (Number.URL, ["validate_email", "a@b.example"]),
        (Number.URL, ["BaseModel", "http://a.example"]),
        (Number.URL, ["HttpUrl", b"http://a.example"]),
        (Number.URL, []),
        (Number.UNSET, "UNSET"),
    ],
)
def test_what_is_no_address_is_damage(number: int, body: object) -> None:
    with pytest.raises(SerializationError):
        Codec().unpack(ext(number, packb(body)))


def test_networks_keep_their_class() -> None:
    found = Codec().unpack(Codec().pack({"n": IPv4Network("10.0.0.0/8")}))
    assert type(found["n"]) is IPv4Network
