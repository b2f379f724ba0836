"""Runs the forms of one graph on the same arguments: results, writes, every node."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from gex.aot import eager_graph
from gex.debug.comparison import Comparison, compare, tolerance_of
from gex.debug.graph_nodes import insert_after, is_tensor
from gex.debug.tensor_dump import as_array
from gex.fx_stage import effect_ops

Compiled = Callable[[list[Any]], Sequence[Any]]
_probe_numbers = itertools.count(1 << 32)  # disjoint from the numbers of other checks


def copy_of(gm: GraphModule) -> GraphModule:
    """A copy that later stages do not modify."""
    return GraphModule(gm, copy.deepcopy(gm.graph))


def clone(value: Any) -> Any:
    """A tensor with the same layout in new memory; other values unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    with torch.no_grad():
        if value.numel() == 0 or 0 in value.stride():
            return value.detach().clone()
        return torch.empty_like(value, memory_format=torch.preserve_format).copy_(value)


class Arguments:
    """The arguments of a call before it ran, and the state of the random generator."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = [clone(value) for value in values]
        self._random = torch.get_rng_state()

    def run(self, function: Compiled) -> list[Any]:
        """Results, then the arguments after the call; the generator state is restored."""
        now = torch.get_rng_state()
        arguments = [clone(value) for value in self._values]
        torch.set_rng_state(self._random)
        try:
            with torch.no_grad():
                return [*function(list(arguments)), *arguments]
        finally:
            torch.set_rng_state(now)


class Tolerance:
    def __init__(self, rtol: float | None = None, atol: float | None = None) -> None:
        self._rtol, self._atol = rtol, atol

    def compare(self, right: torch.Tensor, other: torch.Tensor) -> Comparison:
        rtol, atol = tolerance_of(str(right.dtype).removeprefix("torch."))
        if right.numel() and right.is_floating_point():
            # Sums of large terms may be small: the error is relative to the terms.
            largest = right.detach().abs().nan_to_num(0, 0, 0).max().item()
            atol *= max(1.0, largest)
        rtol = rtol if self._rtol is None else self._rtol
        atol = atol if self._atol is None else self._atol
        return compare(as_array(right), as_array(other), rtol, atol)

    def first_difference(
        self, right: Sequence[Any], other: Sequence[Any]
    ) -> tuple[int, Comparison] | None:
        """Position and size of the first difference that is more than rounding."""
        for i, (a, b) in enumerate(zip(right, other)):
            if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
                result = self.compare(a, b)
                if not result.same:
                    return i, result
        return None


def eager(gm: GraphModule) -> Compiled:
    return eager_graph.function_of(copy_of(gm))


class _Recorder(Interpreter):
    def __init__(self, gm: GraphModule) -> None:
        super().__init__(gm)
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, node: Node) -> Any:
        result = super().run_node(node)
        if isinstance(result, torch.Tensor):
            self.values[node.name] = clone(result)
        return result


def values_in_eager(gm: GraphModule, arguments: Arguments) -> dict[str, torch.Tensor]:
    """The tensor of each node, by name, in graph order."""
    recorder = _Recorder(copy_of(gm))
    arguments.run(recorder.boxed_run)
    return recorder.values


def with_probes(gm: GraphModule) -> tuple[GraphModule, dict[str, torch.Tensor]]:
    """A copy that stores the tensor of each node in the dict whenever it runs."""
    probed, values = copy_of(gm), {}
    for node in list(probed.graph.nodes):
        if node.op == "output" or not is_tensor(node):
            continue
        number = next(_probe_numbers)

        def keep(tensor: torch.Tensor, name: str = node.name) -> None:
            values[name] = clone(tensor)

        def make(node: Node = node, number: int = number) -> None:
            probed.graph.call_function(effect_ops.CHECK, (node, number)).meta["val"] = None

        effect_ops.checks[number] = keep
        insert_after(probed.graph, node, make)
    probed.recompile()
    return probed, values
