"""cond, while_loop, scan and map: native if everything inside is native, else calls.

A cond becomes an `if`, a while_loop a `while`, with the nested graphs as regions. A scan or a map
over a few slices is unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.fx import GraphModule, Node

from gex._gex import DType, Importer, Type, UserError, Value
from gex.importer import unsupported_dtypes
from gex.importer.node_import import Env, NodeImporter, NotNative, OpCall
from gex.importer.symbols import NotADim
from gex.importer.tensor_types import type_of

if TYPE_CHECKING:
    from gex.importer.body_import import BodyImport

MAX_UNROLLED = 16  # slices of a scan or a map

_COMPARISONS: dict[type, str] = {
    sympy.Eq: "eq",
    sympy.Ne: "ne",
    sympy.Ge: "ge",
    sympy.Gt: "gt",
    sympy.Le: "le",
    sympy.Lt: "lt",
}


def _or_call(
    native: Callable[[BodyImport, Node, Env, str], list[Any]],
) -> Callable[[BodyImport, Node, Env, str], list[Any]]:
    """A handler that falls back to a call if there is no native form."""

    def handler(body: BodyImport, node: Node, env: Env, location: str) -> list[Any]:
        nodes = body.nodes
        mark = nodes.importer.mark()
        try:
            values = native(body, node, env, location)
            _require_promised(nodes, values, node)
            nodes.outcome.native += 1
            return values
        except (NotNative, NotADim, UserError) as problem:
            nodes.importer.rollback(mark)
            return nodes.add_call(OpCall.of(node, location), env, f"it contains {problem}")

    return handler


@_or_call
def add_cond(body: BodyImport, node: Node, env: Env, location: str) -> list[Any]:
    predicate, yes, no, operands = node.args
    condition = _truth(body.nodes, predicate, env, location)
    yes_region = _region(body, env[yes], operands, env, location)
    no_region = _region(body, env[no], operands, env, location)
    return body.nodes.importer.add_if(
        condition, _tensors(operands, env), yes_region, no_region, location
    )


@_or_call
def add_while_loop(body: BodyImport, node: Node, env: Env, location: str) -> list[Any]:
    condition, step, carried, constant = node.args
    operands = [*carried, *constant]
    if len(_tensors(carried, env)) != len(carried):
        raise NotNative("a carried value that is not a tensor")
    return body.nodes.importer.add_while(
        _tensors(operands, env),
        len(carried),
        _region(body, env[condition], operands, env, location),
        _region(body, env[step], operands, env, location),
        location,
    )


@_or_call
def add_scan(body: BodyImport, node: Node, env: Env, location: str) -> list[Any]:
    graph, initial, sliced, constant = node.args
    carried = [_value(n, env) for n in initial]
    slices: list[list[Any]] = []
    for inputs in _slices(body.nodes, sliced, env, location):
        operands = [*carried, *inputs, *(_value(n, env) for n in constant)]
        results = _inlined(body, env[graph], operands, location)
        carried = results[: len(initial)]
        slices.append(results[len(initial) :])
    return [*carried, *_stacked(body.nodes, slices, node.meta["val"][len(initial) :], location)]


@_or_call
def add_map(body: BodyImport, node: Node, env: Env, location: str) -> list[Any]:
    graph, sliced, constant = node.args
    slices = [
        _inlined(body, env[graph], [*inputs, *(_value(n, env) for n in constant)], location)
        for inputs in _slices(body.nodes, sliced, env, location)
    ]
    return _stacked(body.nodes, slices, node.meta["val"], location)


# --- operands of nested graphs ----------------------------------------------------------------


def _value(operand: Any, env: Env) -> Any:
    """What a nested graph gets for an operand: a value, or None for a size."""
    value = env.get(operand) if isinstance(operand, Node) else None
    if isinstance(value, Value) and unsupported_dtypes.is_represented(operand.meta["val"]):
        raise NotNative(f"an operand of type {operand.meta['val'].dtype}")
    return value


def _tensors(operands: Sequence[Any], env: Env) -> list[Value]:
    return [v for v in (_value(n, env) for n in operands) if isinstance(v, Value)]


def _region(
    body: BodyImport, gm: GraphModule, operands: Sequence[Any], env: Env, location: str
) -> Importer:
    """A nested graph as a separate graph whose inputs are the tensor operands."""
    importer = Importer("region")
    inner = body.inside(body.nodes.native_only_in(importer))
    values: list[Any] = []
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    for placeholder, operand in zip(placeholders, operands):
        value = _value(operand, env)
        if isinstance(value, Value):
            _require_sizes(body.nodes, value, placeholder)
            value = importer.add_input(Type(value.type.dtype, value.type.shape), placeholder.name)
        elif not _same_number(operand, placeholder):
            raise NotNative(f"the number {placeholder.name}, which differs outside")
        values.append(value)
    for result in inner.add_graph(gm, values, location):
        if not isinstance(result, Value):
            raise NotNative("a result that is not a tensor")
        importer.add_output(result)
    body.nodes.outcome.count(inner.nodes.outcome)
    return importer


def _inlined(body: BodyImport, gm: GraphModule, operands: list[Any], location: str) -> list[Any]:
    inner = body.inside(body.nodes.native_only_in(body.nodes.importer))
    for placeholder, value in zip(gm.graph.find_nodes(op="placeholder"), operands):
        if isinstance(value, Value):
            _require_sizes(body.nodes, value, placeholder)
    results = inner.add_graph(gm, operands, location)
    body.nodes.outcome.count(inner.nodes.outcome)
    return results


def _same_number(operand: Any, placeholder: Node) -> bool:
    outside = operand.meta.get("val") if isinstance(operand, Node) else operand
    inside = placeholder.meta.get("val")
    if isinstance(outside, torch.SymInt) and isinstance(inside, torch.SymInt):
        return bool(outside.node.expr == inside.node.expr)
    return isinstance(outside, int) and outside == inside


def _require_sizes(nodes: NodeImporter, value: Value, placeholder: Node) -> None:
    inside = placeholder.meta.get("val")
    if not isinstance(inside, torch.Tensor) or nodes.symbols.dims(inside.shape) != value.type.shape:
        raise NotNative(f"an operand {placeholder.name} of other sizes")


def _require_promised(nodes: NodeImporter, values: list[Any], node: Node) -> None:
    for value, val in zip(values, node.meta["val"], strict=True):
        if not isinstance(val, torch.Tensor) or value.type.shape != nodes.symbols.dims(val.shape):
            raise NotNative("a result with a data-dependent size")


# --- conditions and slices --------------------------------------------------------------------


def _truth(nodes: NodeImporter, predicate: Any, env: Env, location: str) -> Value:
    val = predicate.meta["val"] if isinstance(predicate, Node) else predicate
    flag = Type(DType.boolean, [])
    if isinstance(val, torch.Tensor):
        value = env[predicate]
        if val.dim():
            value = _native(nodes, "aten.view.default", [value, []], flag, location)
        return value
    expr = val.node.expr if isinstance(val, torch.SymBool) else None
    if expr is None or type(expr) not in _COMPARISONS:
        raise NotNative(f"a condition of type {type(expr).__name__}")
    left, right = (nodes.symbols.of_expr(side) for side in expr.args)
    difference = nodes.importer.add_dim(left - right)
    name = f"aten.{_COMPARISONS[type(expr)]}.Scalar"
    return _native(nodes, name, [difference, 0], flag, location)


def _slices(nodes: NodeImporter, sliced: Sequence[Any], env: Env, location: str) -> list[list[Any]]:
    """The slices of each iteration of the tensors that are split along their first axis."""
    rounds = sliced[0].meta["val"].shape[0]
    if not isinstance(rounds, int) or not 0 < rounds <= MAX_UNROLLED:
        raise NotNative(f"{rounds} iterations; up to {MAX_UNROLLED} are unrolled")
    cut: list[list[Any]] = []
    for k in range(rounds):
        cut.append([])
        for operand in sliced:
            value = _value(operand, env)
            part = Type(value.type.dtype, value.type.shape[1:])
            cut[k].append(_native(nodes, "aten.select.int", [value, 0, k], part, location))
    return cut


def _stacked(
    nodes: NodeImporter, slices: list[list[Any]], vals: Sequence[Any], location: str
) -> list[Value]:
    results = []
    for part, val in zip(zip(*slices), vals):
        whole = type_of(val, nodes.symbols)
        results.append(_native(nodes, "aten.stack.default", [list(part), 0], whole, location))
    return results


def _native(nodes: NodeImporter, name: str, args: list[Any], result: Type, location: str) -> Value:
    values, reason = nodes.importer.add_node(name, args, [result], location)
    if values is None:
        raise NotNative(f"{name}: {reason}")
    return values[0]
