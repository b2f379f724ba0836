"""Grouped matmuls of transformers' experts, with a traceable gradient.

The gradient of `transformers::grouped_mm_fallback` loops over the numbers in a tensor, which can't
be traced. Before AOTAutograd sees a graph, its calls are replaced by an equivalent operator whose
gradients are operators again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule

_library = torch.library.Library("gex", "FRAGMENT")
_library.define("grouped_mm(Tensor input, Tensor weight, Tensor offs) -> Tensor")
_library.define("grouped_mm_weight_grad(Tensor input, Tensor grad, Tensor offs) -> Tensor")

_FALLBACK = "transformers.grouped_mm_fallback"


def with_traceable_gradients(gm: GraphModule) -> None:
    """Replaces the calls in a Dynamo graph, and in its regions, by `gex::grouped_mm`."""
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        found = [
            n for n in module.graph.nodes if str(n.target) in (_FALLBACK, f"{_FALLBACK}.default")
        ]
        for node in found:
            node.target = torch.ops.gex.grouped_mm.default
        if found:
            module.recompile()


def _groups(offs: torch.Tensor) -> Iterator[tuple[int, slice]]:
    """Groups with rows, and their rows."""
    start = 0
    for group, end in enumerate(offs.tolist()):
        if end > start:
            yield group, slice(start, end)
            start = end


def _grouped_mm(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    result = input.new_zeros(input.shape[0], weight.shape[2])
    for group, rows in _groups(offs):
        torch.mm(input[rows], weight[group], out=result[rows])
    return result


def _weight_grad(input: torch.Tensor, grad: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    result = input.new_zeros(offs.shape[0], input.shape[1], grad.shape[1])
    for group, rows in _groups(offs):
        torch.mm(input[rows].T, grad[rows], out=result[group])
    return result


def _like_product(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    return input.new_empty(input.shape[0], weight.shape[2])


def _like_weights(input: torch.Tensor, grad: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    return input.new_empty(offs.shape[0], input.shape[1], grad.shape[1])


def _keep_operands(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(
    ctx: Any, grad: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    input, weight, offs = ctx.saved_tensors
    ops = torch.ops.gex
    of_input = (
        ops.grouped_mm(grad, weight.transpose(1, 2), offs) if ctx.needs_input_grad[0] else None
    )
    of_weight = ops.grouped_mm_weight_grad(input, grad, offs) if ctx.needs_input_grad[1] else None
    return of_input, of_weight, None


_library.impl("grouped_mm", _grouped_mm, "CompositeExplicitAutograd")
_library.impl("grouped_mm_weight_grad", _weight_grad, "CompositeExplicitAutograd")
torch.library.register_fake("gex::grouped_mm", _like_product, lib=_library)
torch.library.register_fake("gex::grouped_mm_weight_grad", _like_weights, lib=_library)
torch.library.register_autograd(
    "gex::grouped_mm", _gradients, setup_context=_keep_operands, lib=_library
)
