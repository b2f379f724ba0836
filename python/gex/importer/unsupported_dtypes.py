"""Tensors that a Graph has no dtype for, as tensors that it can carry from call to call.

A complex tensor travels as its real view with a last axis of two, anything else as integers of the
same width. Native ops never touch what is carried; calls get back what was put in.
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
def carrier_of(dtype: torch.dtype) -> torch.dtype | None:
    """The dtype that carries this one; itself if a Graph has it, None if nothing can."""
    if dtype in DTYPES:
        return dtype
    if dtype.is_complex:
        return _REAL_OF[dtype]
    return None if dtype in QUANTISED else _INTEGER_OF_WIDTH.get(dtype.itemsize)


def is_carried(tensor: torch.Tensor) -> bool:
    return tensor.dtype not in DTYPES


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether its memory holds the negation or the conjugate of what it means."""
    return tensor.is_neg() or tensor.is_conj()


def why_not_carried(tensor: torch.Tensor) -> str | None:
    """Why a tensor can't be a value of a Graph in any form; None if it can."""
    if carrier_of(tensor.dtype) is None:
        return f"dtype {tensor.dtype}"
    if tensor.layout != torch.strided:
        return f"layout {tensor.layout}"
    if tensor.device.type != "cpu":
        return f"device {tensor.device}"
    return None


def carry(tensor: torch.Tensor) -> torch.Tensor:
    """What travels in place of a tensor; shares its memory unless that holds lazy bits."""
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype.is_complex:
        return torch.view_as_real(tensor)
    carrier = carrier_of(tensor.dtype)
    return tensor if carrier is tensor.dtype else tensor.view(carrier)


def carry_argument(tensor: torch.Tensor) -> torch.Tensor:
    """As `carry`, with the strides that the tensor has."""
    if is_lazy(tensor):
        plain = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
        tensor = plain.copy_(tensor)
    return carry(tensor)


def uncarry(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.view_as_complex(tensor) if dtype.is_complex else tensor.view(dtype)


def same_carrier(target: Any, of: torch.Tensor, result: torch.Tensor) -> bool:
    """Whether the op only renames a tensor: what carries the result is what carries the operand."""
    if target in (_aten.view_as_real.default, _aten.view_as_complex.default):
        return True
    is_rename = target is _aten.view.dtype and not of.dtype.is_complex
    return is_rename and carrier_of(of.dtype) == carrier_of(result.dtype) and not is_lazy(of)


def layout_of(tensor: torch.Tensor, symbols: Symbols) -> Layout:
    """How a tensor, or what carries it, lies in memory."""
    plain = tensor_types.layout_of(tensor, symbols)
    if not tensor.dtype.is_complex:
        return plain
    two = Dim(2)
    strides = [*(s * two for s in plain.strides), Dim(1)]
    return Layout([*plain.shape, two], strides, plain.offset * two)


def type_of_any(tensor: torch.Tensor, symbols: Symbols) -> Type:
    """The type of a tensor, or of what carries it."""
    layout = layout_of(tensor, symbols)
    return Type(DTYPES[carrier_of(tensor.dtype)], layout.shape, layout.strides)


def type_of_result(tensor: torch.Tensor, symbols: Symbols) -> Type:
    """The same for what a call gives; elements that share memory come out apart."""
    layout = layout_of(tensor, symbols)
    shares = any(s.constant == 0 and n.constant != 1 for n, s in zip(layout.shape, layout.strides))
    return Type(DTYPES[carrier_of(tensor.dtype)], layout.shape, None if shares else layout.strides)
