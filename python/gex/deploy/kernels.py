"""Kernels of the user's in C and C++ (gex/kernel.h) for custom operators of PyTorch."""

from __future__ import annotations

import os
from typing import Any

import torch

from gex.compat.operators import OpOverload, OpOverloadPacket
from gex.deploy.library import check, library

_kernels: dict[Any, str] = {}


def load_kernels(path: str | os.PathLike[str]) -> None:
    """Opens a shared library whose static objects register kernels, ops and passes."""
    check(library().gex_load_kernels(os.fspath(path).encode()))


def use_kernel(op: Any, kernel: str) -> None:
    """Names the kernel that computes a custom operator in model files.

    `op` is "namespace::name", an operator of torch.ops or one that torch.library.custom_op made.
    Its fake implementation is the shape rule. The kernel gets the operator's tensors as inputs and
    its other arguments, by name, as JSON in the parameters.
    """
    for overload in _overloads(op):
        _kernels[overload] = kernel


def kernel_of(target: Any) -> str | None:
    return _kernels.get(target)


def _overloads(op: Any) -> list[Any]:
    name = getattr(op, "_qualname", op)
    if isinstance(name, str):
        namespace, _, rest = name.partition("::")
        if not rest:
            raise ValueError(f"{name!r} is no operator: write it as 'namespace::name'")
        name, _, overload = rest.partition(".")
        op = getattr(getattr(torch.ops, namespace), name)
        if overload:
            op = getattr(op, overload)
    if isinstance(op, OpOverload):
        return [op]
    if isinstance(op, OpOverloadPacket):
        return [getattr(op, overload) for overload in op.overloads()]
    raise TypeError(f"{op!r} is no operator of PyTorch")
