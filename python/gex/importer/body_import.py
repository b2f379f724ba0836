"""Imports the call_function nodes of an FX graph: the whole graph, or one nested in it."""

from __future__ import annotations

import operator
import os
import re
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from gex._gex import Dim, Type
from gex.compat.operators import CHECK, OpOverload
from gex.compat.symbolic import is_unbacked
from gex.errors import GraphNotSupported
from gex.fx_stage import effect_ops
from gex.fx_stage.module_paths import ModuleMove
from gex.fx_stage.scope_ops import MARKS
from gex.fx_stage.stream_ops import STREAM_MARKS
from gex.importer import storage_views, torch_calls
from gex.importer.higher_order import HANDLERS
from gex.importer.node_import import SYMBOLIC, Env, NodeImporter, NotNative, OpCall
from gex.importer.storage_views import Storage
from gex.importer.tensor_types import DTYPES, storage_of

_aten = torch.ops.aten
_OWN_FILES = os.path.dirname(os.path.dirname(__file__)) + os.sep
_MODULE_NAME = re.compile(r"\w+")
_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<name>\S+)')

_ASSERT = _aten._assert_scalar.default
# Assertions for the tracer that hold for every run: ranges of symbols, dtypes and sizes.
_FACTS = {
    _aten._assert_tensor_metadata.default,
    _aten.sym_constrain_range.default,
    _aten.sym_constrain_range_for_size.default,
    CHECK,
}
# The chain of effect tokens; gex orders calls with effects by its own tokens.
_TOKENS = {torch.ops.prims._make_token.default, torch.ops.prims._sink_tokens.default}
# Calls that state facts or mark positions and compute nothing.
_IGNORED = _FACTS | _TOKENS | MARKS | STREAM_MARKS
# Of operators that mark parts of a program for torch.profiler (record_function).
_PROFILER = "profiler"
_ITEM = {_aten.item.default, _aten._local_scalar_dense.default}


def location_of(node: Node) -> str:
    """The user's line that made the node: "model.py:12 in forward of encoder.layer.0"."""
    frames = [
        frame
        for frame in _FRAME.finditer(node.stack_trace or "")
        if not frame["file"].startswith(_OWN_FILES)
    ]
    if not frames:
        return ""
    frame = frames[-1]
    return f"{frame['file']}:{frame['line']} in {frame['name']}{_module_of(node)}"


