"""Walks an FX graph of ATen calls and feeds it, node by node, to the C++ importer."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_flatten

from gex import calls
from gex._gex import Dim, Graph, Importer, OutputItem, SymbolSource, Type, Value
from gex.decompose import Decomposer
from gex.errors import CallNotAllowed
from gex.report import CallRecord, GraphReport
from gex.symbols import NotADim, Symbols
from gex.tensors import DTYPES, fills_its_memory, storage_of, type_of, why_unsupported

_aten = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_MAX_DECOMPOSITION_DEPTH = 8
_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<name>\S+)')

# Facts for the tracer; the symbols' ranges carry them already.
_RANGE_FACTS = {
    _aten.sym_constrain_range.default,
    _aten.sym_constrain_range_for_size.default,
    torch._check,
}
# The chain of effect tokens; gex orders calls with effects by tokens of its own.
_TOKENS = {torch.ops.prims._make_token.default, torch.ops.prims._sink_tokens.default}
_WITH_EFFECTS = torch.ops.higher_order.with_effects
_ITEM = {_aten.item.default, _aten._local_scalar_dense.default}


class GraphNotSupported(Exception):
    """The graph as a whole can't be imported; it then runs through PyTorch."""


class _NoRowForm(Exception):
    """An argument has no form that op rows know."""


class _NotNative(Exception):
    """A decomposition leads to a node without a row."""


@dataclass
class ImportedGraph:
    graph: Graph
    callees: list[Callable[..., Any]]
    num_arguments: int
    tensors: list[int]  # argument of each graph input
    integers: list[tuple[Dim, int]]
    constants: list[torch.Tensor]  # passed behind the arguments
    outputs: list[OutputItem]
    symbols: list[SymbolSource]


def location_of(node: Node) -> str:
    """The user's line that made the node: "model.py:12 in forward"."""
    frames = list(_FRAME.finditer(node.stack_trace or ""))
    if not frames:
        return ""
    frame = frames[-1]
    return f"{frame['file']}:{frame['line']} in {frame['name']}"


def overload_name(target: Any) -> str:
    return str(target) if isinstance(target, torch._ops.OpOverload) else _callable_name(target)


def _callable_name(target: Any) -> str:
    return getattr(target, "__name__", None) or str(target)


@dataclass
class _Storage:
    """Who first holds a piece of memory in the graph."""

    node: Node
    argument: int | None = None


