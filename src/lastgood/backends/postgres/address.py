"""Addresses of PostgreSQL databases: read once, and shown without any secret.

What the driver says about an address that it cannot read may quote a part of the password, so none
of it is passed on.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import psycopg
from psycopg import conninfo
from psycopg.pq import Conninfo

CONNECT_SECONDS = 5
"""How long an attempt to connect may take, and the wait for a free one while nobody is served."""
_LIVELY: dict[str, str | int] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "target_session_attrs": "read-write",
}
"""What a connection string gets that does not say otherwise: a dead peer is noticed, and a replica
is no place to look for heads."""

_UNREADABLE = (
    "the connection string is not one that PostgreSQL understands (it is not shown here: it may "
    "hold a password). Write postgresql://user:password@host:port/database, with @ / : ? # and % "
    "in a password as %40 %2F %3A %3F %23 and %25; or host=... user=... password='...'."
)


def parsed(dsn: str) -> dict[str, Any]:
    """The parts of a connection string; raises ValueError, without quoting any of it."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        raise ValueError(_UNREADABLE + _reason(dsn)) from None
    if _was_cut_wrongly(dsn) or not str(parts.get("port") or "0").replace(",", "").isdecimal():
        raise ValueError(_UNREADABLE)
    return parts


def _reason(dsn: str) -> str:
    """What is wrong with it, where that can be told without a piece of a password."""
    scheme, found, rest = dsn.partition("://")
    if found and "+" in scheme:
        return f" It begins with postgresql://, not with {scheme}://."
    place, _, query = rest.partition("?")
    if not found or "@" in query or ("@" not in place and ":" in place):
        return ""
    unknown = sorted(name for name, _ in parse_qsl(query) if name not in _known())
    for ours in ("schema", "pool_size"):
        if ours in unknown:
            return f" Pass {ours}=... beside it, or use Client.open, which takes ?{ours}= in it."
    return f" PostgreSQL knows no option {unknown[0]!r}." if unknown else ""


def _known() -> set[str]:
    return {option.keyword.decode() for option in Conninfo.get_defaults()}


def _was_cut_wrongly(dsn: str) -> bool:
    """Whether a URL has an @ where none can be: the end of a password that was not quoted."""
    if "://" not in dsn:
        return False
    place = dsn.partition("://")[2].partition("?")[0]
    authority, _, rest = place.partition("/")
    return authority.count("@") > 1 or "@" in rest


def lively(dsn: str) -> str:
    """The same with our defaults for all that it does not say."""
    given = parsed(dsn)
    return conninfo.make_conninfo(dsn, **{k: v for k, v in _LIVELY.items() if k not in given})


def shown(parts: dict[str, Any]) -> str:
    """An address without a secret."""
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = str(parts.get("host") or parts.get("hostaddr") or "")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"
