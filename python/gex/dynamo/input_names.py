"""Names of the inputs of Dynamo's graphs."""

from __future__ import annotations

import torch


def names_of_inputs(gm: torch.fx.GraphModule) -> list[str]:
    """The user's names of the inputs of a Dynamo graph."""
    names = []
    for node in gm.graph.find_nodes(op="placeholder"):
        argument = node.meta.get("grapharg")
        names.append(argument.source.name if argument is not None else node.name)
    return names