@dataclass
class GraphImport:
    gm: GraphModule
    name: str
    report: GraphReport
    strict: bool = False
    _callees: list[Callable[..., Any]] = field(default_factory=list)
    _env: dict[Node, Any] = field(default_factory=dict)
    _integers: list[tuple[Dim, int]] = field(default_factory=list)
    _tensors: list[int] = field(default_factory=list)
    _constants: list[torch.Tensor] = field(default_factory=list)
    _storages: dict[int, _Storage] = field(default_factory=dict)
    _sources: dict[Dim, SymbolSource] = field(default_factory=dict)
    _bound: set[Dim] = field(default_factory=set)  # symbols that the graph gives values to
    _ties: dict[int, Value] = field(default_factory=dict)  # by graph input
    _num_arguments: int = 0

    def run(self) -> ImportedGraph:
        self._importer = Importer(self.name)
        self._symbols = Symbols(_shape_env_of(self.gm))
        self._decompose = Decomposer(self._symbols)
        placeholders = [n for n in self.gm.graph.nodes if n.op == "placeholder"]
        self._num_arguments = len(placeholders)
        # Constants come behind the arguments, and all graph inputs come before any node.
        for position, node in enumerate(placeholders):
            self._add_placeholder(node, position)
        for node in self.gm.graph.nodes:
            if node.op == "get_attr":
                self._add_attribute(node)
        self._check_symbols()
        for node in self.gm.graph.nodes:
            if node.op == "call_function":
                self._add_function(node)
        output = next(n for n in reversed(self.gm.graph.nodes) if n.op == "output")
        items = _Outputs(self).build(output.args[0])
        for graph_input, value in self._ties.items():
            self._importer.tie(value, graph_input)
        return ImportedGraph(
            graph=self._importer.finish(),
            callees=self._callees,
            num_arguments=self._num_arguments,
            tensors=self._tensors,
            integers=self._integers,
            constants=self._constants,
            outputs=items,
            symbols=list(self._sources.values()),
        )

    # --- inputs -----------------------------------------------------------------------------

    def _add_placeholder(self, node: Node, position: int) -> None:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            self._add_tensor_input(node, val, position, node.name)
        elif isinstance(val, torch.SymInt):
            dim = self._symbols.dim(val)
            self._integers.append((dim, position))
            if dim.is_symbol:
                self._sources.setdefault(dim, SymbolSource(dim, argument=position))
        elif isinstance(val, _SYMBOLIC) or (val is None and node.users):
            raise GraphNotSupported(f"argument {node.name} is a {type(val).__name__}")

    def _add_tensor_input(self, node: Node, val: torch.Tensor, argument: int, name: str) -> None:
        reason = why_unsupported(val)
        if reason:
            raise GraphNotSupported(f"input {name} has {reason}")
        self._env[node] = self._importer.add_input(type_of(val, self._symbols), name)
        self._tensors.append(argument)
        self._storages.setdefault(storage_of(val), _Storage(node, argument))
        for axis, size in enumerate(self._symbols.dims(val.shape)):
            if size.is_symbol:
                self._sources.setdefault(size, SymbolSource(size, argument=argument, axis=axis))

    def _add_attribute(self, node: Node) -> None:
        value = operator.attrgetter(node.target)(self.gm)
        if isinstance(value, torch.Tensor):
            position = self._num_arguments + len(self._constants)
            self._constants.append(value.detach())
            self._add_tensor_input(node, value, position, node.name)
        else:
            self._env[node] = value

    def _check_symbols(self) -> None:
        """Every size of an input must be computable before the first step."""
        for node in self._env:
            val = node.meta.get("val")
            if not isinstance(val, torch.Tensor):
                continue
            for dim in self._symbols.dims((*val.shape, *val.stride())):
                for symbol in dim.symbols:
                    if symbol not in self._sources:
                        raise GraphNotSupported(
                            f"size {symbol} of input {node.name} is the size of no input by itself"
                        )

    # --- nodes ------------------------------------------------------------------------------

    def _add_function(self, node: Node) -> None:
        target, val = node.target, node.meta.get("val")
        if target is operator.getitem:
            self._env[node] = self._item(node)
        elif target in _RANGE_FACTS or target in _TOKENS:
            pass
        elif target is _WITH_EFFECTS:
            self._env[node] = self._add_effect(node)
        elif target in _ITEM:
            self._bind(node)
        elif target is _aten.copy_.default and self._written_input(node) is not None:
            self._tie(node)
        elif (
            isinstance(val, _SYMBOLIC)
            or (val is None and not isinstance(target, torch._ops.OpOverload) and not node.users)
            or isinstance(val, (int, float, bool))
        ):
            pass  # a size; its users read its expression
        else:
            self._env[node] = self._import_node(node, self._env, location_of(node), chain=())
        if isinstance(val, torch.Tensor):
            self._storages.setdefault(storage_of(val), _Storage(node))

    def _add_effect(self, node: Node) -> list[Any]:
        """with_effects(token, op, *args): the op, kept in order with others that have effects."""
        _, target, *args = node.args
        results = node.meta["val"][1:]
        single = len(target._schema.returns) == 1
        values = self._add_call(
            target,
            args,
            node.kwargs,
            results[0] if single else results,
            self._env,
            location_of(node),
            "an operator with effects",
            ordered=True,
        )
        return [None, values] if single else [None, *(values or ())]

    def _item(self, node: Node) -> Any:
        source, index = node.args
        container = self._env.get(source)
        return container[index] if isinstance(container, (list, tuple)) else None

    def _written_input(self, node: Node) -> int | None:
        """The graph input that a copy_ writes, or nothing if it writes something else."""
        target = node.args[0]
        if target.op != "placeholder" or target not in self._env:
            return None
        argument = [n for n in self.gm.graph.nodes if n.op == "placeholder"].index(target)
        return self._tensors.index(argument)

    def _tie(self, node: Node) -> None:
        destination, source = node.args[0], node.args[1]
        graph_input = self._written_input(node)
        to, of = destination.meta["val"], source.meta["val"]
        value = self._env[source]
        if to.dtype != of.dtype or self._symbols.dims(to.shape) != self._symbols.dims(of.shape):
            value = self._import_call_like(
                _aten.copy.default, (destination, source), {}, to, self._env, location_of(node), ()
            )
        self._ties[graph_input] = value
        self._env[destination] = self._env[node] = value

    def _bind(self, node: Node) -> None:
        """`.item()`: the number becomes a symbol that later sizes may use."""
        val = node.meta["val"]
        if not isinstance(val, torch.SymInt) or not self._symbols.dim(val).is_symbol:
            raise GraphNotSupported(f"{node.target} gives a {type(val).__name__}")
        symbol = self._symbols.dim(val)
        fake = node.args[0].meta["val"]
        value = self._env[node.args[0]]
        if fake.dtype != torch.int64:
            i64 = Type(DTYPES[torch.int64], self._symbols.dims(fake.shape), None)
            (value,), _ = self._importer.add_node(
                "aten._to_copy.default",
                [value, DTYPES[torch.int64], None, None, None, False, None],
                [i64],
                location_of(node),
            )
        self._importer.add_bind(value, symbol, location_of(node))
        self._bound.add(symbol)

    def _import_node(self, node: Node, env: dict[Node, Any], location: str, chain: Any) -> Any:
        return self._import_call_like(
            node.target, node.args, node.kwargs, node.meta.get("val"), env, location, chain
        )

    def _import_call_like(
        self,
        target: Any,
        args: Any,
        kwargs: Any,
        val: Any,
        env: dict[Node, Any],
        location: str,
        chain: tuple[Any, ...],
    ) -> Any:
        """A row, else PyTorch's decomposition if all of it has rows, else a call."""
        reason = "random numbers are drawn by PyTorch"
        if not calls.is_random(target, args, kwargs):
            values, reason = self._try_row(target, args, kwargs, val, env, location)
            if values is not None:
                self.report.native += not chain
                return values
            if target not in chain and len(chain) < _MAX_DECOMPOSITION_DEPTH:
                values, detail = self._try_decomposition(
                    target, args, kwargs, val, env, location, chain
                )
                if values is not None:
                    return values
                reason += detail
        if chain:
            raise _NotNative(f"{overload_name(target)}: {reason}")
        return self._add_call(target, args, kwargs, val, env, location, reason)

    def _try_row(
        self, target: Any, args: Any, kwargs: Any, val: Any, env: dict[Node, Any], location: str
    ) -> tuple[Any, str]:
        if not isinstance(target, torch._ops.OpOverload):
            return None, "not an operator"
        results = self._result_types(val)
        if results is None:
            return None, "a result that is no plain tensor"
        try:
            converted = self._schema_arguments(target, args, kwargs, env)
        except (_NoRowForm, NotADim) as problem:
            return None, f"argument without a native form: {problem}"
        values, reason = self._importer.add_node(str(target), converted, results, location)
        if values is None:
            return None, reason
        return values[0] if isinstance(val, torch.Tensor) else values, ""

    def _result_types(self, val: Any) -> list[Type] | None:
        """None: some result is no tensor that a Graph can hold."""
        flat = [val] if isinstance(val, torch.Tensor) else val
        if not isinstance(flat, (list, tuple)) or not flat:
            return None
        types = []
        for item in flat:
            if item is None:
                types.append(Type.absent())
            elif isinstance(item, torch.Tensor) and why_unsupported(item) is None:
                try:
                    types.append(type_of(item, self._symbols))
                except NotADim:
                    return None
            else:
                return None
        return types

    def _schema_arguments(
        self, target: Any, args: Any, kwargs: Any, env: dict[Node, Any]
    ) -> list[Any]:
        out = []
        for i, argument in enumerate(target._schema.arguments):
            if i < len(args) and not argument.kwarg_only:
                value = args[i]
            elif argument.name in kwargs:
                value = kwargs[argument.name]
            else:
                value = argument.default_value
            out.append(self._row_form(value, env))
        return out

    def _row_form(self, arg: Any, env: dict[Node, Any]) -> Any:
        if isinstance(arg, Node):
            value = env.get(arg)
            if isinstance(value, Value):
                return value
            arg = arg.meta.get("val")
            if not isinstance(arg, (*_SYMBOLIC, int, float)):
                raise _NoRowForm(f"{type(arg).__name__}")
        if isinstance(arg, torch.SymInt):
            return self._symbols.dim(arg)
        if arg is None or isinstance(arg, (bool, int, float, str)):
            return arg
        if isinstance(arg, (list, tuple)):
            return [self._row_form(a, env) for a in arg]
        if isinstance(arg, torch.dtype):
            if arg not in DTYPES:
                raise _NoRowForm(str(arg))
            return DTYPES[arg]
        if isinstance(arg, torch.memory_format):
            return str(arg).removeprefix("torch.")
        if isinstance(arg, torch.device):
            if arg.type != "cpu":
                raise _NoRowForm(f"device {arg}")
            return None
        if isinstance(arg, torch.layout):
            if arg is not torch.strided:
                raise _NoRowForm(str(arg))
            return None
        raise _NoRowForm(type(arg).__name__)

    # --- decomposition ----------------------------------------------------------------------

    def _try_decomposition(
        self,
        target: Any,
        args: Any,
        kwargs: Any,
        val: Any,
        env: dict[Node, Any],
        location: str,
        chain: tuple[Any, ...],
    ) -> Any:
        fake_args, fake_kwargs = torch.fx.map_arg((args, kwargs), lambda n: n.meta.get("val"))
        leaves = tree_flatten((fake_args, fake_kwargs))[0]
        if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
            return None, ""
        sub = self._decompose(target, fake_args, fake_kwargs)
        if isinstance(sub, str):
            return None, f", and {sub}"
        nodes, _ = tree_flatten((args, kwargs))
        operands = [
            env[n]
            for n in nodes
            if isinstance(n, Node) and isinstance(n.meta.get("val"), torch.Tensor)
        ]
        mark = self._importer.mark()
        try:
            result = self._import_decomposition(sub, operands, location, (*chain, target))
        except _NotNative as problem:
            if chain:
                raise
            self._importer.rollback(mark)
            return None, f", and its decomposition needs {problem}"
        self.report.decomposed += not chain
        if isinstance(val, torch.Tensor):
            return result[0] if isinstance(result, list) else result, ""
        return result, ""

    def _import_decomposition(
        self, sub: GraphModule, operands: list[Value], location: str, chain: tuple[Any, ...]
    ) -> Any:
        env: dict[Node, Any] = {}
        for node in sub.graph.nodes:
            if node.op == "placeholder":
                env[node] = operands[len(env)]
            elif node.op == "get_attr":
                tensor = operator.attrgetter(node.target)(sub)
                env[node] = self._importer.add_constant(tensor.contiguous())
            elif node.target is operator.getitem:
                env[node] = env[node.args[0]][node.args[1]]
            elif node.op == "output":
                result = node.args[0]
                if isinstance(result, Node):
                    return env[result]
                return [env[n] if n is not None else None for n in result]
            elif not isinstance(node.meta.get("val"), (*_SYMBOLIC, int, float, bool)):
                env[node] = self._import_node(node, env, location, chain)
        raise AssertionError("an FX graph ends with its output")

    # --- calls ------------------------------------------------------------------------------

    def _add_call(
        self,
        target: Any,
        args: Any,
        kwargs: Any,
        val: Any,
        env: dict[Node, Any],
        location: str,
        reason: str,
        ordered: bool = False,
    ) -> Any:
        name = overload_name(target)
        if self.strict:
            raise CallNotAllowed(name, location, reason)
        if calls.mutates(target):
            raise GraphNotSupported(f"{name} at {location} writes into a value of the graph")
        builder = calls.CallBuilder(target, self._symbols)
        flat = [val] if isinstance(val, torch.Tensor) else list(val or ())
        for item in flat:
            if isinstance(item, torch.Tensor):
                problem = why_unsupported(item)
                if problem:
                    raise GraphNotSupported(f"{name} at {location} gives a tensor with {problem}")
            elif item is not None:
                raise GraphNotSupported(f"{name} at {location} gives a {type(item).__name__}")
        positions = [i for i, item in enumerate(flat) if item is not None]
        convert = self._call_form(env)
        callee = builder.build(
            [convert(a) for a in args],
            {k: convert(a) for k, a in kwargs.items()},
            None if isinstance(val, torch.Tensor) else positions,
        )
        results = [type_of(flat[i], self._symbols) for i in positions]
        self._bound.update(size for type_ in results for size in type_.shape if size.is_symbol)
        values = self._importer.add_call(
            name=name,
            callee=len(self._callees),
            operands=builder.operands,
            operand_strides=builder.operand_strides,
            integers=builder.integers,
            results=results,
            ordered=ordered or calls.has_effect(target, args, kwargs),
            location=location,
        )
        self._callees.append(callee)
        self.report.calls.append(CallRecord(name, reason, location))
        if isinstance(val, torch.Tensor):
            return values[0]
        out: list[Any] = [None] * len(flat)
        for position, value in zip(positions, values):
            out[position] = value
        return out

    def _call_form(self, env: dict[Node, Any]) -> Callable[[Any], Any]:
        def convert(arg: Any) -> Any:
            if isinstance(arg, Node):
                val = arg.meta.get("val")
                value = env.get(arg)
                if isinstance(value, Value):
                    return calls.Operand(value, val)
                return value if value is not None else val
            if isinstance(arg, (list, tuple)):
                return type(arg)(convert(a) for a in arg)
            return arg

        return convert


