"""`fmt="pickle"`: any object that pickle can write, signed, and read only if the signature holds.

The one place in Lastgood that pickles. A pickle runs code when it is read, so only what was signed
with the same key is: the signature is checked over all bytes before the first of them is looked at.
"""

from __future__ import annotations

import hmac
import pickle
from collections.abc import Mapping
from typing import Any

from lastgood.errors import (
    CheckpointIntegrityError,
    IncompatibleCheckpointError,
    SerializationError,
    WrongKeyError,
)
from lastgood.objects.copying import LEAVE_OUT
from lastgood.objects.culprits import culprit
from lastgood.objects.keys import Key
from lastgood.objects.states import CLASS, PICKLE, VERSION, State
from lastgood.paths import shortened

_PROTOCOL = 5
_DOMAIN = b"lastgood pickle 1\0"


def pickled(state: State, key: Key) -> State:
    """A state as signed bytes; the words that say what it is stay readable."""
    data = _dumped(state)
    words: State = {word: state[word] for word in (VERSION, CLASS) if word in state}
    return {**words, PICKLE: {"data": data, "key": key.name, "signature": _signature(key, data)}}


def unpickled(stored: Mapping[str, Any], key: Key) -> State:
    """The state behind signed bytes; raises before it reads what this key did not sign."""
    body = stored[PICKLE]
    data, signature = body["data"], body["signature"]
    if body["key"] != key.name:
        raise WrongKeyError(
            "this pickle was signed with another key than the one here, which is from "
            f"{key.origin}. It was not read: a pickle runs code.",
            hint="Bring the key of the machine that wrote it, or pass key=.",
        )
    if not hmac.compare_digest(signature, _signature(key, data)):
        raise CheckpointIntegrityError(
            f"this pickle was changed after it was signed (key from {key.origin}). It was not "
            "read: a pickle runs code.",
            hint="Load another checkpoint of its key, by nth= or checkpoint_id=.",
        )
    return _loaded(data)


def _loaded(data: bytes) -> State:
    try:
        found: State = pickle.loads(data)
    except Exception as error:
        raise IncompatibleCheckpointError(
            f"this pickle cannot be read here: {error!r}.",
            hint="Let the classes in it be found under the names that they had, then load again.",
        ) from error
    return found


def _signature(key: Key, data: bytes) -> bytes:
    return hmac.digest(key.secret, _DOMAIN + data, "sha256")


def _dumped(state: State) -> bytes:
    try:
        return pickle.dumps(state, _PROTOCOL)
    except Exception as error:  # whatever the code of a class in there raises
        steps = culprit(state, lambda part: pickle.dumps(part, _PROTOCOL))
        where = shortened(steps, "state")
        raise SerializationError(
            f"{where}: it cannot be pickled ({error}).", path=where, hint=LEAVE_OUT
        ) from error
