"""Whether padding a dim can change the unpadded values, determined op by op.

The function is run on fake tensors at two sizes. Dims that differ between the runs derive from the
padded one; an op is safe if its result at a position of such a dim does not depend on later
positions. What can't be shown to be safe is not padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gex.compat.fake_tensors import FakeTensorMode, TorchDispatchMode
from gex.compat.pytree import tree_leaves, tree_map_only

aten = torch.ops.aten
Sizes = tuple[tuple[int, ...], ...]

_REORDERS_NOTHING = {
    aten.view, aten._unsafe_view, aten.reshape, aten.transpose, aten.permute, aten.t, aten.expand,
    aten.unsqueeze, aten.squeeze, aten.clone, aten._to_copy, aten.detach, aten.alias, aten.stack,
    aten.embedding, aten.tril, aten.triu, aten.copy, aten.copy_, aten.contiguous,
    aten.lift_fresh_copy, aten._native_batch_norm_legit_no_training,
}  # fmt: skip
# They use only the sizes of a tensor.
_FACTORIES = {
    aten.new_ones, aten.new_zeros, aten.new_full, aten.new_empty, aten.ones_like, aten.zeros_like,
    aten.full_like, aten.empty_like,
}  # fmt: skip
_CONTRACTIONS = {
    aten.mm: 0,
    aten.bmm: 0,
    aten.addmm: 1,
    aten.baddbmm: 1,
    aten.matmul: 0,
    aten.mv: 0,
}
_OVER_DIMS = {
    aten._softmax, aten._log_softmax, aten.sum, aten.mean, aten.amax, aten.amin, aten.max, aten.min,
    aten.argmax, aten.argmin, aten.var, aten.var_mean, aten.std, aten.prod, aten.any, aten.all,
    aten.logsumexp, aten.linalg_vector_norm, aten.sort, aten.topk,
}  # fmt: skip
# Safe along other dims: the source position depends on the dim argument.
_ALONG_A_DIM = {
    aten.cat, aten.split, aten.split_with_sizes, aten.chunk, aten.unbind, aten.cumsum, aten.cumprod,
    aten.select, aten.slice,
}  # fmt: skip
_FROM_THE_FRONT = {aten.cumsum, aten.cumprod, aten.select, aten.slice}
_CAUSAL = {
    aten._scaled_dot_product_flash_attention_for_cpu: 4,
    aten._scaled_dot_product_flash_attention: 4,
    aten.scaled_dot_product_attention: 5,
}


@dataclass
class _Seen:
    op: Any
    inputs: Sizes
    outputs: Sizes
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass
class Run:
    """The ops and result sizes of a function at one size."""

    ops: list[_Seen] = field(default_factory=list)
    outputs: list[tuple[int, ...] | None] = field(default_factory=list)  # None: no tensor


class _Watch(TorchDispatchMode):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._run.ops.append(
            _Seen(func, _sizes((args, kwargs)), _sizes(result), args, dict(kwargs or {}))
        )
        return result


def _sizes(tree: Any) -> Sizes:
    return tuple(tuple(t.shape) for t in tree_leaves(tree) if isinstance(t, torch.Tensor))


def watch(fn: Callable[..., Any], args: Any, kwargs: Any) -> Run:
    """Runs `fn` on fake tensors: sizes of results and each op."""
    run = Run()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad(), _Watch(run):
        fake = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
        results = fn(*fake[0], **fake[1])
    run.outputs = [
        tuple(r.shape) if isinstance(r, torch.Tensor) else None for r in tree_leaves(results)
    ]
    return run


Growth = dict[int, int]  # dims that grow with the padding, and their growth per position


def why_not(one: Run, other: Run) -> str | None:
    """Why padding can't be shown to be safe, from runs at sizes that differ by one; None if it
    is."""
    if [s.op for s in one.ops] != [s.op for s in other.ops]:
        return "the function does not run the same ops for another size"
    for a, b in zip(one.ops, other.ops):
        padded = [_growth(x, y) for x, y in zip(a.inputs, b.inputs)]
        if any(padded):
            reason = _objection(a, b, padded)
            if reason is not None:
                return f"{a.op}: {reason}"
    for k, (x, y) in enumerate(zip(one.outputs, other.outputs)):
        if x is not None and y is not None and any(by != 1 for by in _growth(x, y).values()):
            return f"result {k} has padding between its values"
    return None


def _growth(one: Sequence[int], other: Sequence[int]) -> Growth:
    return {d: y - x for d, (x, y) in enumerate(zip(one, other)) if x != y}


def _objection(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    packet = a.op.overloadpacket
    if a.op.namespace == "prim" or packet in _FACTORIES:
        return None
    if torch.Tag.pointwise in a.op.tags or packet in _REORDERS_NOTHING:
        return None
    if packet in _CONTRACTIONS:
        left = _CONTRACTIONS[packet]
        return "sums over the padded dim" if len(a.inputs[left]) - 1 in padded[left] else None
    if packet in _OVER_DIMS:
        return _over_dims(a, padded[0])
    if packet in _ALONG_A_DIM:
        return _along_a_dim(a, b, padded)
    if packet in _CAUSAL:
        place = _CAUSAL[packet]
        given = a.arguments[place] if len(a.arguments) > place else False
        keys_padded = len(a.inputs[1]) - 2 in padded[1]
        causal = a.keywords.get("is_causal", given)
        return "attends to padded positions" if keys_padded and not causal else None
    if packet is aten.native_layer_norm:
        first = len(a.inputs[0]) - len(a.arguments[1])
        return "normalises over the padded dim" if any(d >= first for d in padded[0]) else None
    if packet is aten.native_batch_norm:
        return "normalises over the padded dim" if a.arguments[5] else None
    if packet is aten.convolution:
        return "slides over the padded dim" if set(padded[0]) - {0} else None
    return "not known to keep positions of the padded dim independent"


def _over_dims(a: _Seen, padded: Growth) -> str | None:
    rank = len(a.inputs[0])
    dims = a.keywords.get("dim", a.arguments[1] if len(a.arguments) > 1 else None)
    if a.op.overloadpacket is aten.topk:
        dims = a.arguments[2] if len(a.arguments) > 2 else -1
    if dims is None or isinstance(dims, (bool, torch.dtype)) or dims == []:
        return "reduces over the padded dim"
    listed = [dims] if isinstance(dims, int) else list(dims)
    over = {d % rank for d in listed}
    return "reduces over the padded dim" if over & set(padded) else None


def _along_a_dim(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    packet = a.op.overloadpacket
    place = 2 if packet in (aten.split, aten.split_with_sizes, aten.chunk) else 1
    dim = a.keywords.get("dim", a.arguments[place] if len(a.arguments) > place else 0)
    dim %= max(1, len(a.inputs[0]))
    growth = max((p.get(dim, 0) for p in padded), default=0)
    if growth == 0:
        return None
    if growth != 1 or packet not in _FROM_THE_FRONT:
        return "takes parts of the padded dim"
    first, other = ((s.arguments[2] if len(s.arguments) > 2 else 0) or 0 for s in (a, b))
    from_the_end = packet in (aten.select, aten.slice) and (first < 0 or first != other)
    return "takes positions from the end of the padded dim" if from_the_end else None
