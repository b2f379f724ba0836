"""Dropout with eager's numbers: PyTorch draws which elements are kept, kernels do the rest.

PyTorch's operator draws the same mask and then multiplies. Only the draw has to be PyTorch's, so
the multiplications can be fused with the producers of the input and the readers of the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from gex._gex import Value
from gex.compat.fake_tensors import unset_fake_temporarily
from gex.importer.graph_device import CPU

if TYPE_CHECKING:
    from gex.importer.node_import import Env, NodeImporter, OpCall

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_NATIVE_DROPOUT = torch.ops.aten.native_dropout.default
_MUL = "aten.mul.Tensor"


def draw_kept(sizes: list[int], strides: list[int], share: float) -> torch.Tensor:
    """Which elements are kept, drawn in the memory order of the input, as by the operator."""
    mask = torch.empty_strided(sizes, strides, dtype=torch.bool)
    return mask.bernoulli_(share) if share > 0 else mask.zero_()  # eager draws nothing for none


@dataclass(frozen=True)
class Dropout:
    """A call of the operator whose multiplications are computed natively."""

    x: Value
    p: float
    result: torch.Tensor  # fake
    mask: torch.Tensor  # fake

    @classmethod
    def of(cls, nodes: NodeImporter, target: Any, args: Any, val: Any, env: Env) -> Dropout | None:
        """None if it is another operator, or PyTorch must compute all of it."""
        if target is not _NATIVE_DROPOUT or nodes.device != CPU or nodes.native_only:
            return None
        x, p, train = args
        value = env.get(x) if isinstance(x, Node) else None
        if train is False or not isinstance(p, float) or not isinstance(value, Value):
            return None
        result, mask = val
        return cls(value, p, result, mask) if result.dtype in _FLOATS else None

    @property
    def draw(self) -> tuple[Any, ...]:
        """The function that draws the mask, and its arguments."""
        return (draw_kept, list(self.mask.shape), list(self.mask.stride()), 1.0 - self.p)

    def results(self, nodes: NodeImporter, kept: Value, call: OpCall) -> list[Value]:
        # Rounded as by eager's dropout, which divides the mask.
        with unset_fake_temporarily():
            mask = torch.tensor(float(self.p < 1), dtype=self.result.dtype)
            scale = mask.div_(1.0 - self.p if self.p < 1 else 1.0).item()
        call = replace(call, val=self.result, used=None)
        value = self.x
        for factor in (kept, scale):
            values = nodes.add_own_row(_MUL, [value, factor], call)
            assert values is not None, "a product of floats and a mask or a number has a row"
            value = values[0]
        return [value, kept]


def try_add(nodes: NodeImporter, call: OpCall, env: Env) -> list[Value] | None:
    """The result and the mask, or None if PyTorch must compute both."""
    dropout = Dropout.of(nodes, call.target, call.args, call.val, env)
    if dropout is None:
        return None
    target, *args = dropout.draw
    step = replace(
        call, target=target, args=args, kwargs={}, val=dropout.mask, label=call.name, used=None
    )
    return dropout.results(nodes, nodes.add_draw(step, env), call)
