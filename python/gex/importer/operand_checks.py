"""Values that eager mode rejects and native code would not: indices out of range, divisors of 0,
probabilities above 1, masks with too many elements.

The check (smallest and largest index, whether a divisor is 0) is computed natively; Python is
called only to raise the error. Values that are known to be valid cost nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from gex._gex import AtenFacts, Dim, DType, Importer, Type, Value
from gex.errors import IndexOutOfRange
from gex.importer.index_ranges import IndexRanges
from gex.importer.symbols import NotADim, Symbols
from gex.importer.tensor_types import DTYPES
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


def _of_each_element(args: Sequence[Any]) -> list[Index]:
    return [Index(args[1], args[0].meta["val"].numel(), from_the_end=True)]


def _of_cells(args: Sequence[Any]) -> list[Index]:
    sizes = [size.meta["val"] if isinstance(size, Node) else size for size in args[2]]
    return [Index(args[1], math.prod(sizes))]


def _of_targets(args: Sequence[Any]) -> list[Index]:
    scores = args[0].meta["val"]
    classes = scores.shape[1 if scores.dim() > 1 else 0]
    return [Index(args[1], classes, ignored=args[4])]


_Indices = AtenFacts.Indices
_INDICES: dict[AtenFacts.Indices, Callable[[Sequence[Any]], list[Index]]] = {
    _Indices.along_axis: _along_axis,
    _Indices.along_axis_from_ends: _along_axis_from_ends,
    _Indices.cells: _of_cells,
    _Indices.classes: _of_targets,
    _Indices.each_axis: _of_each_axis,
    _Indices.each_element: _of_each_element,
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


def _refuse_size(name: str, location: str, found: Any, size: int) -> NoReturn:
    where = f" at {location}" if location else ""
    raise RuntimeError(
        f"{name}{where}: the data gives a size of {int(found)}, but the program needs {size}: it "
        "asserts that size, or combines the result with a tensor that has it"
    )


def _refuse_fraction(name: str, location: str, place: str) -> NoReturn:
    where = f" at {location}" if location else ""
    raise RuntimeError(f"{name}{where}: all elements of {place} should be between 0 and 1")


def _refuse_mask(name: str, location: str, trues: Any, available: int) -> NoReturn:
    where = f" at {location}" if location else ""
    raise RuntimeError(
        f"{name}{where}: the mask has {int(trues)} true elements, but the source only {available}"
    )


def _refuse_bags(name: str, location: str, first: Any, last: Any, count: int) -> NoReturn:
    where = f" at {location}" if location else ""
    raise RuntimeError(
        f"{name}{where}: offsets must begin with 0 and end within the {count} indices; they begin "
        f"with {int(first)} and end with {int(last)}"
    )


def _has_no_elements(val: torch.Tensor) -> bool:
    return any(type(size) is int and size == 0 for size in val.shape)


def is_empty(node: Node) -> bool:
    return _has_no_elements(node.meta["val"])


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
        if facts.divisor >= 0 and not val.is_floating_point() and not _has_no_elements(val):
            self._add_divisor(args, args[facts.divisor], val, env, steps)
        if facts.values in _VALUES:
            _VALUES[facts.values](self, args, env, steps)

    def add_size(
        self, importer: Importer, found: Value, size: Dim, name: str, location: str
    ) -> None:
        """A number found in data must be a size that is known without it."""
        _Steps(importer, name, location, self._callees).require_size(found, size)

    def _add_index(self, index: Index, env: dict[Node, Any], steps: _Steps) -> None:
        fake = index.tensor.meta["val"]
        if is_empty(index.tensor) or fake.dtype not in (torch.int64, torch.int32):
            return
        try:
            size = self._symbols.dim(index.size)
        except NotADim:
            return
        low = Dim(0) - size if index.from_the_end else Dim(0)
        tensor = _without_repeats(index.tensor)
        key = (tensor, low, size)
        known = self._ranges.of(index.tensor)
        if key in self._done or (known and known.inside(low, size - Dim(1))):
            return
        self._done.add(key)
        steps.require_range(env[tensor], index, low, size)

    def add_fractions(self, args: Sequence[Any], env: dict[Node, Any], steps: _Steps) -> None:
        for place, node in zip(("input", "target"), args):
            if not is_empty(node):
                steps.require_fractions(env[node], place)

    def add_few_trues(self, args: Sequence[Any], env: dict[Node, Any], steps: _Steps) -> None:
        """Each element of the mask is repeated where it is broadcast."""
        x, mask, source = (node.meta["val"] for node in args[:3])
        if is_empty(args[1]):
            return
        try:
            repeats = self._symbols.dim(x.numel() // mask.numel())
            available = self._symbols.dim(source.numel())
        except NotADim:
            return
        steps.require_few_trues(env[args[1]], repeats, available)

    def add_bag_starts(self, args: Sequence[Any], env: dict[Node, Any], steps: _Steps) -> None:
        if not is_empty(args[2]):
            count = self._symbols.dim(args[1].meta["val"].numel())
            steps.require_bag_starts(env[args[2]], count)

    def _add_divisor(
        self, args: Sequence[Any], divisor: Any, val: Any, env: dict[Node, Any], steps: _Steps
    ) -> None:
        size = divisor.meta.get("val") if isinstance(divisor, Node) else divisor
        if not isinstance(size, torch.Tensor):
            if isinstance(args[0], Node) and not statically_known_true(size != 0):
                self._add_number(env[args[0]], size, DTYPES[val.dtype], steps)
            return
        key = (divisor, Dim(0), Dim(0))
        known = self._ranges.of(divisor)
        if key in self._done or (known and known.low.low > 0):
            return
        self._done.add(key)
        steps.require_no_zero(env[divisor])

    def _add_number(self, dividend: Value, divisor: Any, dtype: DType, steps: _Steps) -> None:
        try:
            steps.require_not_zero(self._symbols.dim(divisor), dividend, dtype)
        except NotADim:
            return


# Views that have every element of their operand.
_REPEATING = (
    torch.ops.aten.expand.default,
    torch.ops.aten.unsqueeze.default,
    torch.ops.aten.view.default,
    torch.ops.aten.permute.default,
)


def _without_repeats(tensor: Node) -> Node:
    """The operand of views: what they repeat is checked once. A view without elements is within
    every range."""
    while tensor.target in _REPEATING and isinstance(tensor.args[0], Node):
        if not all(isinstance(n, int) and n > 0 for n in tensor.meta["val"].shape):
            break
        tensor = tensor.args[0]
    return tensor


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
        axes = list(range(len(value.type.shape)))  # of no indices: within every range
        lowest = self._native("aten.amin.default", [value, axes], scalar)
        highest = self._native("aten.amax.default", [value, axes], scalar)
        above = self._native("aten.ge.Scalar", [lowest, low], flag)
        below = self._native("aten.lt.Scalar", [highest, size], flag)
        fits = self._native("aten.logical_and.default", [above, below], flag)
        self._require(fits, [lowest, highest], [size], refuse_index)

    def require_no_zero(self, value: Value) -> None:
        flags, flag = Type(DType.boolean, value.type.shape), Type(DType.boolean, [])
        fits = self._native("aten.ne.Scalar", [value, 0], flags)
        self._require(self._native("aten.all.default", [fits], flag), [], [], _refuse_zero)

    def require_not_zero(self, divisor: Dim, dividend: Value, dtype: DType) -> None:
        """Nothing is divided if the dividend has no elements."""
        shape, flag = dividend.type.shape, Type(DType.boolean, [])
        zeros = self._native("aten.mul.Scalar", [dividend, 0], Type(dtype, shape))
        fits = self._native("aten.ne.Scalar", [zeros, divisor], Type(DType.boolean, shape))
        self._require(self._native("aten.all.default", [fits], flag), [], [], _refuse_zero)

    def require_fractions(self, value: Value, place: str) -> None:
        scalar, flag = Type(value.type.dtype, []), Type(DType.boolean, [])
        axes = list(range(len(value.type.shape)))  # of no elements: within the range
        lowest = self._native("aten.amin.default", [value, axes], scalar)
        highest = self._native("aten.amax.default", [value, axes], scalar)
        above = self._native("aten.ge.Scalar", [lowest, 0], flag)
        below = self._native("aten.le.Scalar", [highest, 1], flag)
        fits = self._native("aten.logical_and.default", [above, below], flag)
        self._require(fits, [], [], functools.partial(_refuse_fraction, place=place))

    def require_few_trues(self, mask: Value, repeats: Dim, available: Dim) -> None:
        count, flag = Type(DType.i64, []), Type(DType.boolean, [])
        trues = self._native("aten.sum.default", [mask], count)
        trues = self._native("aten.mul.Scalar", [trues, repeats], count)
        fits = self._native("aten.le.Scalar", [trues, available], flag)
        self._require(fits, [trues], [available], _refuse_mask)

    def require_bag_starts(self, starts: Value, indices: Dim) -> None:
        one, flag = Type(starts.type.dtype, []), Type(DType.boolean, [])
        first = self._native("aten.select.int", [starts, 0, 0], one)
        last = self._native("aten.select.int", [starts, 0, -1], one)
        begins = self._native("aten.eq.Scalar", [first, 0], flag)
        ends = self._native("aten.le.Scalar", [last, indices], flag)
        fits = self._native("aten.logical_and.default", [begins, ends], flag)
        self._require(fits, [first, last], [indices], _refuse_bags)

    def require_size(self, found: Value, size: Dim) -> None:
        fits = self._native("aten.eq.Scalar", [found, size], Type(DType.boolean, []))
        self._require(fits, [found], [size], _refuse_size)

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


_Values = AtenFacts.Values
_VALUES: dict[
    AtenFacts.Values, Callable[[ValueChecks, Sequence[Any], dict[Node, Any], _Steps], None]
] = {
    _Values.fractions: ValueChecks.add_fractions,
    _Values.few_trues: ValueChecks.add_few_trues,
    _Values.bag_starts: ValueChecks.add_bag_starts,
}
