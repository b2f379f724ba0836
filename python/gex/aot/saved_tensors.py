"""Tensors that a forward graph saves for its backward, which frees each at its last use."""

from __future__ import annotations

from torch.fx import GraphModule

from gex.compat.tracing import forward_metadata


def arguments_of(backward: GraphModule) -> list[int]:
    """Positions of arguments that nobody holds but the backward: not the forward's own inputs."""
    placeholders = backward.graph.find_nodes(op="placeholder")
    return [i for i, node in enumerate(placeholders) if not node.name.startswith("primals")]


def allow_second_backward() -> None:
    """Nothing here writes into saved tensors, so `retain_graph=True` works as in eager mode.

    AOTAutograd would refuse it where it offers them as memory to be overwritten.
    """
    metadata = forward_metadata()
    if metadata is not None:
        metadata.bw_donated_idxs = []
