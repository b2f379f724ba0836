"""Known bounds of the elements of integer tensors, as sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from gex._gex import Dim
from gex.importer.symbols import NotADim, Symbols

_aten = torch.ops.aten
_MAX_DEPTH = 24


@dataclass(frozen=True)
class Range:
    low: Dim
    high: Dim  # inclusive

    def inside(self, low: Dim, high: Dim) -> bool:
        """Whether the range provably lies between these two."""
        return (self.low - low).low >= 0 and (high - self.high).low >= 0


class IndexRanges:
    """Derives bounds through integer arithmetic on positions (arange, +, -, *, clamp, argmax,
    ...)."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._known: dict[Node, Range | None] = {}

    def of(self, value: Any, depth: int = 0) -> Range | None:
        if isinstance(value, Node) and isinstance(value.meta.get("val"), torch.Tensor):
            if value not in self._known:
                self._known[value] = self._of_node(value, depth)
            return self._known[value]
        number = value.meta.get("val") if isinstance(value, Node) else value
        if isinstance(number, (int, torch.SymInt)):
            try:
                dim = self._symbols.dim(number)
            except NotADim:
                return None
            return Range(dim, dim)
        return None

    def _of_node(self, node: Node, depth: int) -> Range | None:
        if node.meta["val"].dtype == torch.bool:
            return Range(Dim(0), Dim(1))
        if node.op != "call_function" or depth >= _MAX_DEPTH:
            return None
        if node.target is operator.getitem:
            return self._of_item(node)
        packet = getattr(node.target, "overloadpacket", None)
        if packet in _SAME_ELEMENTS:
            return self.of(node.args[0], depth + 1)
        rule = _RULES.get(packet)
        if rule is None:
            return None
        return rule(self, node, depth + 1)

    def _of_item(self, node: Node) -> Range | None:
        """The indices returned by a sort, a topk or a maximum along an axis."""
        source, index = node.args
        packet = getattr(source.target, "overloadpacket", None)
        if packet not in _PLACES or index != 1:
            return None
        place = _PLACES[packet]
        axis = source.args[place] if place < len(source.args) else source.kwargs.get("dim", -1)
        shape = source.args[0].meta["val"].shape
        size = shape[axis] if len(shape) else 1
        return Range(Dim(0), self._symbols.dim(size) - Dim(1))


def _arange(ranges: IndexRanges, node: Node, depth: int) -> Range | None:
    bounds = [known for a in node.args if (known := ranges.of(a, depth)) is not None]
    if len(bounds) != len(node.args) or len(bounds) > 2:
        return None
    start = bounds[0].low if len(bounds) == 2 else Dim(0)
    return Range(start, bounds[-1].high - Dim(1))


def _sum(sign: int) -> Callable[[IndexRanges, Node, int], Range | None]:
    def rule(ranges: IndexRanges, node: Node, depth: int) -> Range | None:
        a, b = (ranges.of(arg, depth) for arg in node.args[:2])
        if a is None or b is None or len(node.args) > 2 or "alpha" in node.kwargs:
            return None
        if sign > 0:
            return Range(a.low + b.low, a.high + b.high)
        return Range(a.low - b.high, a.high - b.low)

    return rule


def _product(ranges: IndexRanges, node: Node, depth: int) -> Range | None:
    a, b = (ranges.of(arg, depth) for arg in node.args[:2])
    if a is None or b is None or a.low.low < 0 or b.low.low < 0:
        return None
    return Range(a.low * b.low, a.high * b.high)


def _clamped(ranges: IndexRanges, node: Node, depth: int) -> Range | None:
    low, high = (ranges.of(a, depth) for a in (*node.args[1:3], None, None)[:2])
    if low is None or high is None:
        return None
    return Range(Dim.min(low.low, high.low), high.high)


def _remainder(ranges: IndexRanges, node: Node, depth: int) -> Range | None:
    divisor = ranges.of(node.args[1], depth)
    if divisor is None or divisor.low.low <= 0:
        return None
    return Range(Dim(0), divisor.high - Dim(1))


def _either(ranges: IndexRanges, node: Node, depth: int) -> Range | None:
    a, b = (ranges.of(arg, depth) for arg in node.args[1:3])
    return None if a is None or b is None else Range(Dim.min(a.low, b.low), Dim.max(a.high, b.high))


def _place_of_extremum(ranges: IndexRanges, node: Node, depth: int) -> Range | None:
    shape = node.args[0].meta["val"].shape
    size = node.args[0].meta["val"].numel()
    if len(node.args) > 1 and node.args[1] is not None and len(shape):
        size = shape[node.args[1]]
    count = ranges.of(size, depth)
    return None if count is None else Range(Dim(0), count.high - Dim(1))


_SAME_ELEMENTS = {
    _aten.alias,
    _aten.clone,
    _aten.contiguous,
    _aten.detach,
    _aten.expand,
    _aten.flip,
    _aten.permute,
    _aten.repeat,
    _aten.reshape,
    _aten.select,
    _aten.slice,
    _aten.squeeze,
    _aten.t,
    _aten.transpose,
    _aten.unsqueeze,
    _aten.view,
}
# Position of the axis argument for ops whose second result is an index along it.
_PLACES = {_aten.sort: 1, _aten.topk: 2, _aten.max: 1, _aten.min: 1}
_RULES: dict[Any, Callable[[IndexRanges, Node, int], Range | None]] = {
    _aten.add: _sum(1),
    _aten.arange: _arange,
    _aten.argmax: _place_of_extremum,
    _aten.argmin: _place_of_extremum,
    _aten.clamp: _clamped,
    _aten.full: lambda ranges, node, depth: ranges.of(node.args[1], depth),
    _aten.mul: _product,
    _aten.remainder: _remainder,
    _aten.sub: _sum(-1),
    _aten.where: _either,
    _aten.zeros: lambda ranges, node, depth: Range(Dim(0), Dim(0)),
    _aten.zeros_like: lambda ranges, node, depth: Range(Dim(0), Dim(0)),
}
