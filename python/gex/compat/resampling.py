"""Resampling as one op each in traced graphs.

PyTorch traces aten.upsample_* as gathers with tensors of positions (`py_impl` of the autograd key),
also where no decomposition is asked for. gex converts the ops themselves. Their gradients lack
sizes that PyTorch can compute with symbols, so they are added here.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true

_aten = torch.ops.aten
_Key = torch._C.DispatchKey
_KEYS = (_Key.Autograd, _Key.CompositeImplicitAutograd)
# They take align_corners.
_ALIGNED = (
    *("upsample_linear1d", "upsample_bilinear2d"),
    *("upsample_trilinear3d", "upsample_bicubic2d"),
)
_NEAREST = tuple(
    f"{kind}{n}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)
)
_lock = threading.Lock()
_users = 0
_kernels: dict[Any, dict[Any, Any]] = {}  # of PyTorch, while `whole` is active


def _by_sizes(op: Any) -> Callable[..., torch.Tensor]:
    """The overload with a list of factors or sizes, by the one with sizes."""

    def call(
        x: torch.Tensor, output_size: Any, *rest: Any, scale_factors: Any = None
    ) -> torch.Tensor:
        *align, factors = rest if scale_factors is None else (*rest, scale_factors)
        if any(statically_known_true(size == 0) for size in x.size()):
            # PyTorch's checks of the op with sizes fail on an empty batch of symbolic images.
            return _kernels[op.vec][_Key.Autograd](x, output_size, *align, factors)
        sizes = upsample_compute_output_size(x.size(), output_size, factors)
        scales = factors if factors else [None] * len(sizes)
        return op.default(x, sizes, *align, *scales)

    return call


def _gradient_sizes(
    gradient: torch.Tensor, output_size: Any, input_size: Any, *rest: Any
) -> torch.Tensor:
    """What the gradient op returns for a traced tensor; PyTorch's own takes no symbols."""
    order = suggest_memory_format(gradient)
    return gradient.new_empty(input_size).to(memory_format=order)


def _replace() -> None:
    for name in (*_ALIGNED, *_NEAREST):
        packet = getattr(_aten, name)
        for overload in (packet.default, packet.vec):
            _kernels[overload] = dict(overload.py_kernels)
            for key in _KEYS:
                overload.py_kernels.pop(key, None)
            overload._dispatch_cache.clear()
        for key in _KEYS:
            packet.vec.py_kernels[key] = _by_sizes(packet)
        backward = getattr(_aten, f"{name}_backward").default
        _kernels[backward] = dict(backward.py_kernels)
        backward.py_kernels.setdefault(_Key.Meta, _gradient_sizes)
        backward._dispatch_cache.clear()


def _restore() -> None:
    for overload, kernels in _kernels.items():
        overload.py_kernels.clear()
        overload.py_kernels.update(kernels)
        overload._dispatch_cache.clear()
    _kernels.clear()


@contextlib.contextmanager
def whole_resampling() -> Iterator[None]:
    """Context in which traces have aten.upsample_* with sizes as single nodes."""
    global _users
    with _lock:
        if _users == 0:
            _replace()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _restore()
