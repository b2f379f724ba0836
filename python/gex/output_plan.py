"""How each result of a graph comes about: fresh, an argument, or a view of either."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from gex._gex import Dim, Importer, OutputItem, SymbolSource, Value
from gex.errors import GraphNotSupported
from gex.symbols import Symbols
from gex.tensors import fills_its_memory, storage_of


@dataclass
class Storage:
    """Who first holds a piece of memory in the graph."""

    node: Node
    argument: int | None = None


@dataclass
class OutputPlan:
    importer: Importer
    symbols: Symbols
    env: dict[Node, Any]
    storages: dict[int, Storage]
    sources: dict[Dim, SymbolSource]
    bound: set[Dim]  # symbols that the graph itself gives values to
    _fresh: dict[Node, int] = field(default_factory=dict)

    def build(self, results: Any) -> list[OutputItem]:
        shared: dict[int, int] = {}
        for node in results:
            if isinstance(node, Node) and isinstance(node.meta.get("val"), torch.Tensor):
                storage = storage_of(node.meta["val"])
                shared[storage] = shared.get(storage, 0) + 1
        items = [self._item(node, shared) for node in results]
        # Sizes that come to be known while the graph runs are handed out beside the results.
        for symbol in (s for item in items for d in item.dims for s in d.symbols):
            if symbol not in self.sources:
                if symbol not in self.bound:
                    raise GraphNotSupported(f"a result depends on {symbol}, which no value gives")
                output = self.importer.add_output(self.importer.add_dim(symbol))
                self.sources[symbol] = SymbolSource(symbol, output=output)
        return items

    def _item(self, node: Any, shared: dict[int, int]) -> OutputItem:
        if node is None:
            return OutputItem.none()
        val = node.meta.get("val") if isinstance(node, Node) else node
        if isinstance(val, (int, torch.SymInt)) and not isinstance(val, bool):
            return OutputItem.integer(self.symbols.dim(val))
        if not isinstance(val, torch.Tensor):
            raise GraphNotSupported(f"a result of type {type(val).__name__}")
        owner = self.storages[storage_of(val)]
        if owner.argument is not None:
            if owner.node is node:
                return OutputItem.argument(owner.argument)
            return OutputItem.argument_view(owner.argument, *self._window(val, owner.node))
        shape, strides = self.symbols.dims(val.shape), self.symbols.dims(val.stride())
        is_view = owner.node is not node and isinstance(self.env.get(owner.node), Value)
        if is_view and (shared[storage_of(val)] > 1 or not fills_its_memory(shape, strides)):
            base = self._fresh_output(owner.node)
            return OutputItem.output_view(base, *self._window(val, owner.node))
        return OutputItem.graph(self._fresh_output(node))

    def _window(self, val: torch.Tensor, base: Node) -> tuple[list[Dim], list[Dim], Dim]:
        of = base.meta["val"]
        if of.dtype != val.dtype:
            raise GraphNotSupported(f"a result that views {of.dtype} memory as {val.dtype}")
        symbols = self.symbols
        offset = symbols.dim(val.storage_offset()) - symbols.dim(of.storage_offset())
        return symbols.dims(val.shape), symbols.dims(val.stride()), offset

    def _fresh_output(self, node: Node) -> int:
        if node not in self._fresh:
            val = node.meta["val"]
            self._fresh[node] = self.importer.add_output(
                self.env[node], self.symbols.dims(val.stride())
            )
        return self._fresh[node]
