"""Conversion of Python numbers, nested lists, arrays and dtypes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

from gex._gex import DType
from gex._gex import es as _es

Number = bool | int | float
Size = int | str
DTypeLike: TypeAlias = "DType | str | Any"

_FLOATS = {DType.f64, DType.f32, DType.f16, DType.bf16}
_NUMPY_NAMES = {
    "float64": DType.f64,
    "float32": DType.f32,
    "float16": DType.f16,
    "bfloat16": DType.bf16,
    "int64": DType.i64,
    "int32": DType.i32,
    "int16": DType.i16,
    "int8": DType.i8,
    "uint8": DType.u8,
    "bool": DType.boolean,
}
_OWN_NAMES = {("bool" if d is DType.boolean else d.name): d for d in _NUMPY_NAMES.values()}


def to_dtype(dtype: DTypeLike) -> DType:
    """A DType, its name ("f32"), or the dtype or dtype name of NumPy or PyTorch."""
    if isinstance(dtype, DType):
        return dtype
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = name.removeprefix("torch.")
    known = _OWN_NAMES.get(name) or _NUMPY_NAMES.get(name)
    if known is None:
        raise ValueError(f"{dtype!r} is not a tensor dtype; use one of {', '.join(_OWN_NAMES)}")
    return known


def to_sizes(shape: Iterable[Size]) -> list[Size]:
    """Integers that fit 64 bits, and expressions."""
    sizes: list[Size] = []
    for k, size in enumerate(shape):
        if not isinstance(size, str):
            try:
                size = operator.index(size)
            except TypeError:
                raise TypeError(
                    f"size {k} of the shape is {size!r}; sizes are integers or names: 8, 's0'"
                ) from None
            if not -(2**63) <= size < 2**63:
                raise ValueError(f"size {k} of the shape is {size}, which does not fit 64 bits")
        sizes.append(size)
    return sizes


def is_array(value: object) -> bool:
    return hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")


def flatten(value: Any) -> tuple[list[Number], list[int]]:
    """The numbers of a nested list or array and its shape; ValueError if it is ragged."""
    if is_array(value):
        return flatten(value.reshape(-1).tolist())[0], list(value.shape)
    if isinstance(value, (bool, int, float)):
        return [value], []
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"{value!r} of type {type(value).__name__} is neither a number nor a list of numbers"
        )
    numbers: list[Number] = []
    inner: list[int] | None = None
    for item in value:
        flat, shape = flatten(item)
        if inner is not None and shape != inner:
            raise ValueError(f"ragged list: items of shapes {shape} and {inner}")
        inner = shape
        numbers += flat
    return numbers, [len(value), *(inner or [])]


def dtype_beside(numbers: Sequence[Number], beside: DType | None) -> DType:
    """The dtype of the other operand if it can hold this kind of numbers."""
    if numbers and all(isinstance(n, bool) for n in numbers):
        return DType.boolean
    if any(isinstance(n, float) for n in numbers):
        return beside if beside in _FLOATS else DType.f32
    return DType.i64 if beside in (None, DType.boolean) else beside


def constant(
    builder: _es.Builder, numbers: Sequence[Number], shape: Sequence[Size], dtype: DType
) -> _es.Holder:
    sizes = cast("Sequence[int]", shape)  # a name is refused by the builder
    if any(isinstance(n, float) for n in numbers):
        return builder.constant_floats([float(n) for n in numbers], sizes, dtype)
    if numbers and all(isinstance(n, bool) for n in numbers):
        return builder.constant_bools([bool(n) for n in numbers], sizes, dtype)
    out_of_range = [n for n in numbers if not -(2**63) <= n < 2**63]
    if out_of_range:
        raise ValueError(f"{out_of_range[0]} does not fit 64 bits")
    return builder.constant_ints([int(n) for n in numbers], sizes, dtype)
