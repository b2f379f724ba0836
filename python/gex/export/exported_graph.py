"""An ExportedProgram in the form of the importer: user inputs first, then bound tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node

from gex._gex import UserError
from gex.importer.tensor_types import storage_of

_aten = torch.ops.aten
_BOUND = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_MUTATIONS = (
    OutputKind.BUFFER_MUTATION,
    OutputKind.PARAMETER_MUTATION,
    OutputKind.USER_INPUT_MUTATION,
)


@dataclass(frozen=True)
class Fixed:
    """A user input that is not a tensor: exported with this value, which must not change."""

    name: str
    value: Any


@dataclass(frozen=True)
class Passed:
    """A user input that the graph receives at each call."""

    name: str
    example: Any  # a fake tensor, or a symbolic integer
    mutated: bool


@dataclass
class ExportGraph:
    gm: GraphModule
    inputs: list[Fixed | Passed]  # one for each leaf of the call's arguments
    bound: list[tuple[str, torch.Tensor]]  # after the passed inputs; names as in the module
    ranges: dict[Any, Any]  # of the program's size symbols
    state: dict[str, torch.Tensor] = field(
        default_factory=dict
    )  # the bound tensors that the graph writes


def graph_of(program: ExportedProgram, copy_state: bool) -> ExportGraph:
    """The graph of a program of pure ATen ops, owned by the caller, with mutations as copies at its
    end.

    With `copy_state` the graph writes into copies of its buffers, not into the program's.
    """
    signature = program.graph_signature
    graph = program.graph
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    targets = _targets(signature.input_specs, nodes)
    written = {
        spec.target
        for spec in signature.output_specs
        if spec.kind in _MUTATIONS and spec.target is not None
    }
    returned = {
        storage_of(node.meta["val"])
        for node in graph.output_node().all_input_nodes
        if isinstance(node.meta.get("val"), torch.Tensor)
    }
    out = ExportGraph(program.graph_module, [], [], program.range_constraints)
    first_operation = next(node for node in graph.nodes if node.op != "placeholder")
    for spec, node in zip(signature.input_specs, nodes):
        if spec.kind is InputKind.USER_INPUT:
            out.inputs.append(_user_input(spec, node, written))
            if isinstance(out.inputs[-1], Fixed):
                node.replace_all_uses_with(out.inputs[-1].value)
                graph.erase_node(node)
        elif spec.kind in _BOUND:
            tensor = _tensor_of(program, spec)
            if spec.target in written:
                tensor = tensor.detach()
                tensor = out.state[spec.target] = tensor.clone() if copy_state else tensor
            elif storage_of(node.meta["val"]) in returned:
                tensor = tensor.detach()  # results need no gradient
            out.bound.append((spec.target, tensor))
            first_operation.prepend(node)
        elif spec.kind is InputKind.TOKEN:
            _make_inside(node, first_operation)
        else:
            raise UserError(
                f"{spec.target or spec.arg.name}: the program keeps a {spec.kind.name}, which is "
                "neither a tensor nor a number, such as a torch.Generator; make it outside of the "
                "compiled part, or use torch.compile, which runs that part in eager mode"
            )
    _add_copies(graph, signature.output_specs, targets)
    graph.lint()
    return out


def _make_inside(token: Node, first_operation: Node) -> None:
    """The chain of effects (such as the checks of torch.linalg) starts inside the graph."""
    graph = token.graph
    with graph.inserting_before(first_operation):
        made = graph.call_function(torch.ops.prims._make_token.default)
    made.meta.update(token.meta)
    token.replace_all_uses_with(made)
    graph.erase_node(token)


def _user_input(spec: InputSpec, node: Node, written: set[str]) -> Fixed | Passed:
    if isinstance(spec.arg, (TensorArgument, SymIntArgument)):
        return Passed(spec.arg.name, node.meta["val"], spec.arg.name in written)
    if isinstance(spec.arg, ConstantArgument):
        return Fixed(spec.arg.name, spec.arg.value)
    raise UserError(f"input {spec.arg.name} is a {type(spec.arg).__name__}: neither tensor nor int")


def _tensor_of(program: ExportedProgram, spec: InputSpec) -> torch.Tensor:
    values = program.state_dict if spec.target in program.state_dict else program.constants
    return values[spec.target]


def _targets(specs: list[InputSpec], nodes: list[Node]) -> dict[str, Node]:
    """Targets of mutations: inputs by their own name, bound tensors by their name in the module."""
    names = [spec.target if spec.kind in _BOUND else spec.arg.name for spec in specs]
    return dict(zip(names, nodes))


def _add_copies(graph: Graph, specs: list[OutputSpec], targets: dict[str, Node]) -> None:
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    results = []
    for spec, value in zip(specs, output.args[0]):
        if spec.kind is OutputKind.USER_OUTPUT:
            results.append(value)
        elif spec.kind in _MUTATIONS:
            target = targets[spec.target]
            with graph.inserting_before(output):
                copied = graph.call_function(_aten.copy_.default, (target, value))
            copied.meta["val"] = target.meta["val"]
        elif spec.kind is not OutputKind.TOKEN:
            raise UserError(f"output {spec.arg} of the program is a {spec.kind.name}, not a tensor")
    output.args = (tuple(results),)
