"""Imports an FX graph of ATen calls node by node through the C++ importer."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from gex._gex import Dim, Graph, Importer, OutputItem, Signature, SymbolSource, Value
from gex.compat.fake_tensors import unset_fake_temporarily
from gex.determinism import ANY_BATCH, get_deterministic_level
from gex.errors import GraphNotSupported
from gex.fx_stage.scope_ops import AICORES, LEVEL, VECTORCORES
from gex.fx_stage.stream_assignment import StreamAssignment
from gex.importer import host_values, unsupported_dtypes
from gex.importer.body_import import BodyImport, location_of
from gex.importer.boundary_adapter import Adapter
from gex.importer.device_checks import DeviceChecks, Refusals
from gex.importer.fast_random import FastRandom
from gex.importer.graph_device import CPU, device_of
from gex.importer.invoke_subgraph import give_results_own_memory
from gex.importer.node_import import SYMBOLIC, Env, NodeImporter, OpCall
from gex.importer.outcome import ImportOutcome
from gex.importer.output_plan import OutputPlan
from gex.importer.storage_views import Storage
from gex.importer.symbols import Symbols
from gex.importer.tensor_types import storage_of
from gex.importer.written_arguments import arguments_by_new_value

_aten = torch.ops.aten
_STREAM = "_stream"  # the engine's label for the stream of a node


@dataclass
class ImportedGraph:
    graph: Graph
    outcome: ImportOutcome
    callees: list[Callable[..., Any]]
    num_arguments: int
    tensors: list[int]  # argument of each graph input
    integers: list[tuple[Dim, int]]
    constants: list[torch.Tensor]  # passed after the arguments
    outputs: list[OutputItem]
    symbols: list[SymbolSource]
    adapter: Adapter
    device: torch.device
    refusals: Refusals | None = None  # errors that kernels recorded: indices out of range

    def signature(self) -> Signature:
        return Signature(
            num_arguments=self.num_arguments,
            tensors=self.tensors,
            integers=self.integers,
            constants=self.constants,
            outputs=self.outputs,
            symbols=self.symbols,
        )


@dataclass
class GraphImport:
    gm: GraphModule
    name: str
    outcome: ImportOutcome = field(default_factory=ImportOutcome)
    streams: StreamAssignment = field(default_factory=StreamAssignment)
    strict: bool = False
    check_values: bool = True  # raise errors for values that eager mode rejects
    # On a GPU, errors are recorded in host memory of this process, so another process can't use
    # them.
    note_refusals: bool = True
    fast_random: bool = False
    keep_identities: bool = False  # keep calls that change nothing
    ranges: Mapping[Any, Any] | None = None  # of sizes; default: those of the trace
    aliases: frozenset[int] = frozenset()  # positions of results that are views of arguments
    _env: Env = field(default_factory=dict)
    _integers: list[tuple[Dim, int]] = field(default_factory=list)
    _tensors: list[int] = field(default_factory=list)
    _input_of: dict[Node, int] = field(default_factory=dict)  # graph input of each tensor argument
    _constants: list[torch.Tensor] = field(default_factory=list)
    _storages: dict[int, Storage] = field(default_factory=dict)
    _sources: dict[Dim, SymbolSource] = field(default_factory=dict)
    _ties: dict[int, Value] = field(default_factory=dict)  # by graph input
    _adapter: Adapter = field(default_factory=Adapter)
    _num_arguments: int = 0

    def run(self) -> ImportedGraph:
        self._level = get_deterministic_level()
        self._importer = Importer(self.name)
        self._symbols = Symbols(_shape_env_of(self.gm), self.ranges)
        self._device = device_of(self.gm)
        with host_values.on_device(self.gm, self._device) as self._host:
            return self._import()

    def _import(self) -> ImportedGraph:
        self._nodes = NodeImporter(
            self._importer,
            self._symbols,
            self.outcome,
            self.strict,
            # On a GPU a check would wait for the values.
            check_values=self.check_values and self._device == CPU,
            fast_random=FastRandom() if self.fast_random else None,
            keep_identities=self.keep_identities,
            device=self._device,
        )
        give_results_own_memory(self.gm)
        self._add_inputs()
        words = self._add_refusals() if self._notes_refusals() else None
        body = BodyImport(self._nodes, self._storages)
        for node in self.gm.graph.nodes:
            if node.op != "call_function":
                continue
            if node.target is _aten.copy_.default and node.args[0] in self._input_of:
                self._tie(node)
            else:
                self._add(node, body)
        refusals = self._tie_refusals(words) if words is not None else None
        items = self._add_outputs()
        return ImportedGraph(
            graph=self._importer.finish(),
            outcome=self.outcome,
            callees=self._nodes.callees,
            num_arguments=self._num_arguments,
            tensors=self._tensors,
            integers=self._integers,
            constants=self._constants,
            outputs=items,
            symbols=list(self._sources.values()),
            adapter=self._adapter,
            device=self._device,
            refusals=refusals,
        )

    def _notes_refusals(self) -> bool:
        wanted = self.check_values and self.note_refusals and self._device.type == "cuda"
        return wanted and DeviceChecks.are_needed(self.gm)

    def _add_refusals(self) -> int:
        """Adds an input for the host memory in which kernels record errors; returns its number."""
        checks = self._nodes.device_checks = DeviceChecks(self._symbols, self._device)
        number, argument = len(self._tensors), self._num_arguments + len(self._constants)
        checks.words = self._importer.add_input(checks.type, "refused_values")
        self._constants.append(checks.refusals.words)
        self._tensors.append(argument)
        return number

    def _tie_refusals(self, words: int) -> Refusals | None:
        checks = self._nodes.device_checks
        if checks is None or not checks.refusals.checks:
            return None
        assert checks.words is not None
        self._ties[words] = checks.words
        return checks.refusals

    def _add(self, node: Node, body: BodyImport) -> None:
        streams, mark = self.streams, self._importer.mark()
        level = streams.levels.get(node, self._level)
        self._nodes.level = level
        body.add(node, self._env)
        labels: list[tuple[str, int]] = []
        if node in streams.limits:
            labels += zip((AICORES, VECTORCORES), streams.limits[node])
        if level == ANY_BATCH:  # the engine always satisfies lower levels
            labels.append((LEVEL, level))
        if streams.number_of(node):
            labels.append((_STREAM, streams.number_of(node)))
        if labels:
            self._importer.label(mark, labels)

    # --- inputs -----------------------------------------------------------------------------

    def _add_inputs(self) -> None:
        """Constants follow the arguments, and all graph inputs precede the nodes."""
        placeholders = [n for n in self.gm.graph.nodes if n.op == "placeholder"]
        self._num_arguments = len(placeholders)
        for position, node in enumerate(placeholders):
            self._add_placeholder(node, position)
        for node in self.gm.graph.nodes:
            if node.op == "get_attr":
                self._add_attribute(node)
        self._check_symbols()

    def _add_placeholder(self, node: Node, position: int) -> None:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            self._input_of[node] = len(self._tensors)
            self._add_tensor_input(node, val, position)
            if unsupported_dtypes.is_represented(val) or unsupported_dtypes.is_lazy(val):
                self._adapter.convert_argument(position)
            if node in self._host.inputs:
                self._adapter.move_argument(position, self._device)
        elif isinstance(val, torch.SymInt):
            dim = self._symbols.dim(val)
            if val.node.is_nested_int():
                self._adapter.ragged[dim] = position
                return
            self._integers.append((dim, position))
            if dim.is_symbol:
                self._sources.setdefault(dim, SymbolSource(dim, argument=position))
        elif isinstance(val, SYMBOLIC) or (val is None and node.users):
            raise GraphNotSupported(f"argument {node.name} is a {type(val).__name__}")

    def _add_tensor_input(self, node: Node, val: torch.Tensor, argument: int) -> None:
        reason = unsupported_dtypes.why_not_representable(val, self._device)
        if reason:
            raise GraphNotSupported(f"input {node.name} has {reason}")
        self._env[node] = self._importer.add_input(
            unsupported_dtypes.type_of_any(val, self._symbols), node.name
        )
        self._tensors.append(argument)
        self._storages.setdefault(storage_of(val), Storage(node, argument))
        for axis, size in enumerate(self._symbols.dims(val.shape)):
            if size.is_symbol:
                self._sources.setdefault(size, SymbolSource(size, argument=argument, axis=axis))

    def _add_attribute(self, node: Node) -> None:
        value = operator.attrgetter(node.target)(self.gm)
        if isinstance(value, torch.Tensor):
            position = self._num_arguments + len(self._constants)
            with unset_fake_temporarily():
                value = value.detach().to(self._device)
                self._constants.append(unsupported_dtypes.represent_argument(value))
            self._add_tensor_input(node, node.meta.get("val", value), position)
        else:
            self._env[node] = value

    def _solve_symbols(self) -> None:
        """Symbols that appear only inside sums: for a size `2*s + 1`, s is (size - 1)/2."""
        for node, position in self._input_of.items():
            for axis, size in enumerate(node.meta["val"].shape):
                expr = size.node.expr if isinstance(size, torch.SymInt) else None
                if expr is None or len(expr.free_symbols) != 1:
                    continue
                (name,) = expr.free_symbols
                symbol, scale = self._symbols.symbol(name), expr.coeff(name, 1)
                rest = expr - scale * name
                if symbol in self._sources or not (scale.is_Integer and rest.is_Integer):
                    continue
                if scale > 0:
                    self._sources[symbol] = SymbolSource(
                        symbol,
                        argument=self._tensors[position],
                        axis=axis,
                        scale=int(scale),
                        rest=int(rest),
                    )

    def _check_symbols(self) -> None:
        """Checks that every size of an input can be computed before the first step."""
        self._solve_symbols()
        for node in self._env:
            val = node.meta.get("val")
            if not isinstance(val, torch.Tensor):
                continue
            for dim in self._symbols.dims((*val.shape, *val.stride())):
                for symbol in dim.symbols:
                    if symbol not in self._sources:
                        raise GraphNotSupported(
                            f"input {node.name} has a size {dim}, but no input size determines "
                            f"{symbol}: some size must be {symbol} itself or like 2*{symbol} + 1"
                        )

    # --- outputs ----------------------------------------------------------------------------

    def _tie(self, node: Node) -> None:
        """copy_ into an argument: its new value, written into its memory at the end."""
        destination, source = node.args[0], node.args[1]
        to, of = destination.meta["val"], source.meta["val"]
        if unsupported_dtypes.is_lazy(to):
            raise GraphNotSupported(f"{destination.name}, lazily negated or conjugated, is mutated")
        value = self._env[source]
        if to.dtype != of.dtype or self._symbols.dims(to.shape) != self._symbols.dims(of.shape):
            call = OpCall(_aten.copy.default, (destination, source), {}, to, location_of(node))
            value = self._nodes.add(call, self._env)
        self._ties[self._input_of[destination]] = value
        self._env[destination] = self._env[node] = value

    def _add_outputs(self) -> list[OutputItem]:
        output = next(n for n in reversed(self.gm.graph.nodes) if n.op == "output")
        plan = OutputPlan(
            self._importer,
            self._symbols,
            self._env,
            {node: self._tensors[i] for node, i in self._input_of.items()},
            self._storages,
            self._sources,
            self._nodes.bound,
            self._adapter,
            self._host.results,
            self.aliases,
            arguments_by_new_value(self.gm) if self.aliases else {},
        )
        items = plan.build(output.args[0])
        for graph_input, value in self._ties.items():
            self._importer.tie(value, graph_input)
        return items


def _shape_env_of(gm: GraphModule) -> Any:
    for node in gm.graph.nodes:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor) and getattr(val, "fake_mode", None) is not None:
            return val.fake_mode.shape_env
        if isinstance(val, SYMBOLIC):
            return val.node.shape_env
    return None
