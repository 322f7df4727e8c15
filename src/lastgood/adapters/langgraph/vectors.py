"""Searching by meaning: texts of a value, their vectors, and how near each is. Exact, no index.

Uses NumPy where it is installed, and plain Python where it is not. Pure: the embedding function is
the user's, and is called by the store.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import ormsgpack
from langgraph.store.base import IndexConfig, get_text_at_path, tokenize_path

Vector = Sequence[float]


def texts_of(value: Any, index: IndexConfig, fields: Any) -> list[str]:
    """The texts of a value that are embedded: of the fields given, or of the configured ones."""
    paths: Iterable[str] = fields if fields is not None else index.get("fields") or ["$"]
    tokens = [path if path == "$" else tokenize_path(path) for path in paths]
    return [text for path in tokens for text in get_text_at_path(value, path)]


def check(made: Sequence[Vector], texts: int, dims: int | None) -> None:
    """Whether an embedding function did what it promised; raises ValueError."""
    if len(made) != texts:
        raise ValueError(f"the embedding function gave {len(made)} vectors for {texts} texts.")
    wrong = next((len(vector) for vector in made if dims and len(vector) != dims), None)
    if wrong is not None:
        raise ValueError(
            f"the embedding function gave a vector of {wrong} numbers, and index has "
            f"'dims': {dims}. Put the length of its vectors there."
        )


def pack(vectors: Sequence[Vector]) -> bytes:
    """Vectors as they are stored."""
    return ormsgpack.packb([array("d", vector).tobytes() for vector in vectors])


def read(data: bytes) -> list[Vector]:
    """Stored vectors."""
    found: list[Vector] = []
    for packed in ormsgpack.unpackb(data):
        vector = array("d")
        vector.frombytes(packed)
        found.append(vector)
    return found


def nearness(query: Vector, vectors: Sequence[Vector]) -> list[float]:
    """The cosine between a query and each vector; 0 where one of them has no direction."""
    if not vectors:
        return []
    return _by_numpy(query, vectors) if find_spec("numpy") else _plainly(query, vectors)


def _by_numpy(query: Vector, vectors: Sequence[Vector]) -> list[float]:
    import numpy as np

    matrix, sought = np.asarray(vectors, dtype=float), np.asarray(query, dtype=float)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(sought)
    products = matrix @ sought
    found: list[float] = np.divide(
        products, lengths, out=np.zeros_like(products), where=lengths != 0
    ).tolist()
    return found


def _plainly(query: Vector, vectors: Sequence[Vector]) -> list[float]:
    own = math.sqrt(math.fsum(x * x for x in query))
    found = []
    for vector in vectors:
        length = own * math.sqrt(math.fsum(x * x for x in vector))
        product = math.fsum(x * y for x, y in zip(query, vector, strict=True))
        found.append(product / length if length else 0.0)
    return found
