"""Values that eager mode rejects and native code would not: indices out of range, divisors of 0.

The check (smallest and largest index, whether a divisor is 0) is computed natively; Python is
called only to raise the error. Values that are known to be valid cost nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch.fx import Node

from gex._gex import AtenFacts, Dim, DType, Importer, Type, Value
from gex.errors import IndexOutOfRange
from gex.importer.index_ranges import IndexRanges
from gex.importer.symbols import NotADim, Symbols
from gex.op_facts import facts_of


@dataclass(frozen=True)
class Index:
    """An index tensor and the axis that it indexes."""

    tensor: Node
    size: Any
    from_the_end: bool = False  # negative indices count from the end
    ignored: int | None = None  # a value that is not an index


def _along_axis(args: Sequence[Any]) -> list[Index]:
    shape = args[0].meta["val"].shape
    return [Index(args[2], shape[args[1]] if len(shape) else 1)]


def _along_axis_from_ends(args: Sequence[Any]) -> list[Index]:
    return [replace(index, from_the_end=True) for index in _along_axis(args)]


def _of_lookup(args: Sequence[Any]) -> list[Index]:
    return [Index(args[1], args[0].meta["val"].shape[0])]


def _of_each_axis(args: Sequence[Any]) -> list[Index]:
    shape = args[0].meta["val"].shape
    return [Index(t, n, from_the_end=True) for t, n in zip(args[1], shape) if t is not None]


def _of_targets(args: Sequence[Any]) -> list[Index]:
    scores = args[0].meta["val"]
    classes = scores.shape[1 if scores.dim() > 1 else 0]
    return [Index(args[1], classes, ignored=args[4])]


_Indices = AtenFacts.Indices
_INDICES: dict[AtenFacts.Indices, Callable[[Sequence[Any]], list[Index]]] = {
    _Indices.along_axis: _along_axis,
    _Indices.along_axis_from_ends: _along_axis_from_ends,
    _Indices.classes: _of_targets,
    _Indices.each_axis: _of_each_axis,
    _Indices.rows: _of_lookup,
}


def takes_indices(target: Any) -> bool:
    return facts_of(target).indices != _Indices.none


def indices_of(target: Any, args: Sequence[Any]) -> list[Index]:
    """The index tensors among the arguments of an op."""
    return _INDICES[facts_of(target).indices](args) if takes_indices(target) else []


def refuse_index(name: str, location: str, low: Any, high: Any, size: int) -> NoReturn:
    where = f" at {location}" if location else ""
    raise IndexOutOfRange(
        f"{name}{where}: index out of range: indices range from {int(low)} to {int(high)}, "
        f"but the axis has {size} elements"
    )


def _refuse_zero(name: str, location: str) -> NoReturn:
    where = f" at {location}" if location else ""
    raise RuntimeError(f"ZeroDivisionError: {name}{where}: a divisor is 0")


class ValueChecks:
    """Adds the checks that the nodes of one graph need, each once."""

    def __init__(self, symbols: Symbols, callees: list[Callable[..., Any]]) -> None:
        self._symbols = symbols
        self._callees = callees
        self._ranges = IndexRanges(symbols)
        self._done: set[tuple[Node, Dim, Dim]] = set()

    def add(
        self,
        importer: Importer,
        target: Any,
        args: Sequence[Any],
        val: Any,
        env: dict[Node, Any],
        name: str,
        location: str,
    ) -> None:
        """For a node that became native."""
        steps = _Steps(importer, name, location, self._callees)
        facts = facts_of(target)
        for index in indices_of(target, args):
            self._add_index(index, env, steps)
        divisor = args[facts.divisor] if facts.divisor >= 0 else None
        if isinstance(divisor, Node) and not val.is_floating_point():
            self._add_divisor(divisor, env, steps)

    def _add_index(self, index: Index, env: dict[Node, Any], steps: _Steps) -> None:
        fake = index.tensor.meta["val"]
        is_empty = any(type(size) is int and size == 0 for size in fake.shape)
        if is_empty or fake.dtype not in (torch.int64, torch.int32):
            return
        try:
            size = self._symbols.dim(index.size)
        except NotADim:
            return
        low = Dim(0) - size if index.from_the_end else Dim(0)
        key = (index.tensor, low, size)
        known = self._ranges.of(index.tensor)
        if key in self._done or (known and known.inside(low, size - Dim(1))):
            return
        self._done.add(key)
        steps.require_range(env[index.tensor], index, low, size)

    def _add_divisor(self, divisor: Node, env: dict[Node, Any], steps: _Steps) -> None:
        key = (divisor, Dim(0), Dim(0))
        known = self._ranges.of(divisor)
        is_tensor = isinstance(divisor.meta.get("val"), torch.Tensor)
        if not is_tensor or key in self._done or (known and known.low.low > 0):
            return
        self._done.add(key)
        steps.require_no_zero(env[divisor])


@dataclass
class _Steps:
    """The native steps of the check of one node."""

    importer: Importer
    name: str
    location: str
    callees: list[Callable[..., Any]]

    def require_range(self, value: Value, index: Index, low: Dim, size: Dim) -> None:
        scalar, flag = Type(value.type.dtype, []), Type(DType.boolean, [])
        if index.ignored is not None:
            mask = Type(DType.boolean, value.type.shape)
            ignored = self._native("aten.eq.Scalar", [value, index.ignored], mask)
            plain = Type(value.type.dtype, value.type.shape)
            value = self._native("aten.masked_fill.Scalar", [value, ignored, 0], plain)
        lowest = self._native("aten.min.default", [value], scalar)
        highest = self._native("aten.max.default", [value], scalar)
        above = self._native("aten.ge.Scalar", [lowest, low], flag)
        below = self._native("aten.lt.Scalar", [highest, size], flag)
        fits = self._native("aten.logical_and.default", [above, below], flag)
        self._require(fits, [lowest, highest], [size], refuse_index)

    def require_no_zero(self, value: Value) -> None:
        flags, flag = Type(DType.boolean, value.type.shape), Type(DType.boolean, [])
        fits = self._native("aten.ne.Scalar", [value, 0], flags)
        self._require(self._native("aten.all.default", [fits], flag), [], [], _refuse_zero)

    def _require(
        self, fits: Value, operands: list[Value], sizes: list[Dim], refuse: Callable[..., NoReturn]
    ) -> None:
        callee = len(self.callees)
        self.importer.add_check(fits, operands, sizes, self.name, callee, self.location)
        self.callees.append(functools.partial(refuse, self.name, self.location))

    def _native(self, name: str, args: list[Any], result: Type) -> Value:
        values, reason = self.importer.add_node(name, args, [result], self.location)
        assert values is not None, f"{name}: {reason}"
        return values[0]
