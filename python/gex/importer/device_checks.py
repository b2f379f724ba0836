"""Indices out of range on a GPU: recorded by the kernels, reported at the next call.

A check on the host would have to wait for the device. Instead each index is clamped to its axis,
and an index that was out of range is recorded in a few words of pinned host memory. The runner
reads them before its next call, and `gex.synchronize` at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import torch
from torch.fx import GraphModule, Node

from gex._gex import Dim, DType, Importer, Type, Value
from gex.compat.fake_tensors import unset_fake_temporarily
from gex.importer.index_ranges import IndexRanges
from gex.importer.operand_checks import Index, indices_of, refuse_index, takes_indices
from gex.importer.symbols import NotADim, Symbols

_WORDS = 4  # number of the check (0: no error), smallest and largest index, size

_living: weakref.WeakSet[Refusals] = weakref.WeakSet()


class Refusals:
    """The words of one graph, and the names of its checks."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        with unset_fake_temporarily(), torch.inference_mode(False):
            pinned = device.type == "cuda"
            self.words = torch.zeros(_WORDS, dtype=torch.int64, device="cpu", pin_memory=pinned)
        self.checks: list[tuple[str, str]] = []  # name and location
        _living.add(self)

    def raise_if_any(self) -> None:
        if int(self.words[0]):
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raises the recorded error, if any, and clears it."""
        if self._device.type == "cuda":
            with suppress(RuntimeError):  # the message is the words' own
                torch.cuda.synchronize(self._device)
        number, low, high, size = self.words.tolist()
        self.words.zero_()
        name, location = self.checks[number - 1]
        refuse_index(name, location, low, high, size)


def synchronize() -> None:
    """Waits for the GPU and raises the first error that kernels of any graph recorded."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    for refusals in list(_living):
        refusals.raise_if_any()


class DeviceChecks:
    """Adds to one graph the checks that its nodes need."""

    def __init__(self, symbols: Symbols, device: torch.device) -> None:
        self.refusals = Refusals(device)
        self.words: Value | None = None  # as the checks so far leave them; set by the import
        self._symbols = symbols
        self._ranges = IndexRanges(symbols)
        self._inside: dict[tuple[Node, Dim, Dim], Value] = {}

    @staticmethod
    def are_needed(gm: GraphModule) -> bool:
        return any(
            node.op == "call_function" and takes_indices(node.target) for node in gm.graph.nodes
        )

    @property
    def type(self) -> Type:
        return Type(DType.i64, [Dim(_WORDS)])

    def guarded(
        self,
        importer: Importer,
        target: Any,
        args: Sequence[Any],
        env: dict[Node, Any],
        name: str,
        location: str,
    ) -> dict[Node, Value]:
        """The tensors that the node reads instead of its index tensors."""
        found = {}
        for index in indices_of(target, args):
            bounds = self._bounds(index)
            value = env.get(index.tensor)
            if bounds is None or not isinstance(value, Value):
                continue
            key = (index.tensor, *bounds)
            if key not in self._inside:
                steps = _Steps(importer, location)
                wide = steps.cast(value, DType.i64)  # bounds may be beyond 32 bits
                inside = steps.inside(wide, index, *bounds)
                self._inside[key] = steps.cast(inside, value.type.dtype)
                self._note(steps, wide, index, bounds, name, location)
            found[index.tensor] = self._inside[key]
        return found

    def _bounds(self, index: Index) -> tuple[Dim, Dim] | None:
        """Smallest index and size of the axis; None if every index is known to be inside."""
        fake = index.tensor.meta["val"]
        empty = any(type(size) is int and size == 0 for size in fake.shape)
        if empty or fake.dtype not in (torch.int32, torch.int64):
            return None
        try:
            size = self._symbols.dim(index.size)
        except NotADim:
            return None
        if size.low < 1:  # an axis without elements has no valid index
            return None
        low = Dim(0) - size if index.from_the_end else Dim(0)
        known = self._ranges.of(index.tensor)
        return None if known and known.inside(low, size - Dim(1)) else (low, size)

    def _note(
        self,
        steps: _Steps,
        value: Value,
        index: Index,
        bounds: tuple[Dim, Dim],
        name: str,
        location: str,
    ) -> None:
        assert self.words is not None
        self.refusals.checks.append((name, location))
        number = len(self.refusals.checks)
        self.words = steps.noted(self.words, number, steps.indices(value, index), *bounds)


class _Steps:
    """The native steps of a check of one node."""

    def __init__(self, importer: Importer, location: str) -> None:
        self._importer, self._location = importer, location

    def cast(self, value: Value, dtype: DType) -> Value:
        if value.type.dtype == dtype:
            return value
        args = [value, dtype, None, None, None, False, None]
        return self._native("aten._to_copy.default", args, Type(dtype, value.type.shape))

    def inside(self, value: Value, index: Index, low: Dim, size: Dim) -> Value:
        kept = self._native("aten.clamp.default", [value, low, size - Dim(1)], value.type)
        if index.ignored is None:
            return kept
        ignored = self._is_ignored(value, index)
        return self._native("aten.where.self", [ignored, value, kept], value.type)

    def indices(self, value: Value, index: Index) -> Value:
        """Without those that are ignored."""
        if index.ignored is None:
            return value
        ignored = self._is_ignored(value, index)
        return self._native("aten.masked_fill.Scalar", [value, ignored, 0], value.type)

    def noted(self, words: Value, number: int, indices: Value, low: Dim, size: Dim) -> Value:
        scalar, flag, four = Type(DType.i64, []), Type(DType.boolean, []), words.type
        axes = list(range(len(indices.type.shape)))  # of no indices: within every range
        lowest = self._native("aten.amin.default", [indices, axes], scalar)
        highest = self._native("aten.amax.default", [indices, axes], scalar)
        above = self._native("aten.ge.Scalar", [lowest, low], flag)
        below = self._native("aten.lt.Scalar", [highest, size], flag)
        fits = self._native("aten.logical_and.default", [above, below], flag)
        recorded = self._constant([number, 0, 0, 0])
        for place, what in ((1, lowest), (2, highest)):
            at = self._constant([int(i == place) for i in range(_WORDS)])
            part = self._native("aten.mul.Tensor", [at, what], four)
            recorded = self._native("aten.add.Tensor", [recorded, part, 1], four)
        at = self._constant([0, 0, 0, 1])
        part = self._native("aten.mul.Scalar", [at, size], four)
        recorded = self._native("aten.add.Tensor", [recorded, part, 1], four)
        return self._native("aten.where.self", [fits, words, recorded], four)

    def _is_ignored(self, value: Value, index: Index) -> Value:
        mask = Type(DType.boolean, value.type.shape)
        return self._native("aten.eq.Scalar", [value, index.ignored], mask)

    def _constant(self, numbers: list[int]) -> Value:
        with unset_fake_temporarily():
            return self._importer.add_constant(torch.tensor(numbers, device="cpu"))

    def _native(self, name: str, args: list[Any], result: Type) -> Value:
        plain = Type(result.dtype, result.shape)
        values, reason = self._importer.add_node(name, args, [plain], self._location)
        assert values is not None, f"{name}: {reason}"
        return values[0]
