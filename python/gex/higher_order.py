"""Higher-order operators: nodes whose arguments hold graphs or other operators.

Each entry of `HANDLERS` imports one of them. A higher-order operator without an entry runs as a
call through PyTorch, graphs and all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from gex.node_import import Env, OpCall

if TYPE_CHECKING:
    from gex.body_import import BodyImport

# Takes the importer of the body at hand, the node, what the body's nodes stand for, and the
# user's line. Gives what the node stands for.
Handler = Callable[["BodyImport", Node, Env, str], Any]


def _with_effects(body: BodyImport, node: Node, env: Env, location: str) -> list[Any]:
    """with_effects(token, op, *args): the op, kept in order with others that have effects."""
    _, target, *args = node.args
    results = node.meta["val"][1:]
    single = len(target._schema.returns) == 1
    call = OpCall(target, args, node.kwargs, results[0] if single else results, location)
    values = body.nodes.add_call(call, env, "an operator with effects", ordered=True)
    return [None, values] if single else [None, *(values or ())]


HANDLERS: dict[Any, Handler] = {
    torch.ops.higher_order.with_effects: _with_effects,
}
