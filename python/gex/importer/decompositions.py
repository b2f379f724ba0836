"""PyTorch's own decomposition of one node, traced on the node's fake values."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from gex._gex import AtenFacts
from gex.compat import operators
from gex.compat.fake_tensors import FakeTensorMode
from gex.compat.pytree import tree_flatten, tree_unflatten
from gex.importer.encoder_layer import transformer_encoder_layer
from gex.importer.grid_sampler import grid_sampler_2d, grid_sampler_2d_backward
from gex.importer.symbols import Symbols
from gex.op_facts import facts_of

_aten = torch.ops.aten


def _smooth_l1_loss_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, beta: float
) -> torch.Tensor:
    """NaN where x is, as in eager mode; PyTorch's rule gives 0 there, the sign of NaN."""
    rule = operators.decomposition_of(_aten.smooth_l1_loss_backward.default)
    assert rule is not None
    result = rule(grad, x, target, reduction, beta)
    difference = x - target
    return result if beta == 0 else torch.where(difference.isnan(), difference, result)


_OWN_RULES: dict[Any, Callable[..., Any]] = {
    _aten.smooth_l1_loss_backward.default: _smooth_l1_loss_backward,
    _aten.grid_sampler_2d.default: grid_sampler_2d,
    _aten._transformer_encoder_layer_fwd.default: transformer_encoder_layer,
}
# For f32 and f64 PyTorch's kernel is faster than scatters.
_OWN_RULES_OF_LOW_FLOATS: dict[Any, Callable[..., Any]] = {
    _aten.grid_sampler_2d_backward.default: grid_sampler_2d_backward,
}


def _rule(target: Any, leaves: list[Any]) -> Callable[..., Any] | None:
    if target in _OWN_RULES:
        return _OWN_RULES[target]
    if target in _OWN_RULES_OF_LOW_FLOATS and any(_is_low_float(leaf) for leaf in leaves):
        return _OWN_RULES_OF_LOW_FLOATS[target]
    if isinstance(target, types.FunctionType):
        return target  # a function of tensors is its own decomposition
    rule = operators.core_decompositions().get(target)
    if rule is not None:
        return rule
    # PyTorch's full table also has rules that replace a linear algorithm by a quadratic one.
    if facts_of(target).decomposition == AtenFacts.Decomposition.any:
        return operators.decomposition_of(target)
    return operators.own_decomposition_of(target)


class Decomposer:
    """Decompositions of the nodes of one graph; equal nodes are traced once."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._traced: dict[Any, torch.fx.GraphModule | str] = {}

    def __call__(
        self, target: Any, args: Any, kwargs: Any, mode: FakeTensorMode | None
    ) -> torch.fx.GraphModule | str:
        """A graph over the tensor arguments, in tree order; else the reason why there is none.

        `args` and `kwargs` have fake values of this mode in place of nodes.
        """
        leaves, spec = tree_flatten(_plain((args, kwargs)))
        rule = _rule(target, leaves)
        if rule is None:
            return "it has no decomposition"
        floats_only = facts_of(target).decomposition == AtenFacts.Decomposition.of_floats
        if floats_only and torch.int64 in leaves:
            return "its decomposition truncates where eager does not"
        key = (target, spec, tuple(self._key(leaf) for leaf in leaves))
        if key not in self._traced:
            self._traced[key] = _trace(rule, leaves, spec, mode)
        return self._traced[key]

    def _key(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            sizes = tuple(str(s) for s in (*leaf.shape, *leaf.stride()))
            return (leaf.dtype, leaf.dim(), sizes)
        if isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return str(leaf.node.expr)
        return (type(leaf), repr(leaf))


def _is_low_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.float16, torch.bfloat16)


def _plain(tree: Any) -> Any:
    """The same with plain lists and dicts, which decompositions may change."""
    if isinstance(tree, (list, tuple)):
        return (list if isinstance(tree, list) else tuple)(_plain(t) for t in tree)
    if isinstance(tree, dict):
        return {k: _plain(t) for k, t in tree.items()}
    return tree


def _trace(
    rule: Callable[..., Any], leaves: list[Any], spec: Any, mode: FakeTensorMode | None
) -> torch.fx.GraphModule | str:
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def run(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for position, tensor in zip(positions, tensors):
            filled[position] = tensor
        args, kwargs = tree_unflatten(filled, spec)
        result = rule(*args, **kwargs)
        return tuple(result) if isinstance(result, (list, tuple)) else result

    try:
        with mode or contextlib.nullcontext():
            return make_fx(run)(*(leaves[i] for i in positions))
    except Exception as problem:  # rules reject arguments in many ways; the reason is reported
        return f"its decomposition fails ({type(problem).__name__}: {str(problem)[:120]})"
