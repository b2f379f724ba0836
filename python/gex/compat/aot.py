"""AOTAutograd: the function itself, its partitioner, and helpers of its wrappers."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as _config
from torch._functorch._aot_autograd import runtime_wrappers
from torch._functorch._aot_autograd.schemas import OutputType, PlainTensorMeta
from torch._functorch.partitioners import min_cut_rematerialization_partition

__all__ = [
    "OutputType",
    "PlainTensorMeta",
    "aot_autograd",
    "compiled_autograd",
]

# Looked up once: every call of a compiled graph uses them.
peek_transforms = torch._C._functorch.peek_interpreter_stack
is_transform_tensor = torch._C._functorch.is_functorch_wrapped_tensor
is_deterministic = torch._C._get_deterministic_algorithms
is_view = torch.Tensor._is_view
is_autocast_enabled = torch._C._is_any_autocast_enabled


def compiles_autograd() -> bool:
    """Whether compiled autograd is on, which inlines AOTAutograd's own nodes."""
    return torch._dynamo.config.compiled_autograd


def effect_tokens_inside_graphs() -> contextlib.AbstractContextManager[Any]:
    """Context in which effect tokens are created inside graphs instead of being arguments."""
    return _config.patch(unlift_effect_tokens=True)


def min_cut_partition(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
    """PyTorch's partition into forward and backward, which may recompute values that a backward
    reads from memory."""
    with _config.patch(ban_recompute_materialized_backward=False):
        return min_cut_rematerialization_partition(joint, *args, **kwargs)


def tangent_as_traced(gradient: Any, meta: Any) -> Any:
    """A gradient with the type and the memory layout that the backward was traced with."""
    if type(gradient) is not torch.Tensor:
        return runtime_wrappers.AOTDispatchAutograd.process_runtime_tangent(gradient, meta)[0]
    return runtime_wrappers.coerce_to_expected_memory_format(gradient, meta.memory_format)
