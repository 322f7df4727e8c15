"""The key that signs pickles: given by the caller, or made once for each user.

Owns the file of that key, in the user's data directory and never beside the data: whoever can
write a checkpoint must not be able to sign it. Must not know what is signed. Invariant: the file
is complete when it appears, and nobody but its owner can read it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from pathlib import Path
from typing import NamedTuple

from lastgood.errors import WrongKeyError

_BYTES = 32
_DIRECTORIES = {"darwin": "Library/Application Support", "win32": "AppData/Local"}


class Key(NamedTuple):
    """A secret, and where it comes from."""

    secret: bytes
    origin: str
    """For messages: the path of its file, or that the caller gave it."""

    @property
    def name(self) -> bytes:
        """What tells one key from another and says nothing about it."""
        return hashlib.sha256(b"lastgood key name\0" + self.secret).digest()[:8]

    def __repr__(self) -> str:
        return f"<Key {self.name.hex()} from {self.origin}>"


def given_key(secret: bytes | str) -> Key:
    """The key that a caller passed."""
    data = secret.encode() if isinstance(secret, str) else bytes(secret)
    if len(data) < 16:
        raise ValueError(f"key= has {len(data)} bytes; give at least 16, from secrets.token_bytes.")
    return Key(data, "the argument key=")


def own_key() -> Key:
    """The key of this user, made at the first use."""
    try:
        return _kept_key(key_path())
    except (OSError, RuntimeError) as error:  # the second: there is no home directory
        raise WrongKeyError(
            f"the key that signs pickles for this user can be neither read nor made: {error}.",
            hint="Pass key=, or give the user a home directory.",
        ) from error


def _kept_key(path: Path) -> Key:
    if not path.exists():
        _make(path)
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise WrongKeyError(f"{path} can be read by others.", hint=f"chmod 600 {path}")
    secret = path.read_bytes()
    if len(secret) != _BYTES:
        raise WrongKeyError(
            f"{path} is not a key: it has {len(secret)} bytes instead of {_BYTES}.",
            hint="Put the right file back, or pass key=.",
        )
    return Key(secret, str(path))


def key_path() -> Path:
    """Where the key of this user is."""
    below = _DIRECTORIES.get(sys.platform, ".local/share")
    return Path.home() / below / "lastgood" / "pickle.key"


def _make(path: Path) -> None:
    """Write beside, sync, link: of two processes that begin together, one key wins."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)
    except FileExistsError:
        pass
    finally:
        beside.unlink()
