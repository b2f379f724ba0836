"""NumPy arrays, PyTorch tensors and DLPack objects as tensors of the C interface, and back."""

from __future__ import annotations

import ctypes as c
import sys
import weakref
from typing import Any

import numpy as np

from gex.deploy.library import CTensor, library

# In the order of gex_dtype.
NAMES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool")
_NUMPY = ("<f8", "<f4", "<f2", None, "<i8", "<i4", "<i2", "|i1", "|u1", "|b1")
_TORCH = (
    *("float64", "float32", "float16", "bfloat16"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
)
# ONNX types that gex represents by others with the same bits.
_SAME_BITS = {"uint16": "i16", "uint32": "i32", "uint64": "i64"}


def bfloat16() -> np.dtype[Any]:
    """NumPy has this dtype only with ml_dtypes; its bits need no extra package."""
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype("<u2")
    return np.dtype(ml_dtypes.bfloat16)


def numpy_dtype(number: int) -> np.dtype[Any]:
    name = _NUMPY[number]
    return bfloat16() if name is None else np.dtype(name)


def _number_of(dtype: np.dtype[Any]) -> int:
    name = _SAME_BITS.get(dtype.name)
    if name is not None:
        return NAMES.index(name)
    if dtype.name == "bfloat16":
        return NAMES.index("bf16")
    for number, known in enumerate(_NUMPY):
        if known is not None and np.dtype(known) == dtype:
            return number
    raise TypeError(f"arrays of {dtype} can't be passed to a model")


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


class Borrowed:
    """The caller's memory as a CTensor; `keep` must live as long as it is used."""

    def __init__(self, value: Any) -> None:
        if is_torch(value):
            tensor = value.detach()
            if tensor.device.type != "cpu":
                raise TypeError(
                    f"a tensor on {tensor.device} can't be passed to a model on the CPU"
                )
            name = str(tensor.dtype).removeprefix("torch.")
            if name not in _TORCH:
                raise TypeError(f"tensors of {tensor.dtype} can't be passed to a model")
            self.keep: Any = tensor
            number, data = _TORCH.index(name), tensor.data_ptr()
            shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        else:
            array = value if isinstance(value, np.ndarray) else _array_of(value)
            if not array.dtype.isnative:
                array = array.astype(array.dtype.newbyteorder("="))
            if any(step % max(array.itemsize, 1) for step in array.strides):
                array = np.ascontiguousarray(array)
            self.keep = array
            number, data = _number_of(array.dtype), array.ctypes.data
            shape = array.shape
            strides = tuple(step // max(array.itemsize, 1) for step in array.strides)
        self._shape = (c.c_int64 * len(shape))(*shape)
        self._strides = (c.c_int64 * len(shape))(*strides)
        self.tensor = CTensor(
            c.sizeof(CTensor), number, data, len(shape), self._shape, self._strides, None
        )


def _array_of(value: Any) -> np.ndarray[Any, Any]:
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def array_from(result: CTensor) -> np.ndarray[Any, Any]:
    """Library memory as an array; freed with the last array that shares it."""
    dtype = numpy_dtype(result.dtype)
    shape = tuple(result.shape[k] for k in range(result.rank))
    count = 1
    for size in shape:
        count *= size
    if count == 0:
        library().gex_tensor_release(c.byref(result))
        return np.empty(shape, dtype)
    memory = (c.c_uint8 * (count * dtype.itemsize)).from_address(result.data)
    weakref.finalize(memory, library().gex_tensor_release, c.byref(result))
    return np.frombuffer(memory, dtype=dtype).reshape(shape)


def torch_from(result: CTensor) -> Any:
    import torch

    is_bfloat16 = NAMES[result.dtype] == "bf16"
    array = array_from(result)
    if is_bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