def _module_of(node: Node) -> str:
    """The path of the module whose forward made the node: " of encoder.layer.0"; may be empty."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path, _ = list(stack.values())[-1]  # "L['self'].encoder.layer[0]"
    names = _MODULE_NAME.findall(path.partition("]")[2])
    return " of " + ".".join(names) if names else ""


@dataclass
class BodyImport:
    nodes: NodeImporter
    storages: dict[int, Storage] = field(default_factory=dict)
    items: dict[Dim, Node] = field(default_factory=dict)  # symbols, and the tensors that hold them
    moved: ModuleMove | None = None  # of a nested graph that is traced for another module

    def add(self, node: Node, env: Env, outer_location: str = "") -> None:
        """Imports one call_function node; its value is in `env` afterwards.

        `outer_location`: the user's line that called the graph this body belongs to.
        """
        target, val = node.target, node.meta.get("val")
        location = location_of(node) or outer_location
        if self.moved is not None:
            location = self.moved.location(location)
        if target is operator.getitem:
            env[node] = _item(node, env)
        elif target in _IGNORED or getattr(target, "namespace", "") == _PROFILER:
            pass
        elif target in effect_ops.TARGETS:
            self.nodes.add_effect(OpCall.of(node, location), env)
        elif target is _ASSERT:
            self._add_condition(OpCall.of(node, location), env)
        elif target in HANDLERS:
            env[node] = HANDLERS[target](self, node, env, location)
        elif target in _ITEM:
            self._bind(node, env, location)
        elif (
            isinstance(val, SYMBOLIC)
            or (val is None and not isinstance(target, OpOverload) and not node.users)
            or isinstance(val, (int, float, bool))
        ):
            pass  # a size; its users read its expression
        elif target in storage_views.TARGETS:
            env[node] = storage_views.add(self.nodes, OpCall.of(node, location), env, self.storages)
        else:
            env[node] = self.nodes.add(OpCall.of(node, location), env)
        self._own_memory(node)

    def inside(self, nodes: NodeImporter, moved: ModuleMove | None = None) -> BodyImport:
        """For a nested graph."""
        return BodyImport(nodes, moved=moved)

    def add_graph(self, gm: GraphModule, operands: list[Any], location: str) -> list[Any]:
        """Imports a nested graph in place of a call to it; returns its results."""
        env: Env = {}
        waiting = iter(operands)
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(waiting)
                self._own_memory(node)
            elif node.op == "get_attr":
                value = operator.attrgetter(node.target)(gm)
                constant = isinstance(value, torch.Tensor)
                env[node] = self.nodes.add_constant(value) if constant else value
            elif node.op == "call_function":
                self.add(node, env, location)
            elif node.op == "output":
                results = node.args[0]
                results = [results] if isinstance(results, Node) else results
                return [env.get(r) if isinstance(r, Node) else r for r in results]
        raise AssertionError("an FX graph ends with its output")

    def _own_memory(self, node: Node) -> None:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            self.storages.setdefault(storage_of(val), Storage(node))

    def _add_condition(self, call: OpCall, env: Env) -> None:
        """A condition on sizes: dropped if their ranges imply it, else checked at each run."""
        condition = call.args[0]
        if isinstance(condition, Node):
            condition = condition.meta["val"]
        expr = condition.node.expr if isinstance(condition, torch.SymBool) else None
        if expr is None and not condition:
            raise GraphNotSupported(f"an assertion fails for all sizes: {call.args[1]}")
        if expr is not None and not self.nodes.symbols.implied(expr):
            self.nodes.add_effect(call, env)

    def _bind(self, node: Node, env: Env, location: str) -> None:
        """`.item()`: the number becomes a symbol that later sizes may use."""
        nodes, val = self.nodes, node.meta["val"]
        if nodes.native_only:
            raise NotNative(f"{node.target}")
        if _is_settled(val):
            return self._require_value(node, env, location)
        if isinstance(val, torch.SymFloat) and val.node.expr.is_Symbol:
            # Not a size: calls that use it get the tensor that holds it.
            operand = node.args[0]
            nodes.floats[val.node.expr] = torch_calls.Operand(env[operand], operand.meta["val"])
            return None
        size = self._size_of(val)
        if size is None:
            raise GraphNotSupported(f"{node.target} returns a {type(val).__name__}")
        fake = node.args[0].meta["val"]
        value = env[node.args[0]]
        if fake.dtype != torch.int64:
            i64 = Type(DTYPES[torch.int64], nodes.symbols.dims(fake.shape), None)
            (value,), _ = nodes.importer.add_node(
                "aten._to_copy.default",
                [value, DTYPES[torch.int64], None, None, None, False, None],
                [i64],
                location,
            )
        if size.is_symbol and _is_found_in_data(val) and size not in nodes.bound:
            nodes.importer.add_bind(value, size, location)
            nodes.bound.add(size)
            self.items[size] = node.args[0]
        elif self.items.get(size) is not node.args[0]:
            # Tracing found that it equals another size, or an expression of sizes.
            nodes.require_size(value, size, OpCall.of(node, location))

    def _size_of(self, val: Any) -> Dim | None:
        """The size that an item is, or the symbol that it compares with 1."""
        if isinstance(val, torch.SymBool):
            expr = val.node.expr
            known = isinstance(expr, sympy.Eq) and expr.rhs == 1 and expr.lhs.is_Symbol
            return self.nodes.symbols.symbol(expr.lhs) if known else None
        if isinstance(val, torch.SymInt):
            return self.nodes.symbols.dim(val)
        return None

    def _require_value(self, node: Node, env: Env, location: str) -> None:
        """The program asserts the value of the item, and was traced with that value."""
        expected = _settled(node.meta["val"])
        conditions = [node, *node.users]
        asserts = [u for c in conditions for u in c.users if u.target is _ASSERT]
        # PyTorch inserts its own assertions, which repeat the user's, before them.
        message = asserts[-1].args[1] if asserts else f"the value is not {expected}, as asserted"
        arguments = (node.args[0], expected, message)
        call = OpCall(torch_calls.require_value, arguments, {}, None, location)
        self.nodes.add_effect(call, env)


def _is_settled(val: Any) -> bool:
    """Whether tracing left only one possible value of a symbolic number."""
    return isinstance(val, (torch.SymBool, torch.SymInt)) and not val.node.expr.free_symbols


def _is_found_in_data(val: torch.SymBool | torch.SymInt) -> bool:
    return all(is_unbacked(symbol) for symbol in val.node.expr.free_symbols)


def _settled(val: torch.SymBool | torch.SymInt) -> bool | int:
    expr = val.node.expr
    return bool(expr) if isinstance(val, torch.SymBool) else int(expr)


def _item(node: Node, env: Env) -> Any:
    source, index = node.args
    container = env.get(source)
    return container[index] if isinstance(container, (list, tuple, dict)) else None
