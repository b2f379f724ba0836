"""Indices out of range: an error as in eager mode, where native gathers would clamp them.

The smallest and the largest index are computed natively and compared with the axis; only if they
don't fit is Python called, to raise. Indices that are known to fit cost nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch.fx import Node

from gex._gex import Dim, DType, Importer, Type, Value
from gex.errors import IndexOutOfRange
from gex.index_ranges import IndexRanges
from gex.symbols import NotADim, Symbols
from gex.tensors import DTYPES

_aten = torch.ops.aten


@dataclass(frozen=True)
class _Index:
    """An index tensor and the axis it goes into."""

    tensor: Node
    size: Any
    from_the_end: bool = False  # negative ones count from there
    ignored: int | None = None  # a value that is no index


def _along_axis(args: Sequence[Any]) -> list[_Index]:
    shape = args[0].meta["val"].shape
    return [_Index(args[2], shape[args[1]] if len(shape) else 1)]


def _of_lookup(args: Sequence[Any]) -> list[_Index]:
    return [_Index(args[1], args[0].meta["val"].shape[0])]


def _of_each_axis(args: Sequence[Any]) -> list[_Index]:
    shape = args[0].meta["val"].shape
    return [_Index(t, n, from_the_end=True) for t, n in zip(args[1], shape) if t is not None]


def _of_targets(args: Sequence[Any]) -> list[_Index]:
    scores = args[0].meta["val"]
    classes = scores.shape[1 if scores.dim() > 1 else 0]
    return [_Index(args[1], classes, ignored=args[4])]


_INDICES: dict[Any, Callable[[Sequence[Any]], list[_Index]]] = {
    _aten.embedding.default: _of_lookup,
    _aten.gather.default: _along_axis,
    _aten.index.Tensor: _of_each_axis,
    _aten.index_add.default: _along_axis,
    _aten.index_copy.default: _along_axis,
    _aten.index_fill.int_Scalar: _along_axis,
    _aten.index_fill.int_Tensor: _along_axis,
    _aten.index_put.default: _of_each_axis,
    _aten.index_select.default: _along_axis,
    _aten.nll_loss2d_forward.default: _of_targets,
    _aten.nll_loss_forward.default: _of_targets,
    _aten.scatter.reduce: _along_axis,
    _aten.scatter.src: _along_axis,
    _aten.scatter.value: _along_axis,
    _aten.scatter.value_reduce: _along_axis,
    _aten.scatter_add.default: _along_axis,
    _aten.scatter_reduce.two: _along_axis,
}


def _refuse(name: str, location: str, low: torch.Tensor, high: torch.Tensor, size: int) -> NoReturn:
    where = f" at {location}" if location else ""
    raise IndexOutOfRange(
        f"{name}{where}: index out of range: its indices reach from {int(low)} to {int(high)}, "
        f"but the axis they go into has {size} elements"
    )


class IndexChecks:
    """Adds to one graph the checks that its gathers and scatters need, each once."""

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
        env: dict[Node, Any],
        name: str,
        location: str,
    ) -> None:
        """For a node that became native."""
        for index in _INDICES[target](args) if target in _INDICES else ():
            fake = index.tensor.meta["val"]
            is_empty = any(type(size) is int and size == 0 for size in fake.shape)
            if is_empty or fake.dtype not in (torch.int64, torch.int32):
                continue
            try:
                size = self._symbols.dim(index.size)
            except NotADim:
                continue
            low = Dim(0) - size if index.from_the_end else Dim(0)
            key = (index.tensor, low, size)
            known = self._ranges.of(index.tensor)
            if key in self._done or (known and known.inside(low, size - Dim(1))):
                continue
            self._done.add(key)
            steps = _Steps(importer, location)
            lowest, highest, fits = steps.compare(env[index.tensor], index, fake, low, size)
            operands = [lowest, highest]
            importer.add_check(fits, operands, [size], name, len(self._callees), location)
            self._callees.append(functools.partial(_refuse, name, location))


@dataclass
class _Steps:
    importer: Importer
    location: str

    def compare(
        self, value: Value, index: _Index, fake: torch.Tensor, low: Dim, size: Dim
    ) -> tuple[Value, Value, Value]:
        """The smallest index, the largest, and whether both fit."""
        dtype = DTYPES[fake.dtype]
        scalar, flag = Type(dtype, []), Type(DType.boolean, [])
        if index.ignored is not None:
            mask = Type(DType.boolean, value.type.shape)
            ignored = self._native("aten.eq.Scalar", [value, index.ignored], mask)
            plain = Type(dtype, value.type.shape)
            value = self._native("aten.masked_fill.Scalar", [value, ignored, 0], plain)
        lowest = self._native("aten.min.default", [value], scalar)
        highest = self._native("aten.max.default", [value], scalar)
        above = self._native("aten.ge.Scalar", [lowest, low], flag)
        below = self._native("aten.lt.Scalar", [highest, size], flag)
        return lowest, highest, self._native("aten.logical_and.default", [above, below], flag)

    def _native(self, name: str, args: list[Any], result: Type) -> Value:
        values, reason = self.importer.add_node(name, args, [result], self.location)
        assert values is not None, f"{name}: {reason}"
        return values[0]
