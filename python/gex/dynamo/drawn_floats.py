"""Floats that Python's `random` draws inside a compiled function.

Dynamo traces them as 0-d f32 tensors, but passes f64 ones at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node


def with_drawn_floats(gm: GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """Makes these inputs f64. Their users read them as f32, as traced, except where eager mode
    computes in f64."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    given = list(inputs)
    for i, node in enumerate(placeholders):
        if _is_drawn(node) and given[i].dtype == torch.float32:
            given[i] = node.meta["example_value"] = given[i].to(torch.float64)
            _convert_for_users(gm, node, placeholders[-1])
    return given


def _is_drawn(node: Node) -> bool:
    argument = node.meta.get("grapharg")
    source = getattr(argument, "source", None)
    return source is not None and source.guard_source.name == "RANDOM_VALUE"


def _convert_for_users(gm: GraphModule, drawn: Node, last_placeholder: Node) -> None:
    users = [user for user in drawn.users if not _reads_doubles(user, drawn)]
    if not users:
        return
    with gm.graph.inserting_after(last_placeholder):
        converted = gm.graph.call_method("to", (drawn, torch.float32))
    converted.meta["example_value"] = drawn.meta["example_value"].to(torch.float32)
    for user in users:
        user.replace_input_with(drawn, converted)
    gm.recompile()


def _reads_doubles(user: Node, drawn: Node) -> bool:
    others = [node for node in user.all_input_nodes if node is not drawn]
    fakes = (node.meta.get("example_value") for node in others)
    return any(isinstance(f, torch.Tensor) and f.dtype == torch.float64 for f in fakes)