@dataclass
class _Outputs:
    """Decides how each result comes about: fresh, an argument, or a view of either."""

    walk: GraphImport
    _fresh: dict[Node, int] = field(default_factory=dict)

    def build(self, results: Any) -> list[OutputItem]:
        shared: dict[int, int] = {}
        for node in results:
            if isinstance(node, Node) and isinstance(node.meta.get("val"), torch.Tensor):
                storage = storage_of(node.meta["val"])
                shared[storage] = shared.get(storage, 0) + 1
        items = [self._item(node, shared) for node in results]
        # Sizes that come to be known while the graph runs are handed out beside the results.
        importer, sources = self.walk._importer, self.walk._sources
        for symbol in (s for item in items for d in item.dims for s in d.symbols):
            if symbol not in sources:
                if symbol not in self.walk._bound:
                    raise GraphNotSupported(f"a result depends on {symbol}, which no value gives")
                output = importer.add_output(importer.add_dim(symbol))
                sources[symbol] = SymbolSource(symbol, output=output)
        return items

    def _item(self, node: Any, shared: dict[int, int]) -> OutputItem:
        if node is None:
            return OutputItem.none()
        val = node.meta.get("val") if isinstance(node, Node) else node
        if isinstance(val, (int, torch.SymInt)) and not isinstance(val, bool):
            return OutputItem.integer(self.walk._symbols.dim(val))
        if not isinstance(val, torch.Tensor):
            raise GraphNotSupported(f"a result of type {type(val).__name__}")
        owner = self.walk._storages[storage_of(val)]
        if owner.argument is not None:
            if owner.node is node:
                return OutputItem.argument(owner.argument)
            return OutputItem.argument_view(owner.argument, *self._window(val, owner.node))
        symbols = self.walk._symbols
        shape, strides = symbols.dims(val.shape), symbols.dims(val.stride())
        is_view = owner.node is not node and isinstance(self.walk._env.get(owner.node), Value)
        if is_view and (shared[storage_of(val)] > 1 or not fills_its_memory(shape, strides)):
            base = self._fresh_output(owner.node)
            return OutputItem.output_view(base, *self._window(val, owner.node))
        return OutputItem.graph(self._fresh_output(node))

    def _window(self, val: torch.Tensor, base: Node) -> tuple[list[Dim], list[Dim], Dim]:
        of = base.meta["val"]
        if of.dtype != val.dtype:
            raise GraphNotSupported(f"a result that views {of.dtype} memory as {val.dtype}")
        symbols = self.walk._symbols
        offset = symbols.dim(val.storage_offset()) - symbols.dim(of.storage_offset())
        return symbols.dims(val.shape), symbols.dims(val.stride()), offset

    def _fresh_output(self, node: Node) -> int:
        if node not in self._fresh:
            val = node.meta["val"]
            self._fresh[node] = self.walk._importer.add_output(
                self.walk._env[node], self.walk._symbols.dims(val.stride())
            )
        return self._fresh[node]


def _shape_env_of(gm: GraphModule) -> Any:
    for node in gm.graph.nodes:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor) and getattr(val, "fake_mode", None) is not None:
            return val.fake_mode.shape_env
        if isinstance(val, _SYMBOLIC):
            return val.node.shape_env
    return None
