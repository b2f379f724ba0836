"""How each result of a graph is made: fresh, an argument, or a view of either."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from gex._gex import Dim, Importer, OutputItem, SymbolSource, Value
from gex.compat.symbolic import is_float
from gex.errors import GraphNotSupported
from gex.importer import unsupported_dtypes, written_arguments
from gex.importer.boundary_adapter import Adapter
from gex.importer.storage_views import Storage
from gex.importer.symbols import Symbols
from gex.importer.tensor_types import storage_of


@dataclass
class OutputPlan:
    importer: Importer
    symbols: Symbols
    env: dict[Node, Any]
    arguments: dict[Node, int]  # several may share a tensor
    storages: dict[int, Storage]
    sources: dict[Dim, SymbolSource]
    bound: set[Dim]  # symbols that the graph itself defines
    adapter: Adapter
    on_host: set[Node]  # on the CPU in a graph for another device
    aliases: frozenset[int] = frozenset()  # positions of results that are views of arguments
    written: dict[Node, Node] = field(default_factory=dict)  # arguments by their new values
    _fresh: dict[Node, int] = field(default_factory=dict)

    def build(self, results: Any) -> list[OutputItem]:
        self._shared: dict[int, int] = {}
        for node in results:
            if isinstance(node, Node) and isinstance(node.meta.get("val"), torch.Tensor):
                storage = storage_of(node.meta["val"])
                self._shared[storage] = self._shared.get(storage, 0) + 1
        self.adapter.num_results = len(results)
        items = [self._item(node, position) for position, node in enumerate(results)]
        for position, node in enumerate(results):
            val = node.meta.get("val") if isinstance(node, Node) else node
            if isinstance(val, (torch.SymBool, torch.SymFloat)):
                self._add_number(val.node.expr, position, items)
        # Data-dependent sizes are returned after the results.
        for symbol in (s for item in items for d in item.dims for s in d.symbols):
            if symbol not in self.sources:
                if symbol not in self.bound:
                    raise GraphNotSupported(f"a result depends on {symbol}, which has no value")
                output = self.importer.add_output(self.importer.add_dim(symbol))
                self.sources[symbol] = SymbolSource(symbol, output=output)
        return items

    def _add_number(self, expr: Any, position: int, items: list[OutputItem]) -> None:
        """A float or bool: its symbols are returned after the results."""
        symbols = tuple(sorted(expr.free_symbols, key=str))
        if any(is_float(s) for s in symbols):
            raise GraphNotSupported(f"a result {expr} that depends on a float")
        at = range(len(items), len(items) + len(symbols))
        items.extend(OutputItem.integer(self.symbols.symbol(s)) for s in symbols)
        self.adapter.compute_number(position, expr, symbols, list(at))

    def _item(self, node: Any, position: int) -> OutputItem:
        val = node.meta.get("val") if isinstance(node, Node) else node
        if val is None or isinstance(val, (torch.SymBool, torch.SymFloat)):
            return OutputItem.none()
        if isinstance(val, (int, torch.SymInt)) and not isinstance(val, bool):
            dim = self.symbols.dim(val)
            if dim in self.adapter.ragged:
                self.adapter.return_argument(position, self.adapter.ragged[dim])
                return OutputItem.none()
            return OutputItem.integer(dim)
        if not isinstance(val, torch.Tensor):
            raise GraphNotSupported(f"a result of type {type(val).__name__}")
        owner = self.storages[storage_of(val)]
        argument = self.arguments.get(node, owner.argument if owner.node is node else None)
        if node in self.on_host:
            return self._host_tensor(node, val, owner, position)
        if argument is not None:
            if self.adapter.is_converted(argument):
                self.adapter.return_argument(position, argument)
                return OutputItem.none()
            if unsupported_dtypes.is_represented(val):
                self.adapter.restore_result(position, val.dtype)
            return OutputItem.argument(argument)
        if unsupported_dtypes.is_represented(val):
            self.adapter.restore_result(position, val.dtype)
        elif position in self.aliases:
            view = self._view_of_written_argument(node)
            if view is not None:
                return view
        return self._tensor(node, val, owner)

    def _view_of_written_argument(self, node: Node) -> OutputItem | None:
        found = written_arguments.view_of_argument(node, self.written)
        if found is None or self.adapter.is_converted(self.arguments[found[0]]):
            return None
        argument, view = found
        window = self._window(view, argument.meta["val"])
        return OutputItem.argument_view(self.arguments[argument], *window)

    def _host_tensor(
        self, node: Node, val: torch.Tensor, owner: Storage, position: int
    ) -> OutputItem:
        """The argument itself, or a copy of what the device computes."""
        argument = self.arguments.get(node)
        if argument is not None:
            self.adapter.return_argument(position, argument)
            return OutputItem.none()
        if owner.argument is not None or self._shared[storage_of(val)] > 1:
            raise GraphNotSupported(f"result {node.name} is a view of memory on the CPU")
        if unsupported_dtypes.is_represented(val):
            self.adapter.restore_result(position, val.dtype)
        self.adapter.copy_to_host(position)
        return self._tensor(node, val, owner)

    def _tensor(self, node: Node, val: torch.Tensor, owner: Storage) -> OutputItem:
        base = owner.node.meta["val"]
        is_window = (
            unsupported_dtypes.is_lazy(val) == unsupported_dtypes.is_lazy(base)
            and owner.node is not node
        )
        if is_window and owner.argument is not None:
            return OutputItem.argument_view(owner.argument, *self._window(val, base))
        is_window = is_window and isinstance(self.env.get(owner.node), Value)
        fills = unsupported_dtypes.layout_of(val, self.symbols).fills_its_memory
        if is_window and (self._shared[storage_of(val)] > 1 or not fills):
            output = self._fresh_output(owner.node)
            return OutputItem.output_view(output, *self._window(val, base))
        return OutputItem.graph(self._fresh_output(node))

    def _window(self, val: torch.Tensor, of: torch.Tensor) -> tuple[list[Dim], list[Dim], Dim]:
        if unsupported_dtypes.representing_dtype(of.dtype) != unsupported_dtypes.representing_dtype(
            val.dtype
        ):
            raise GraphNotSupported(f"a result that views {of.dtype} memory as {val.dtype}")
        layout, base = (unsupported_dtypes.layout_of(t, self.symbols) for t in (val, of))
        return layout.shape, layout.strides, layout.offset - base.offset

    def _fresh_output(self, node: Node) -> int:
        if node not in self._fresh:
            strides = unsupported_dtypes.layout_of(node.meta["val"], self.symbols).strides
            self._fresh[node] = self.importer.add_output(self.env[node], strides)
        return self._fresh[node]
