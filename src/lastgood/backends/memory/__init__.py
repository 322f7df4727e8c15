"""A store that lasts as long as its process; those who write one of their own begin here."""

from lastgood.backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
