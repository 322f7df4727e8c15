"""The address of a Redis that was given as a client or a pool of redis-py.

The cache connects by itself, in both colours and with short waits, so an address is what it needs.
What an address cannot say is refused and never left out: without it another server would be
reached, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any
from urllib.parse import quote, urlencode

_SCHEMES = {"Connection": "redis", "SSLConnection": "rediss", "UnixDomainSocketConnection": "unix"}
_TLS = frozenset(
    "ssl_ca_certs ssl_ca_data ssl_ca_path ssl_cert_reqs ssl_certfile ssl_check_hostname "
    "ssl_ciphers ssl_keyfile ssl_password".split()
)
_INSTEAD = 'Pass redis_url="redis://user:password@host:6379/0" instead, or no Redis.'


def redis_address(owner: Any) -> str | None:
    """The address behind a client or a pool; None for none. Raises TypeError and ValueError."""
    if owner is None:
        return None
    pool = getattr(owner, "connection_pool", owner)
    kind, about = getattr(pool, "connection_class", None), getattr(pool, "connection_kwargs", None)
    if not isinstance(kind, type) or not isinstance(about, Mapping):
        raise TypeError(
            "redis and redis_pool are a client and a pool of redis-py, "
            f"not {type(owner).__name__}. Pass an address as redis_url."
        )
    scheme = _SCHEMES.get(kind.__name__) if kind.__module__.startswith("redis.") else None
    if scheme is None:
        raise TypeError(
            f"this Redis is found by a {kind.__qualname__}, which has no address that stays. "
            f"{_INSTEAD}"
        )
    _check_options(about)
    options = _tls_options(kind, about) if scheme == "rediss" else {}
    return _written(scheme, about, options)


def _check_options(about: Mapping[str, Any]) -> None:
    for name in ("credential_provider", "redis_connect_func"):
        if about.get(name) is not None:
            raise ValueError(f"{name} of this Redis does not go into an address. {_INSTEAD}")


def _tls_options(kind: type, about: Mapping[str, Any]) -> dict[str, str]:
    """What was set about certificates, as an address has it."""
    usual = {each.name: each.default for each in signature(kind).parameters.values()}
    found = {}
    for name, value in about.items():
        if name.startswith("ssl_") and value != usual.get(name):
            if name not in _TLS or not isinstance(value, str | bool):
                raise ValueError(f"{name} of this Redis does not go into an address. {_INSTEAD}")
            found[name] = str(value)
    return found


def _written(scheme: str, about: Mapping[str, Any], options: Mapping[str, str]) -> str:
    names = [quote(about.get(name) or "", safe="") for name in ("username", "password")]
    login = f"{':'.join(names)}@" if any(names) else ""
    database = about.get("db") or 0
    if scheme == "unix":
        return f"unix://{login}{quote(about['path'])}?db={database}"
    host = quote(about.get("host", "localhost"), safe=":")
    place = f"[{host}]" if ":" in host else host
    query = f"?{urlencode(options)}" if options else ""
    return f"{scheme}://{login}{place}:{about.get('port', 6379)}/{database}{query}"
