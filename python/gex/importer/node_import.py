"""Imports one call of an ATen graph: as a native op, decomposed, or as a call through PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from gex._gex import Dim, Importer, Type, Value
from gex.compat.fake_tensors import detect_fake_mode, unset_fake_temporarily
from gex.compat.operators import OpOverload
from gex.compat.pytree import tree_flatten
from gex.errors import CallNotAllowed, GraphNotSupported
from gex.importer import eager_dropout, noop_calls, torch_calls, unsupported_dtypes
from gex.importer.broadcast_hints import SizedOperands
from gex.importer.decompositions import Decomposer
from gex.importer.device_checks import DeviceChecks
from gex.importer.fast_random import FastRandom
from gex.importer.graph_device import CPU, is_same_device
from gex.importer.operand_checks import ValueChecks
from gex.importer.outcome import DRAWN_BY_PYTORCH, CallRecord, ImportOutcome
from gex.importer.symbolic_floats import FloatValues
from gex.importer.symbols import NotADim, Symbols
from gex.importer.tensor_types import DTYPES, type_of, why_unsupported

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
Env = dict[Node, Any]  # Values, lists of them, or other values of nodes

_MAX_DECOMPOSITION_DEPTH = 8


class _NoRowForm(Exception):
    """An argument can't be expressed for an op row."""


class NotNative(Exception):
    """A part that must be entirely native contains a node without a row."""


@dataclass(frozen=True)
class OpCall:
    """Target, arguments, the fake result, and the user's line of a call."""

    target: Any
    args: Any
    kwargs: Any
    val: Any
    location: str
    label: str = ""  # shown in reports in place of the target's name
    used: frozenset[int] | None = None  # which of several results are used; None: all

    @classmethod
    def of(cls, node: Node, location: str) -> OpCall:
        val, used = node.meta.get("val"), None
        if isinstance(val, (list, tuple)) and all(_is_item(user) for user in node.users):
            used = frozenset(user.args[1] for user in node.users if user.users)
        return cls(node.target, node.args, node.kwargs, val, location, used=used)

    @property
    def name(self) -> str:
        if self.label or isinstance(self.target, OpOverload):
            return self.label or str(self.target)
        return getattr(self.target, "__name__", None) or str(self.target)

    @property
    def results(self) -> list[Any]:
        if isinstance(self.val, torch.Tensor):
            return [self.val]
        return list(self.val) if isinstance(self.val, (list, tuple)) else []

    def shaped(self, values: list[Any]) -> Any:
        """Values in the structure of the fake result."""
        return values[0] if isinstance(self.val, torch.Tensor) else values

    @property
    def is_random(self) -> bool:
        return torch_calls.is_random(self.target, self.args, self.kwargs)


