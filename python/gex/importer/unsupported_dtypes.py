"""Tensors of dtypes that a Graph lacks, represented by tensors of supported dtypes.

A complex tensor is represented by its real view with a last axis of two, any other by integers of
the same width. Native ops never use such a representation; calls convert it back.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from gex._gex import Dim, Type
from gex.importer import tensor_types
from gex.importer.symbols import Symbols
from gex.importer.tensor_types import DTYPES, Layout

_aten = torch.ops.aten
_REAL_OF = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
_INTEGER_OF_WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
QUANTISED = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}


@functools.cache
def representing_dtype(dtype: torch.dtype) -> torch.dtype | None:
    """The dtype that represents this one; itself if a Graph supports it, None if none can."""
    if dtype in DTYPES:
        return dtype
    if dtype.is_complex:
        return _REAL_OF[dtype]
    return None if dtype in QUANTISED else _INTEGER_OF_WIDTH.get(dtype.itemsize)


def is_represented(tensor: torch.Tensor) -> bool:
    return tensor.dtype not in DTYPES


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether its memory holds the negation or the conjugate of its values."""
    return tensor.is_neg() or tensor.is_conj()


def why_not_representable(tensor: torch.Tensor, device: torch.device) -> str | None:
    """Why a tensor can't be a value of a Graph on `device` in any form; None if it can."""
    if representing_dtype(tensor.dtype) is None:
        return f"dtype {tensor.dtype}"
    if tensor.layout != torch.strided:
        return f"layout {tensor.layout}"
    if tensor.device != device:
        return f"device {tensor.device} in a graph on {device}"
    return None


def represent(tensor: torch.Tensor) -> torch.Tensor:
    """The representation of a tensor; shares its memory unless it is lazily negated or
    conjugated."""
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype.is_complex:
        return torch.view_as_real(tensor)
    dtype = representing_dtype(tensor.dtype)
    return tensor if dtype is tensor.dtype else tensor.view(dtype)


def represent_argument(tensor: torch.Tensor) -> torch.Tensor:
    """Like `represent`, keeping the tensor's strides."""
    if is_lazy(tensor):
        plain = torch.empty_strided(
            tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )
        tensor = plain.copy_(tensor)
    return represent(tensor)


def restore(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.view_as_complex(tensor) if dtype.is_complex else tensor.view(dtype)


def same_representation(target: Any, of: torch.Tensor, result: torch.Tensor) -> bool:
    """Whether the op only renames a tensor: operand and result have the same representation."""
    if target in (_aten.view_as_real.default, _aten.view_as_complex.default):
        return True
    is_rename = target is _aten.view.dtype and not of.dtype.is_complex
    return (
        is_rename
        and representing_dtype(of.dtype) == representing_dtype(result.dtype)
        and not is_lazy(of)
    )


def layout_of(tensor: torch.Tensor, symbols: Symbols) -> Layout:
    """The memory layout of a tensor or of its representation."""
    plain = tensor_types.layout_of(tensor, symbols)
    if not tensor.dtype.is_complex:
        return plain
    two = Dim(2)
    strides = [*(s * two for s in plain.strides), Dim(1)]
    return Layout([*plain.shape, two], strides, plain.offset * two)


def type_of_any(tensor: torch.Tensor, symbols: Symbols) -> Type:
    """The type of a tensor or of its representation."""
    layout = layout_of(tensor, symbols)
    return Type(DTYPES[representing_dtype(tensor.dtype)], layout.shape, layout.strides)


def type_of_result(tensor: torch.Tensor, symbols: Symbols) -> Type:
    """The same for the result of a call, whose elements never overlap."""
    layout = layout_of(tensor, symbols)
    shares = any(s.constant == 0 and n.constant != 1 for n, s in zip(layout.shape, layout.strides))
    return Type(
        DTYPES[representing_dtype(tensor.dtype)], layout.shape, None if shares else layout.strides
    )
