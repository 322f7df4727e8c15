"""Numpy arrays and scalars, without importing numpy.

Owns their two kinds. Arrays of objects are refused: their bytes would be pointers. Invariant:
a restored array owns its memory, is writable and equals the stored one; Fortran order may
come back as C order.
"""

from __future__ import annotations

import codecs
import math
import re
import sys
from typing import Any

from lastgood.codec.kinds import Kind, Number, Refused, Unresolved
from lastgood.codec.labels import ancestry, namespace

_KINDS = frozenset("biufcSUVmM")
_CHARACTER = {"S": 1, "U": 4}
_PLAIN = re.compile(r"[<>|=]?[biufcSUVmM?][0-9]*(\[[0-9A-Za-z]+\])?")


def array_kind(cls: type) -> Kind | None:
    """The kind of numpy's array class or of one of its scalar classes."""
    numpy = namespace(sys.modules.get("numpy"))
    if not numpy:
        return None
    if cls is numpy.get("ndarray"):
        return ARRAY
    scalar = numpy.get("generic") in ancestry(cls) and cls.__module__ == "numpy"
    return SCALAR if scalar else None


def _numpy() -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise Unresolved("numpy:ndarray", "module 'numpy' is not imported here")
    return numpy


def _describe(dtype: Any) -> object:
    """The dtype as data; refused unless exactly the same dtype comes back."""
    layout = _numpy().lib.format
    if not _storable(dtype):
        raise Refused(f"a numpy array of dtype {dtype} cannot be stored")
    if not _told_by_layout(dtype):
        raise Refused("a numpy dtype with metadata, or of numpy.record, cannot be stored")
    description = layout.dtype_to_descr(dtype)
    if layout.descr_to_dtype(description) != dtype:
        raise Refused(f"the numpy dtype {dtype} cannot be described as data")
    return description


def _storable(dtype: Any) -> bool:
    return dtype.kind in _KINDS and not dtype.hasobject


def _told_by_layout(dtype: Any) -> bool:
    """Whether a dtype has nothing that the equality of dtypes passes over, at any depth."""
    if dtype.metadata or (dtype.kind == "V" and dtype.type is not _numpy().void):
        return False
    if dtype.subdtype:
        return _told_by_layout(dtype.base)
    return all(_told_by_layout(inner) for inner, *_ in (dtype.fields or {}).values())


def _dtype(description: object) -> Any:
    _check(description)
    dtype = _numpy().lib.format.descr_to_dtype(description)
    if not _storable(dtype):  # numpy refuses the disguises it knows; bytes must never be pointers
        raise ValueError("not a dtype of plain data")
    return dtype


def _check(description: object) -> None:
    """Let only strings of plain dtypes through: numpy's own parser takes objects, and far more."""
    if type(description) is str:
        if not _PLAIN.fullmatch(description):
            raise ValueError("not a plain dtype")
    elif type(description) is list:
        for _, inner, *_ in description:
            _check(inner)
    elif type(description) is tuple:
        _check(description[0])
    else:
        raise ValueError("not a dtype")


def _take_array(value: Any) -> object:
    return [_describe(value.dtype), list(value.shape), _raw(value).tobytes()]


def _raw(value: Any) -> Any:
    """The same array of bytes: where fields have gaps, numpy copies the fields alone, and whatever
    was in the memory of the copy stays between them.
    """
    return value.view(f"V{value.dtype.itemsize}") if value.dtype.names else value


def _make_array(body: Any) -> Any:
    description, shape, data = body
    dtype = _dtype(description)
    if math.prod(shape) * dtype.itemsize != len(data) or min(shape, default=0) < 0:
        raise ValueError("array and shape differ in size")
    if not data:
        return _numpy().empty(tuple(shape), dtype)
    read = _numpy().ndarray(tuple(shape), dtype, buffer=data)
    made = _numpy().empty_like(read)
    _raw(made)[...] = _raw(read)
    return made


def _take_scalar(value: Any) -> object:
    return [_describe(value.dtype), value.tobytes()]


def _make_scalar(body: Any) -> object:
    description, data = body
    dtype = _dtype(description)
    if dtype.kind not in "SU":
        return _make_array([description, [], data])[()]
    # An array would cut zeros off their end; and an empty one gives bytes, though it has no size.
    if len(data) != max(dtype.itemsize, _CHARACTER[dtype.kind]):
        raise ValueError("text and its dtype differ in size")
    text = bytes(data[: dtype.itemsize])
    if dtype.kind == "S":
        return dtype.type(text)
    # Not `bytes.decode`, which imports a module of the standard library the first time.
    big = dtype.newbyteorder(">") == dtype
    decode = codecs.utf_32_be_decode if big else codecs.utf_32_le_decode
    return dtype.type(decode(text, "surrogatepass", True)[0])


ARRAY = Kind(Number.NDARRAY, "ndarray", _take_array, _make_array)
SCALAR = Kind(Number.NUMPY_SCALAR, "numpy", _take_scalar, _make_scalar)
