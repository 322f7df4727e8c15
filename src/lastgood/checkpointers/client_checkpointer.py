"""The checkpointer on any client, whose methods are put together here."""

from __future__ import annotations

from lastgood.checkpointers.base import StateT
from lastgood.checkpointers.stored_notes import StoredNotes
from lastgood.checkpointers.stored_states import StoredStates
from lastgood.checkpointers.stored_threads import StoredThreads
from lastgood.checkpointers.values import CacheValues


class ClientCheckpointer(
    StoredStates[StateT], StoredThreads[StateT], StoredNotes[StateT], CacheValues[StateT]
):
    """Keeps threads and messages in the store of a client.

    Each state that is put is a checkpoint of its thread, by the agent "agent", so the attribute
    `client` serves for history, fork, diff and rewind. `cache_ttl` is the number of seconds for
    which `aput_state_cache` keeps a state. With `enforce_user_isolation=False`, a `user_id` names
    the owner of new threads, and hides nothing.
    """
