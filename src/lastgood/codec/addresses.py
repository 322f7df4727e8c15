"""Addresses: those of the standard library's `ipaddress`, and the URLs of pydantic.

Owns their two kinds; neither library is imported before there is such a value. Must not know bytes
or the registry. Invariant: a value comes back as its text, parsed by the very class that it had;
a class that is derived from one of these is not stored as that.
"""

from __future__ import annotations

import sys
from typing import Any

from lastgood.codec.kinds import Kind, Number, Unresolved
from lastgood.codec.labels import ancestry, namespace

_IPS = frozenset(
    f"IPv{version}{sort}" for version in (4, 6) for sort in ("Address", "Interface", "Network")
)
_URLS = "pydantic.networks"
_BASES = ("_BaseUrl", "_BaseMultiHostUrl")


def address_kind(cls: type) -> Kind | None:
    """The kind of a class of addresses."""
    name, module = cls.__name__, cls.__module__
    if module == "ipaddress" and name in _IPS:
        return IP
    return URL if module == _URLS and _url_class(name) is cls else None


def _take(value: object) -> list[str]:
    return [type(value).__name__, str(value)]


def _make_ip(body: Any) -> object:
    import ipaddress

    name, text = _told(body)
    if name not in _IPS:
        raise ValueError("no class of IP addresses")
    return getattr(ipaddress, name)(text)


def _make_url(body: Any) -> object:
    name, text = _told(body)
    if _URLS not in sys.modules:
        raise Unresolved(f"{_URLS}:{name}", "module 'pydantic' is not imported here")
    cls = _url_class(name)
    if cls is None:
        raise ValueError("no class of URLs")
    return cls(text)


def _told(body: Any) -> tuple[str, str]:
    name, text = body
    if type(name) is not str or type(text) is not str:
        raise ValueError("an address is stored as text")
    return name, text


def _url_class(name: str) -> Any:
    """A class of URLs that pydantic itself defines."""
    found = namespace(sys.modules.get(_URLS))
    cls = found.get(name)
    if not isinstance(cls, type) or cls.__module__ != _URLS:
        return None
    return cls if {base.__name__ for base in ancestry(cls)}.intersection(_BASES) else None


IP = Kind(Number.IP, "ip", _take, _make_ip)
URL = Kind(Number.URL, "url", _take, _make_url)
