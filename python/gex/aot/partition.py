"""What a training step recomputes instead of saving.

An activation function is recomputed if its argument is saved anyway, even for a matmul that reads
it from memory: that takes no longer than writing and reading it (`docs/performance.md`).

Nested regions inside checkpoints that draw random numbers must not be run twice: PyTorch's
partitioner makes a recomputed op reuse the random numbers of the forward, but assumes that a region
draws none.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy

from gex.compat.aot import min_cut_partition
from gex.importer.torch_calls import is_random
from gex.nested_regions.groups import trace_without_regions

_RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


def partition(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
    """PyTorch's partition into forward and backward, with the forward's random numbers in both."""
    regions = list(_recomputed_random_regions(joint))
    if regions:
        # Our regions are expanded: then only the random numbers are saved.
        trace_without_regions(
            RuntimeError("a checkpoint recomputes it and it draws random numbers")
        )
    for region in regions:
        for kept in (region, *(u for u in region.users if u.target is operator.getitem)):
            kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return min_cut_partition(joint, *args, **kwargs)


def _recomputed_random_regions(joint: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    for node in joint.graph.find_nodes(
        op="call_function", target=torch.ops.higher_order.invoke_subgraph
    ):
        if node.meta.get("recompute") in _RECOMPUTED and _draws_numbers(
            getattr(joint, node.args[0].target)
        ):
            yield node


def _draws_numbers(body: torch.fx.GraphModule) -> bool:
    return any(
        is_random(node.target, node.args, node.kwargs)
        for module in body.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    )
