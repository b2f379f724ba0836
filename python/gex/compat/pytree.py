"""Nested tuples, lists and dicts as a flat list of leaves and a structure."""

from torch.utils._pytree import (
    TreeSpec,
    tree_flatten,
    tree_leaves,
    tree_map_only,
    tree_unflatten,
)

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map_only", "tree_unflatten"]
