"""Inlines nested regions into the graph that calls them, for stages that read a graph node by node.

The importer itself copies the body of a region to each call. User passes and patterns, streams,
scopes, saved tensors and debug files see the graph as it would be without regions.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from gex.fx_stage.module_paths import moved_path

_INVOKE = torch.ops.higher_order.invoke_subgraph
_MARKS = ("npugraph_ex", "gex")  # namespaces of operators that mark a position or have an effect


def any_marks(gm: GraphModule) -> bool:
    """Whether a region contains a node that marks a position or has an effect."""
    return any(
        getattr(node.target, "namespace", "") in _MARKS
        for call in _calls(gm)
        for node in _body(gm, call).graph.nodes
    )


def inline(gm: GraphModule) -> None:
    """Replaces every call of a region by the nodes of its body."""
    changed = False
    modules: dict[GraphModule, str] = {}  # that bodies are traced for: those of their first calls
    while calls := list(_calls(gm)):
        changed = True
        for call in calls:
            _inline_call(gm, call, modules.setdefault(_body(gm, call), _module_of(call)))
        gm.graph.eliminate_dead_code(lambda node: node.op != "get_attr" or bool(node.users))
    if changed:
        gm.delete_all_unused_submodules()
        gm.graph.lint()
        gm.recompile()


def _calls(gm: GraphModule) -> Iterator[Node]:
    return iter(gm.graph.find_nodes(op="call_function", target=_INVOKE))


def _body(gm: GraphModule, call: Node) -> GraphModule:
    return operator.attrgetter(call.args[0].target)(gm)


def _module_of(call: Node) -> str:
    """The path of the module that a call is in, as Dynamo writes it; may be empty."""
    stack = call.meta.get("nn_module_stack")
    return list(stack.values())[-1][0] if stack else ""


def _move(node: Node, traced_for: str, module: str) -> None:
    stack = node.meta.get("nn_module_stack")
    if stack and traced_for and traced_for != module:
        node.meta["nn_module_stack"] = {
            key: (moved_path(path, traced_for, module), kind) for key, (path, kind) in stack.items()
        }


def _inline_call(gm: GraphModule, call: Node, traced_for: str) -> None:
    body = _body(gm, call)
    values: dict[Node, Any] = {}
    results: Sequence[Any] = ()
    operands = iter(call.args[2:])
    with gm.graph.inserting_before(call):
        for node in body.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(operands)
            elif node.op == "output":
                results = map_arg(node.args[0], values.__getitem__)
            else:
                values[node] = gm.graph.node_copy(node, values.__getitem__)
                _move(values[node], traced_for, _module_of(call))
                if node.op == "get_attr":
                    values[node].target = _own_attribute(gm, body, node.target)
    for user in list(call.users):
        user.replace_all_uses_with(results[user.args[1]])
        gm.graph.erase_node(user)
    gm.graph.erase_node(call)


def _own_attribute(gm: GraphModule, body: GraphModule, path: str) -> str:
    """The name of an object of the body in the whole graph."""
    value = operator.attrgetter(path)(body)
    plain = path.replace(".", "_")
    name, number = plain, 0
    while hasattr(gm, name) and getattr(gm, name) is not value:
        name, number = f"{plain}_{number}", number + 1
    setattr(gm, name, value)
    return name
