"""Treats floats that are attributes of modules (eps, scale) as constants of the traced graph.

With dynamic=True Dynamo makes every float an input. AOTAutograd would find out after its own trace
that most of them must be constants, and trace everything again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import guard_scalar

from gex.compat import tracing
from gex.compat.symbolic import is_backed_float


@contextlib.contextmanager
def module_floats_fixed(gm: GraphModule, example_inputs: Sequence[Any]) -> Iterator[list[Any]]:
    """Makes them constants, each with a guard; yields the remaining inputs.

    A float passed to a nested region can't be replaced in the current graph; then Dynamo traces
    again, with those floats constant from the start.
    """
    kept, names, restart = [], set(), False

    def specialize(name: str) -> None:
        if not tracing.is_specialized_float(name):
            names.add(name)
            tracing.specialize_float(name)

    for name in _only_looked_at(gm):
        specialize(name)
    for node, example in zip(gm.graph.find_nodes(op="placeholder"), example_inputs, strict=True):
        if not _is_module_float(node):
            kept.append(example)
            continue
        specialize(str(node.meta["example_value"].item_memo.node._expr))
        if all(user.op == "call_method" and user.target == "item" for user in node.users):
            _replace(node)
        else:
            restart = True
    if restart:
        raise tracing.RestartTrace
    if len(kept) < len(example_inputs):
        gm.recompile()
    try:
        yield kept
    finally:  # the next compile may reuse these names for other floats
        tracing.forget_specialized_floats(names)


def _only_looked_at(gm: GraphModule) -> set[str]:
    """Floats that no node uses, such as a probability that was compared with 0.

    Their guards are sufficient, but AOTAutograd, which does not see them, would restart.
    """
    shape_env = tracing.shape_env()
    if shape_env is None:
        return set()
    floats = {str(s) for s in shape_env.backed_var_to_val if is_backed_float(s)}
    for node in gm.graph.find_nodes(op="placeholder"):
        number = getattr(node.meta.get("example_value"), "item_memo", None)
        if isinstance(number, torch.SymFloat):
            floats -= {str(s) for s in number.node._expr.free_symbols}
    return floats


def _is_module_float(node: Node) -> bool:
    number = getattr(node.meta.get("example_value"), "item_memo", None)
    argument = node.meta.get("grapharg")
    if not isinstance(number, torch.SymFloat) or argument is None:
        return False
    source = argument.source.guard_source
    return argument.pass_arg_as_tensor and (
        source.is_unspecialized_nn_module() or source.is_specialized_nn_module()
    )


def _replace(node: Node) -> None:
    value = guard_scalar(node.meta["example_value"].item_memo)
    for item in list(node.users):
        item.replace_all_uses_with(value)
        item.graph.erase_node(item)
    node.graph.erase_node(node)
