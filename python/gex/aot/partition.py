"""What a training step computes twice instead of keeping it.

An activation function is computed again where its argument is kept anyway, also for a product that
reads it from memory: that takes no longer than writing and reading it did (`docs/performance.md`).

Of nested regions inside of checkpoints, what draws random numbers must not be run twice: PyTorch's
partitioner has an op that it recomputes draw the numbers of the forward once more, but takes a
region for something that draws none.
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
    """PyTorch's partition into forward and backward, with the forward's numbers in both."""
    regions = list(_recomputed_random_regions(joint))
    if regions:
        # Regions of ours are undone: without them nothing but the numbers is kept.
        trace_without_regions(RuntimeError("a checkpoint recomputes it and it draws numbers"))
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
