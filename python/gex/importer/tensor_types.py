"""gex types of PyTorch's tensors: dtypes, types, memory layouts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gex._gex import Dim, DType, Type
from gex.importer.graph_device import CPU
from gex.importer.symbols import Symbols

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


@dataclass(frozen=True)
class Layout:
    """Sizes, strides and offset in elements from the start of the storage."""

    shape: list[Dim]
    strides: list[Dim]
    offset: Dim

    @property
    def fills_its_memory(self) -> bool:
        """Whether the strides are those of a dense tensor with permuted axes."""
        return self.memory_order() is not None

    def memory_order(self) -> list[int] | None:
        """The axes from the slowest to the fastest if they leave no gaps, else None."""
        left = [k for k, size in enumerate(self.shape) if size.constant != 1]
        unit = [k for k, size in enumerate(self.shape) if size.constant == 1]
        if any(size.constant == 0 for size in self.shape):
            return list(range(len(self.shape)))
        order: list[int] = []
        expected = Dim(1)
        while left:
            axis = next((k for k in left if self.strides[k] == expected), None)
            if axis is None:
                return None
            left.remove(axis)
            order.insert(0, axis)
            expected = expected * self.shape[axis]
        return unit + order


def why_unsupported(tensor: torch.Tensor, device: torch.device = CPU) -> str | None:
    """Why native ops of a graph on `device` can't take a tensor; None if they can."""
    if tensor.dtype not in DTYPES:
        return f"dtype {tensor.dtype}"
    if tensor.layout != torch.strided:
        return f"layout {tensor.layout}"
    if tensor.device != device:
        return f"device {tensor.device} in a graph on {device}"
    if tensor.is_neg() or tensor.is_conj():
        return "a lazy negation or conjugation"
    return None


def type_of(tensor: torch.Tensor, symbols: Symbols) -> Type:
    return Type(DTYPES[tensor.dtype], symbols.dims(tensor.shape), symbols.dims(tensor.stride()))


def layout_of(tensor: torch.Tensor, symbols: Symbols) -> Layout:
    return Layout(
        symbols.dims(tensor.shape),
        symbols.dims(tensor.stride()),
        symbols.dim(tensor.storage_offset()),
    )


def storage_of(tensor: torch.Tensor) -> int:
    """Equal for tensors (fake ones too) that share memory."""
    return tensor.untyped_storage()._cdata