@dataclass
class NodeImporter:
    importer: Importer
    symbols: Symbols
    outcome: ImportOutcome
    strict: bool
    native_only: bool = False  # raise NotNative instead of adding a call
    check_values: bool = True  # raise errors for values that eager mode rejects
    fast_random: FastRandom | None = None  # else PyTorch draws random numbers
    keep_identities: bool = False  # keep calls that change nothing
    device: torch.device = CPU  # of the graph
    device_checks: DeviceChecks | None = None  # of values, on a GPU
    level: int = 0  # deterministic level of calls through PyTorch
    callees: list[Callable[..., Any]] = field(default_factory=list)
    bound: set[Dim] = field(default_factory=set)  # symbols that the graph itself defines
    bodies: dict[GraphModule, Any] = field(default_factory=dict)  # nested graphs, imported once
    body_modules: dict[GraphModule, str] = field(default_factory=dict)  # that they are traced for
    # Floats read from tensors, and those tensors.
    floats: dict[sympy.Symbol, torch_calls.Operand] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._decompose = Decomposer(self.symbols)
        self._value_checks = ValueChecks(self.symbols, self.callees)

    def native_only_in(self, importer: Importer) -> NodeImporter:
        """For a nested graph; its nodes are counted separately."""
        return replace(self, importer=importer, outcome=ImportOutcome(), native_only=True)

    def add(self, call: OpCall, env: Env, chain: tuple[Any, ...] = ()) -> Any:
        """Uses a row, else PyTorch's decomposition if all of it has rows, else a call.

        `chain`: the targets whose decompositions led here.
        """
        if self.keep_identities and not chain:
            kept = self._try_keep(call, env)
            if kept is not None:
                return kept
        if _only_renames(call):
            self.outcome.native += not chain
            return env[call.args[0]]
        reason = DRAWN_BY_PYTORCH
        if call.is_random:
            if self.fast_random is not None and not chain and not self.native_only:
                values = self.fast_random.try_add(self, call, env)
                if values is not None:
                    self.outcome.native += 1
                    return call.shaped(values)
            values = eager_dropout.try_add(self, call, env) if not chain else None
            if values is not None:
                return call.shaped(values)
        else:
            before = self._guard(call, env, chain)
            values, reason = self._try_row(call, env, chain)
            if values is not None:
                env.update(before)
                self.outcome.native += not chain
                self._check(call, env, chain)
                return call.shaped(values)
            if call.target not in chain and len(chain) < _MAX_DECOMPOSITION_DEPTH:
                values, detail = self._try_decomposition(call, env, chain)
                if values is not None:
                    env.update(before)
                    self.outcome.decomposed += not chain
                    self._check(call, env, chain)
                    return call.shaped(values)
                reason += detail
            env.update(before)
        if chain or self.native_only:
            raise NotNative(f"{call.name}: {reason}")
        return self.add_call(call, env, reason)

    def _try_keep(self, call: OpCall, env: Env) -> Value | None:
        source = noop_calls.source_of(call.target, call.args, call.val)
        if source is None:
            return None
        read = [env[node] for node in _nodes_in(call.args) if node is not source]
        if not all(isinstance(value, Value) for value in (env[source], *read)):
            return None
        values = self.add_own_row("gex.kept.default", [env[source], read, call.name], call)
        self.outcome.native += values is not None
        return values[0] if values is not None else None

    def _guard(self, call: OpCall, env: Env, chain: tuple[Any, ...]) -> Env:
        """Makes the node read clamped indices; returns the original ones."""
        if self.device_checks is None or chain or self.native_only:
            return {}
        guarded = self.device_checks.guarded(
            self.importer, call.target, call.args, env, call.name, call.location
        )
        before = {node: env[node] for node in guarded}
        env.update(guarded)
        return before

    def _check(self, call: OpCall, env: Env, chain: tuple[Any, ...]) -> None:
        if self.check_values and not chain:
            self._value_checks.add(
                self.importer, call.target, call.args, call.val, env, call.name, call.location
            )

    def require_size(self, found: Value, size: Dim, call: OpCall) -> None:
        """Checks at each run that a number found in data is this size."""
        self._value_checks.add_size(self.importer, found, size, call.name, call.location)

    def add_constant(self, tensor: torch.Tensor) -> Value:
        with unset_fake_temporarily():
            return self.importer.add_constant(
                unsupported_dtypes.represent(tensor.detach()).contiguous().cpu()
            )

    # --- rows -------------------------------------------------------------------------------

    def _try_row(
        self, call: OpCall, env: Env, chain: tuple[Any, ...]
    ) -> tuple[list[Value] | None, str]:
        if not isinstance(call.target, OpOverload):
            return None, "not an operator"
        try:
            results = self._result_types(call)
            arguments = self._schema_arguments(call, env)
        except (_NoRowForm, NotADim) as problem:
            return None, f"no native form: {problem}"
        new_sizes = _new_sizes(call)
        if new_sizes and self.native_only:
            return None, "data-dependent sizes in a nested graph"
        row, mark = str(call.target), self.importer.mark()
        values, reason = self.importer.add_node(row, arguments, results, call.location)
        one_result = isinstance(call.val, torch.Tensor)
        if values is None and one_result and torch.Tag.pointwise in call.target.tags:
            sized = SizedOperands(self.importer, self.symbols, call.val, call.location)
            arguments = [sized.like(*pair) for pair in zip(_in_schema_order(call), arguments)]
            values, _ = self.importer.add_node(row, arguments, results, call.location)
        if values is None:
            return None, reason
        self.bound.update(self.symbols.symbol(size) for size in new_sizes)
        expected = self.importer.expected_sizes
        if expected and (chain or self.native_only):
            self.importer.rollback(mark)
            return None, "a size to be checked in a nested graph"
        for found, size in expected:
            self.require_size(found, size, call)
        return values, reason

    def _result_types(self, call: OpCall) -> list[Type]:
        types = []
        for item in call.results:
            if item is None:
                types.append(Type.absent())
            elif not isinstance(item, torch.Tensor):
                raise _NoRowForm(f"a result of type {type(item).__name__}")
            elif problem := why_unsupported(item, self.device):
                raise _NoRowForm(f"a result with {problem}")
            else:
                types.append(type_of(item, self.symbols))
        if not types:
            raise _NoRowForm("no result")
        return types

    def _schema_arguments(self, call: OpCall, env: Env) -> list[Any]:
        return [self._row_form(value, env, call) for value in _in_schema_order(call)]

    def _row_form(self, arg: Any, env: Env, call: OpCall) -> Any:
        if isinstance(arg, Node):
            value = env.get(arg)
            arg = arg.meta.get("val")
            if isinstance(value, Value) and not unsupported_dtypes.is_represented(arg):
                return value
            if not isinstance(arg, (*SYMBOLIC, int, float)):
                kind = arg.dtype if isinstance(arg, torch.Tensor) else type(arg).__name__
                raise _NoRowForm(f"an argument of type {kind}")
        if isinstance(arg, torch.SymInt):
            return self.symbols.dim(arg)
        if isinstance(arg, torch.SymFloat):
            return self._float(arg.node.expr, call)
        if arg is None or isinstance(arg, (bool, int, float, str)):
            return arg
        if isinstance(arg, (list, tuple)):
            return [self._row_form(a, env, call) for a in arg]
        if isinstance(arg, torch.dtype) and arg in DTYPES:
            return DTYPES[arg]
        if isinstance(arg, torch.memory_format):
            return str(arg).removeprefix("torch.")
        if arg == torch.strided or is_same_device(arg, self.device):
            return None
        raise _NoRowForm(f"an argument {arg}")

    def _float(self, expr: sympy.Basic, call: OpCall) -> Value | float:
        """A float computed from sizes or read from a tensor; rounded like eager in comparisons."""
        # A nested graph can't use tensors of the outer graph.
        tensors = {} if self.native_only else {s: t.value for s, t in self.floats.items()}
        floats = FloatValues(self.importer, self.symbols, tensors, call.location)
        value = floats.of(expr)
        if all(result.dtype == torch.bool for result in call.results):
            others = torch.fx.map_arg((call.args, call.kwargs), lambda n: n.meta.get("val"))
            fakes = [leaf for leaf in tree_flatten(others)[0] if isinstance(leaf, torch.Tensor)]
            return floats.cast(value, DTYPES[torch.result_type(fakes[0], 1.0)]) if fakes else value
        return value

    # --- decomposition ----------------------------------------------------------------------

    def _try_decomposition(
        self, call: OpCall, env: Env, chain: tuple[Any, ...]
    ) -> tuple[list[Any] | None, str]:
        args, kwargs = torch.fx.map_arg((call.args, call.kwargs), lambda n: n.meta.get("val"))
        leaves = tree_flatten((args, kwargs))[0]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if any(unsupported_dtypes.is_represented(tensor) for tensor in tensors):
            return None, ""
        mode = detect_fake_mode([*tensors, *call.results])
        sub = self._decompose(call.target, args, kwargs, mode)
        if isinstance(sub, str):
            return None, f", and {sub}"
        operands = [
            env[node]
            for node in tree_flatten((call.args, call.kwargs))[0]
            if isinstance(node, Node) and isinstance(node.meta.get("val"), torch.Tensor)
        ]
        mark = self.importer.mark()
        try:
            chain = (*chain, call.target)
            return self._add_decomposition(sub, operands, call.location, chain), ""
        except NotNative as problem:
            if len(chain) > 1:
                raise
            self.importer.rollback(mark)
            return None, f", and its decomposition needs {problem}"

    def _add_decomposition(
        self, sub: GraphModule, operands: list[Value], location: str, chain: tuple[Any, ...]
    ) -> list[Any]:
        env: Env = {}
        for node in sub.graph.nodes:
            if node.op == "placeholder":
                env[node] = operands[len(env)]
            elif node.op == "get_attr":
                env[node] = self.add_constant(operator.attrgetter(node.target)(sub))
            elif node.target is operator.getitem:
                env[node] = env[node.args[0]][node.args[1]]
            elif node.op == "output":
                results = node.args[0]
                results = [results] if isinstance(results, Node) else results
                return [env[n] if n is not None else None for n in results]
            elif not isinstance(node.meta.get("val"), (*SYMBOLIC, int, float, bool)):
                env[node] = self.add(OpCall.of(node, location), env, chain)
        raise AssertionError("an FX graph ends with its output")

    # --- calls ------------------------------------------------------------------------------

    def add_call(self, call: OpCall, env: Env, reason: str, ordered: bool = False) -> Any:
        """A step that runs through PyTorch; counted."""
        if self.strict and not self.native_only:
            raise CallNotAllowed(call.name, call.location, reason)
        values = self._add_step(call, env, ordered)
        self.outcome.calls.append(CallRecord(call.name, reason, call.location))
        return values

    def add_writing_call(
        self, call: OpCall, written: list[Node], env: Env, reason: str, ordered: bool
    ) -> list[Any]:
        """A call that writes these tensors, its first operands; returns its results and those."""
        if self.strict and not self.native_only:
            raise CallNotAllowed(call.name, call.location, reason)
        values = self._add_step(call, env, ordered, num_written=len(written))
        self.outcome.calls.append(CallRecord(call.name, reason, call.location))
        return values

    def add_draw(self, call: OpCall, env: Env) -> Any:
        """A counted step that draws random numbers, in order with other draws."""
        return self.add_call(call, env, DRAWN_BY_PYTORCH, ordered=True)

    def add_own_call(self, function: Callable[[], torch.Tensor], like: torch.Tensor) -> Value:
        """A step that gex itself needs, ordered with other steps with effects; not counted."""
        return self._add_step(OpCall(function, (), {}, like, ""), {}, ordered=True)

    def add_own_row(self, name: str, arguments: list[Any], call: OpCall) -> list[Value] | None:
        """A row with a name of gex's own and the results of `call`."""
        try:
            results = self._result_types(call)
        except (_NoRowForm, NotADim):
            return None
        return self.importer.add_node(name, arguments, results, call.location)[0]

    def add_effect(self, call: OpCall, env: Env) -> None:
        """A step that checks, prints or saves. It computes nothing, so it is not counted."""
        self._add_step(call, env, ordered=True)

    def _add_step(self, call: OpCall, env: Env, ordered: bool, num_written: int = 0) -> Any:
        """`num_written`: the first operands that are returned as the last results."""
        if self.native_only:
            raise NotNative(call.name)
        self._check_call(call)
        fakes = call.results
        first_written = len(fakes) - num_written
        # PyTorch's metadata of unused results is not always right.
        positions = [
            i
            for i, fake in enumerate(fakes)
            if fake is not None and (call.used is None or i in call.used or i >= first_written)
        ]
        single = isinstance(call.val, torch.Tensor)
        builder = torch_calls.CallBuilder(
            call.target, self.symbols, self.floats, call.name, call.location, self.level > 0
        )
        callee = builder.build(
            [_call_form(a, env) for a in call.args],
            {k: _call_form(a, env) for k, a in call.kwargs.items()},
            [("r" if single else f"r[{i}]", fakes[i]) for i in positions if i < first_written],
        )
        results = [unsupported_dtypes.type_of_result(fakes[i], self.symbols) for i in positions]
        self.bound.update(size for type_ in results for size in type_.shape if size.is_symbol)
        values = self.importer.add_call(
            name=call.name,
            callee=len(self.callees),
            operands=builder.operands,
            operand_strides=builder.operand_strides,
            integers=builder.integers,
            results=results,
            ordered=ordered or torch_calls.has_effect(call.target, call.args, call.kwargs),
            location=call.location,
            written=list(range(num_written)),
        )
        self.callees.append(callee)
        out: list[Any] = [None] * len(fakes)
        for position, value in zip(positions, values):
            out[position] = value
        return call.shaped(out)

    def _check_call(self, call: OpCall) -> None:
        """Raises GraphNotSupported for calls that can't be steps of a program."""
        where = f"{call.name} at {call.location or 'an unknown line'}"
        if torch_calls.mutates(call.target):
            raise GraphNotSupported(f"{where} writes into a value of the graph")
        # Fake tensors do not represent quantised ones.
        leaves = tree_flatten((call.args, call.kwargs))[0]
        if any(
            isinstance(leaf, torch.dtype) and leaf in unsupported_dtypes.QUANTISED
            for leaf in leaves
        ):
            raise GraphNotSupported(f"{where} makes a quantised tensor")
        for item in call.results:
            if isinstance(item, torch.Tensor):
                problem = unsupported_dtypes.why_not_representable(item, self.device)
                if problem:
                    raise GraphNotSupported(f"{where} returns a tensor with {problem}")
            elif item is not None:
                raise GraphNotSupported(f"{where} returns a {type(item).__name__}")


