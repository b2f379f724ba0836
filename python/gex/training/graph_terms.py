"""Arithmetic on the values of an FX graph: each operation adds an ATen node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

_aten = torch.ops.aten


def call(graph: Graph, target: Any, *args: Any, **kwargs: Any) -> Node:
    """A node with its fake value; the fake values of its operands determine it."""
    node = graph.call_function(target, args, kwargs)
    values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
    node.meta["val"] = target(*values, **kwargs)
    return node


@dataclass(frozen=True)
class Term:
    """A value of the graph; numbers mix with it as Python numbers do with tensors."""

    graph: Graph
    node: Node

    def _call(self, tensor: Any, scalar: Any, left: Any, right: Any) -> Term:
        a = left.node if isinstance(left, Term) else left
        b = right.node if isinstance(right, Term) else right
        target = tensor if isinstance(b, Node) else scalar
        return Term(self.graph, call(self.graph, target, a, b))

    def __add__(self, other: Term | float) -> Term:
        return self._call(_aten.add.Tensor, _aten.add.Scalar, self, other)

    def __sub__(self, other: Term | float) -> Term:
        return self._call(_aten.sub.Tensor, _aten.sub.Scalar, self, other)

    def __mul__(self, other: Term | float) -> Term:
        return self._call(_aten.mul.Tensor, _aten.mul.Scalar, self, other)

    def __truediv__(self, other: Term | float) -> Term:
        return self._call(_aten.div.Tensor, _aten.div.Scalar, self, other)

    def __neg__(self) -> Term:
        return Term(self.graph, call(self.graph, _aten.neg.default, self.node))

    def __rsub__(self, other: float) -> Term:
        return Term(self.graph, call(self.graph, _aten.rsub.Scalar, self.node, other))

    def __rpow__(self, base: float) -> Term:
        return Term(self.graph, call(self.graph, _aten.pow.Scalar, base, self.node))

    def sqrt(self) -> Term:
        return Term(self.graph, call(self.graph, _aten.sqrt.default, self.node))

    def sum_of_squares(self) -> Term:
        squares = (self.to(torch.float32) * self.to(torch.float32)).node
        return Term(self.graph, call(self.graph, _aten.sum.default, squares))

    def at_most(self, limit: float) -> Term:
        return Term(self.graph, call(self.graph, _aten.clamp_max.default, self.node, limit))

    def larger_of(self, other: Term) -> Term:
        return Term(self.graph, call(self.graph, _aten.maximum.default, self.node, other.node))

    def at(self, index: int) -> Term:
        return Term(self.graph, call(self.graph, _aten.select.int, self.node, 0, index))

    def to(self, dtype: torch.dtype) -> Term:
        if self.node.meta["val"].dtype == dtype:
            return self
        copy = call(self.graph, _aten._to_copy.default, self.node, dtype=dtype)
        return Term(self.graph, copy)
