"""What gex says about PyTorch's tensors: dtypes, types, memory layouts."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gex._gex import Dim, DType, Type
from gex.symbols import Symbols

DTYPES: dict[torch.dtype, DType] = {
    torch.float64: DType.f64,
    torch.float32: DType.f32,
    torch.float16: DType.f16,
    torch.bfloat16: DType.bf16,
    torch.int64: DType.i64,
    torch.int32: DType.i32,
    torch.int16: DType.i16,
    torch.int8: DType.i8,
    torch.uint8: DType.u8,
    torch.bool: DType.boolean,
}


def why_unsupported(tensor: torch.Tensor) -> str | None:
    """Why a tensor can't be a value of a Graph; None if it can."""
    if tensor.dtype not in DTYPES:
        return f"dtype {tensor.dtype}"
    if tensor.layout != torch.strided:
        return f"layout {tensor.layout}"
    if tensor.device.type != "cpu":
        return f"device {tensor.device}"
    if tensor.is_neg() or tensor.is_conj():
        return "a lazily negated or conjugated tensor"
    return None


def type_of(tensor: torch.Tensor, symbols: Symbols) -> Type:
    return Type(DTYPES[tensor.dtype], symbols.dims(tensor.shape), symbols.dims(tensor.stride()))


def storage_of(tensor: torch.Tensor) -> int:
    """Equal for tensors (fake ones too) that share memory."""
    return tensor.untyped_storage()._cdata


def fills_its_memory(shape: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    """Whether the strides are those of a dense tensor with its axes in some order."""
    left = [(d, s) for d, s in zip(shape, strides) if d.constant != 1]
    if any(d.constant == 0 for d, _ in left):
        return True
    expected = Dim(1)
    while left:
        for i, (size, stride) in enumerate(left):
            if stride == expected:
                expected = expected * size
                del left[i]
                break
        else:
            return False
    return True
