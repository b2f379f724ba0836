"""split: slices of equal size."""

from __future__ import annotations

from gex.es.holder import TensorHolder
from gex.es.ops import slice as slice_of


def split(x: TensorHolder, count: int, *, axis: int = 0) -> list[TensorHolder]:
    shape = x.shape
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"split: axis {axis} is out of range for {x.type}")
    axis %= len(shape)
    if count < 1 or shape[axis] < 0 or shape[axis] % count:
        raise ValueError(f"split: axis {axis} of {x.type} is not divisible by {count}")
    sizes = x.sizes
    sizes[axis] = part = shape[axis] // count
    parts = []
    for k in range(count):
        starts = [k * part if at == axis else 0 for at in range(len(shape))]
        parts.append(slice_of(x, starts=starts, steps=[1] * len(shape), sizes=sizes))
    return parts
