"""The option `detect_nan` (or GEX_CHECK_NAN=1): finds the op that made the first NaN or infinity.

A check follows every floating-point tensor of the graph. The first tensor with a NaN or infinity
whose operands have none raises an error that names the op and the user's line.
"""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from gex.compat.pytree import tree_leaves
from gex.debug.graph_nodes import insert_after, is_tensor, tensor_sources
from gex.environment import is_on
from gex.fx_stage import effect_ops
from gex.importer.body_import import location_of
from gex.options.table import Config

_numbers = itertools.count()
# Ops whose results are uninitialised memory.
_UNWRITTEN = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided")


class NonFiniteValue(FloatingPointError):
    """An op computed a NaN or an infinity from finite values."""


def wanted(config: Config) -> bool:
    return bool(config.get("detect_nan", False)) or is_on("GEX_CHECK_NAN")


@dataclass(frozen=True)
class _Content:
    nan: bool = False
    inf: bool = False

    def __or__(self, other: _Content) -> _Content:
        return _Content(self.nan or other.nan, self.inf or other.inf)


class _Checks(threading.local):
    """The contents of the tensors of the current call, by node; operands come before their
    users."""

    def __init__(self) -> None:
        self.content: dict[Node, _Content] = {}
        self.ranges: dict[Node, str] = {}


class _Check:
    def __init__(self, node: Node, shared: _Checks) -> None:
        self._node = node
        self._shared = shared
        self._sources = tensor_sources(node)
        self._given = _given_by_numbers(node)
        self._may_hold_any = node.op != "call_function" or _is_unwritten(node)

    def __call__(self, tensor: torch.Tensor) -> None:
        held = _Content(bool(tensor.isnan().any()), bool(tensor.isinf().any()))
        known = self._given
        for source in self._sources:
            known |= self._shared.content.get(source, _Content())
        self._shared.content[self._node] = held
        self._shared.ranges[self._node] = _range_of(tensor)
        if self._may_hold_any:
            return
        if held.nan and not known.nan:
            self._fail(tensor.isnan(), "NaN")
        if held.inf and not (known.inf or known.nan):
            self._fail(tensor.isinf(), "infinity (overflow)")

    def _fail(self, where: torch.Tensor, what: str) -> None:
        node = self._node
        first = where.nonzero()[0].tolist()
        inputs = [
            f"{source.name} {self._shared.ranges[source]}"
            for source in self._sources
            if source in self._shared.ranges
        ]
        raise NonFiniteValue(
            f"{node.target} ({node.name}) at {location_of(node) or 'an unknown line'} made the "
            f"first {what}: {int(where.sum())} of {where.numel()} elements, the first at {first}. "
            f"Operands: {'; '.join(inputs) or 'nothing'}"
        )


def _range_of(tensor: torch.Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.numel() == 0 or tensor.is_complex():
        return f"{dtype}{list(tensor.shape)}"
    low, high = tensor.detach().float().aminmax()
    return f"{dtype}{list(tensor.shape)} in [{low.item():g}, {high.item():g}]"


def _given_by_numbers(node: Node) -> _Content:
    numbers = [x for x in tree_leaves((node.args, node.kwargs)) if isinstance(x, float)]
    return _Content(any(map(math.isnan, numbers)), any(map(math.isinf, numbers)))


def _is_unwritten(node: Node) -> bool:
    packet = getattr(node.target, "overloadpacket", None)
    return getattr(packet, "__name__", "") in _UNWRITTEN


def insert_checks(gm: GraphModule) -> None:
    shared = _Checks()
    for node in list(gm.graph.nodes):
        if node.op == "output" or not is_tensor(node):
            continue
        val = node.meta["val"]
        if not (val.is_floating_point() or val.is_complex()):
            continue
        number = next(_numbers)
        effect_ops.checks[number] = _Check(node, shared)

        def make(node: Node = node, number: int = number) -> None:
            gm.graph.call_function(effect_ops.CHECK, (node, number)).meta["val"] = None

        insert_after(gm.graph, node, make)
    gm.recompile()
