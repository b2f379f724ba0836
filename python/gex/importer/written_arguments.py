"""Results that are views of an argument whose memory the graph writes.

In the functional graph such a result is a view of the argument's new value, which has its own
memory and layout. The caller makes the view again from the result's sizes, strides and offset, so
these must be those of a view of the argument.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node, map_arg

from gex.compat.aot import OutputType
from gex.compat.tracing import forward_metadata
from gex.importer.tensor_types import storage_of

_copy = torch.ops.aten.copy_.default


def results_that_alias_arguments() -> frozenset[int]:
    """Their positions among the results of the forward graph that AOTAutograd is compiling."""
    metadata = forward_metadata()
    if metadata is None:
        return frozenset()
    first = metadata.num_mutated_inp_runtime_indices  # new values of arguments come first
    return frozenset(
        first + i
        for i, info in enumerate(metadata.output_info)
        if info.output_type is OutputType.alias_of_input
    )


def arguments_by_new_value(gm: GraphModule) -> dict[Node, Node]:
    """The placeholder that each final value is written into; values of several are left out."""
    written: dict[Node, list[Node]] = {}
    for node in gm.graph.find_nodes(op="call_function", target=_copy):
        destination, source = node.args[:2]
        if destination.op == "placeholder" and isinstance(source, Node):
            written.setdefault(source, []).append(destination)
    return {value: places[0] for value, places in written.items() if len(places) == 1}


def view_of_argument(node: Node, arguments: dict[Node, Node]) -> tuple[Node, torch.Tensor] | None:
    """The argument, and a fake of the same view of it, for a result that is a chain of views of
    the argument's new value."""
    chain: list[Node] = []
    while node not in arguments:
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
            return None
        chain.append(node)
        node = node.args[0]
    argument = arguments[node]
    fake = argument.meta["val"]
    view: Any = fake
    with fake.fake_mode:
        for step in reversed(chain):
            if step.target is operator.getitem:
                view = view[step.args[1]]
                continue
            rest, named = map_arg((step.args[1:], step.kwargs), lambda n: n.meta["val"])
            view = step.target(view, *rest, **named)
    is_view = isinstance(view, torch.Tensor) and storage_of(view) == storage_of(fake)
    return (argument, view) if is_view and view.dtype == fake.dtype else None
