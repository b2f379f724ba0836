"""Tensors that a forward graph saves for its backward, which frees each at its last use."""

from __future__ import annotations

from torch.fx import GraphModule

from gex.compat.tracing import forward_metadata


def arguments_of(backward: GraphModule) -> list[int]:
    """Positions of arguments that only the backward holds, not the forward's own inputs."""
    placeholders = backward.graph.find_nodes(op="placeholder")
    return [i for i, node in enumerate(placeholders) if not node.name.startswith("primals")]


def allow_second_backward() -> None:
    """Allows `retain_graph=True` as in eager mode: gex never writes into saved tensors.

    AOTAutograd refuses it if it marks them as reusable memory.
    """
    metadata = forward_metadata()
    if metadata is not None:
        metadata.bw_donated_idxs = []
