"""Operators: their type, their decompositions, and those with effects."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops import auto_functionalize, effects
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
from torch.fx.node import _side_effectful_functions

OpOverload = torch._ops.OpOverload
OpOverloadPacket = torch._ops.OpOverloadPacket
CHECK = torch._check  # states a fact for the tracer; computes nothing
# Calls of an operator that writes its arguments, on copies of them.
_FUNCTIONALIZED = {
    auto_functionalize.auto_functionalized,
    auto_functionalize.auto_functionalized_v2,
}


def has_registered_effect(target: Any, args: Any = ()) -> bool:
    """Whether calls to it must be kept although no results are used, and stay in order."""
    if target in _FUNCTIONALIZED and args:
        target = args[0]
    if target in _side_effectful_functions:
        return True
    return isinstance(target, OpOverload) and effects._get_effect(target) is not None


@functools.cache
def core_decompositions() -> dict[Any, Callable[..., Any]]:
    # The public function adds every op that is defined by others, which takes a quarter of a
    # second; those have a `decompose` of their own.
    return torch._decomp._core_aten_decompositions_post_autograd()


def decomposition_of(target: Any) -> Callable[..., Any] | None:
    """From PyTorch's full table."""
    return torch._decomp.decomposition_table.get(target)


def own_decomposition_of(target: Any) -> Callable[..., Any] | None:
    """The decomposition that an operator itself defines."""
    if isinstance(target, OpOverload) and target._can_decompose():
        return target.decompose
    return None


def run_on_bases(op: Any, bases: list[torch.Tensor], kwargs: dict[str, Any]) -> Any:
    """Runs an operator that writes its arguments on views of `bases`; returns its results, then
    the bases."""
    return auto_functionalize.auto_functionalized_v2_dense(op, (), _all_bases=bases, **kwargs)


def triton_kernel(index: int) -> Any:
    """The Triton kernel with this number in a traced launch."""
    return kernel_side_table.get_kernel(index)
