"""Element types of ONNX and NumPy's dtypes for them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

STRING = 8
# TensorProto.DataType by dtype name; dtypes that NumPy lacks come from ml_dtypes.
_NAMES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "complex64": 14,
    "complex128": 15,
    "bfloat16": 16,
    "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18,
    "float8_e5m2": 19,
    "float8_e5m2fnuz": 20,
    "uint4": 21,
    "int4": 22,
    "float4_e2m1fn": 23,
    "float8_e8m0fnu": 24,
    "uint2": 25,
    "int2": 26,
}
_BY_ELEMENT = {element: name for name, element in _NAMES.items()}


def element_of(dtype: np.dtype[Any]) -> int:
    """The element type of an array."""
    try:
        return _NAMES[dtype.name]
    except KeyError:
        raise TypeError(f"arrays of {dtype} have no element type in ONNX") from None


@functools.cache
def dtype_of(element: int) -> np.dtype[Any]:
    """The dtype of an element type; ImportError if it needs ml_dtypes."""
    name = _BY_ELEMENT[element]
    if hasattr(np, name) or name == "bool":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))
