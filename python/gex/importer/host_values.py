"""Tensors on the CPU in a graph for another device: `torch.arange(n)` without a device, a mask
that the caller made on the CPU, a constant that `torch.tensor` makes.

The program computes them on its device. Arguments on the CPU are copied there at each call, where
eager mode copies them as well, in the middle of the graph. Results on the CPU are copied back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

from gex.compat.fake_tensors import FakeTensor
from gex.errors import GraphNotSupported
from gex.importer.graph_device import CPU

_aten = torch.ops.aten


@contextmanager
def on_device(gm: GraphModule, device: torch.device) -> Iterator[HostValues]:
    """Inside this context, the graph's CPU values have `device` as their device."""
    changes = HostValues(device)
    try:
        if device != CPU:
            for node in gm.graph.nodes:
                changes.move(node)
        yield changes
    finally:
        changes.undo()


class HostValues:
    """`inputs`: arguments and constants on the CPU; `results`: results of the graph there."""

    def __init__(self, device: torch.device) -> None:
        self.inputs: set[Node] = set()
        self.results: set[Node] = set()
        self._device = device
        self._fakes: list[FakeTensor] = []
        self._calls: list[tuple[Node, Any, Any]] = []

    def move(self, node: Node) -> None:
        if node.op == "output":
            self._find_results(node)
            return
        fakes = [fake for fake in _tensors(node) if fake.device == CPU]
        if not fakes:
            return
        if node.op == "call_function":
            self._move_call(node)
        else:
            self._move_input(node)
        for fake in fakes:
            fake.fake_device = self._device
            self._fakes.append(fake)

    def undo(self) -> None:
        for fake in self._fakes:
            fake.fake_device = CPU
        for node, args, kwargs in self._calls:
            node.args, node.kwargs = args, kwargs

    def _move_input(self, node: Node) -> None:
        if any(user.target is _aten.copy_.default and user.args[0] is node for user in node.users):
            raise GraphNotSupported(
                f"input {node.name}, which the graph writes, is on the CPU, not on {self._device}"
            )
        self.inputs.add(node)

    def _move_call(self, node: Node) -> None:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags:
            raise GraphNotSupported(
                f"{node.target} draws from the CPU generator in a graph on {self._device}"
            )
        self._calls.append((node, node.args, node.kwargs))
        node.args = map_aggregate(node.args, self._device_for)
        node.kwargs = map_aggregate(node.kwargs, self._device_for)

    def _device_for(self, argument: Any) -> Any:
        return self._device if argument == CPU else argument

    def _find_results(self, node: Node) -> None:
        moved = {id(fake) for fake in self._fakes}
        for result in node.all_input_nodes:
            if any(id(fake) in moved for fake in _tensors(result)):
                self.results.add(result)


def _tensors(node: Node) -> list[FakeTensor]:
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else (value,)
    return [item for item in values if isinstance(item, FakeTensor)]
