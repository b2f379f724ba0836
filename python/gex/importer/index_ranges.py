"""Known bounds of the elements of integer tensors, as sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from gex._gex import AtenFacts, Dim
from gex.importer.symbols import NotADim, Symbols
from gex.op_facts import facts_of

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
        rule = _RULES.get(facts_of(node.target).range)
        return None if rule is None else rule(self, node, depth + 1)

    def _of_item(self, node: Node) -> Range | None:
        """The indices returned by a sort, a topk or a maximum along an axis."""
        source, index = node.args
        place = facts_of(source.target).places_axis
        if place < 0 or index != 1:
            return None
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


_Range = AtenFacts.Range
_RULES: dict[AtenFacts.Range, Callable[[IndexRanges, Node, int], Range | None]] = {
    _Range.chosen: _either,
    _Range.clamped: _clamped,
    _Range.counted: _arange,
    _Range.difference: _sum(-1),
    _Range.filled: lambda ranges, node, depth: ranges.of(node.args[1], depth),
    _Range.place: _place_of_extremum,
    _Range.product: _product,
    _Range.remainder: _remainder,
    _Range.same: lambda ranges, node, depth: ranges.of(node.args[0], depth),
    _Range.sum: _sum(1),
    _Range.zero: lambda ranges, node, depth: Range(Dim(0), Dim(0)),
}
