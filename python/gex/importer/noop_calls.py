"""Calls that change nothing. With `remove_noop_ops=False` they stay in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

_aten, _prims = torch.ops.aten, torch.ops.prims

# Whether, for equal sizes, the other arguments make such a call a no-op.
Harmless = Callable[[tuple[Any, ...]], bool]


def _always(args: tuple[Any, ...]) -> bool:
    return True


def _on_integers(args: tuple[Any, ...]) -> bool:
    return not args[0].meta["val"].dtype.is_floating_point


def _pads_nothing(args: tuple[Any, ...]) -> bool:
    return all(isinstance(p, int) and p == 0 for p in args[1])


# Position of the argument that such a call returns, and the condition.
_TABLE: dict[Any, tuple[int, Harmless]] = {
    _aten.slice.Tensor: (0, _always),
    _aten.slice_scatter.default: (1, _always),
    _aten.repeat.default: (0, _always),
    _aten.constant_pad_nd.default: (0, _pads_nothing),
    _aten._to_copy.default: (0, _always),
    _prims.convert_element_type.default: (0, _always),
    _prims.device_put.default: (0, _always),
    _aten.ceil.default: (0, _on_integers),
    _aten.floor.default: (0, _on_integers),
    _aten.round.default: (0, _on_integers),
    _aten.trunc.default: (0, _on_integers),
    _aten.pow.Tensor_Scalar: (0, lambda args: args[1] == 1),
    _aten.view.default: (0, _always),
    _aten.reshape.default: (0, _always),
    _aten.view.dtype: (0, _always),
    _aten.copy.default: (1, _always),
    _aten.alias.default: (0, _always),
    _aten.clone.default: (0, _always),
}


def source_of(target: Any, args: tuple[Any, ...], result: Any) -> Node | None:
    """The argument that the call returns unchanged; None if it is not a no-op."""
    position, harmless = _TABLE.get(target, (0, None))
    if target is _aten.cat.default:
        args = tuple(args[0])
        harmless = _always if len(args) == 1 else None
    if harmless is None or len(args) <= position:
        return None
    source = args[position]
    if not isinstance(source, Node) or not _alike(source.meta.get("val"), result):
        return None
    return source if harmless(args) else None


def _alike(one: Any, other: Any) -> bool:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    sizes = [tuple(str(s) for s in (*t.shape, *t.stride())) for t in (one, other)]
    return (one.dtype, one.device, sizes[0]) == (other.dtype, other.device, sizes[1])