def _nodes_in(args: Any) -> list[Node]:
    return [leaf for leaf in tree_flatten(args)[0] if isinstance(leaf, Node)]


def _only_renames(call: OpCall) -> bool:
    operand = call.args[0] if call.args else None
    if not isinstance(operand, Node) or not isinstance(call.val, torch.Tensor):
        return False
    fake = operand.meta.get("val")
    return isinstance(fake, torch.Tensor) and unsupported_dtypes.same_representation(
        call.target, fake, call.val
    )


def _new_sizes(call: OpCall) -> set[sympy.Symbol]:
    """Data-dependent sizes of the results that no operand has."""
    results = [fake for fake in call.results if isinstance(fake, torch.Tensor)]
    found = {s for fake in results for s in free_unbacked_symbols(fake)}
    if not found:
        return found
    operands = (node.meta.get("val") for node in _nodes_in((call.args, call.kwargs)))
    known = (free_unbacked_symbols(val) for val in operands if val is not None)
    return found.difference(*known)


def _in_schema_order(call: OpCall) -> list[Any]:
    """All arguments in schema order, with defaults."""
    return [
        call.args[i]
        if i < len(call.args) and not argument.kwarg_only
        else call.kwargs.get(argument.name, argument.default_value)
        for i, argument in enumerate(call.target._schema.arguments)
    ]


def _is_item(node: Node) -> bool:
    return node.target is operator.getitem


def _call_form(arg: Any, env: Env) -> Any:
    if isinstance(arg, Node):
        value = env.get(arg)
        if isinstance(value, Value):
            return torch_calls.Operand(value, arg.meta["val"])
        return value if value is not None else arg.meta.get("val")
    if isinstance(arg, (list, tuple)):
        return type(arg)(_call_form(a, env) for a in arg)
    if isinstance(arg, dict):
        return {k: _call_form(a, env) for k, a in arg.items()}
    return arg
