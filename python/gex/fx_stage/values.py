"""Fake values of nodes that a user's pass has created or changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from gex.compat.fake_tensors import FakeTensor, FakeTensorMode, detect_fake_mode
from gex.compat.pytree import tree_leaves, tree_map_only


def fill_in(gm: GraphModule, edit: Callable[[], Any]) -> None:
    """Edits the graph; recomputes the values of changed nodes and of nodes that depend on them."""
    before = {node: _call_of(node) for node in gm.graph.nodes}
    _have_one_mode(gm)
    edit()
    gm.graph.lint()
    mode = detect_fake_mode([v for n in gm.graph.nodes for v in tree_leaves(n.meta.get("val"))])
    changed: set[Node] = set()
    with mode or contextlib.nullcontext():
        for node in gm.graph.nodes:
            if node.op != "call_function":
                continue
            is_new = before.get(node) != _call_of(node) or "val" not in node.meta
            if is_new or any(operand in changed for operand in node.all_input_nodes):
                _fill_in(node, changed)
    gm.recompile()


def _have_one_mode(gm: GraphModule) -> None:
    """Gives all values one fake mode: graphs traced with real tensors have a different mode per
    value."""
    leaves = [v for n in gm.graph.nodes for v in tree_leaves(n.meta.get("val"))]
    if len({id(v.fake_mode) for v in leaves if isinstance(v, FakeTensor)}) < 2:
        return
    with FakeTensorMode():
        for node in gm.graph.nodes:
            if "val" in node.meta:
                node.meta["val"] = tree_map_only(FakeTensor, _like, node.meta["val"])


def _like(fake: FakeTensor) -> torch.Tensor:
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device)


def _call_of(node: Node) -> tuple[Any, ...]:
    return (node.target, node.args, node.kwargs)


def _fill_in(node: Node, changed: set[Node]) -> None:
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    val = node.target(*args, **kwargs)
    if "val" not in node.meta or not _alike(node.meta["val"], val):
        node.meta["val"] = val
        changed.add(node)


def _alike(old: Any, new: Any) -> bool:
    """Whether users of the node can keep their values."""
    before, after = tree_leaves(old), tree_leaves(new)
    return len(before) == len(after) and all(map(_same_form, before, after))


def _same_form(old: Any, new: Any) -> bool:
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        return _form(old) == _form(new)
    return type(old) is type(new) and bool(old == new)


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    sizes = tuple(str(size) for size in (*tensor.shape, *tensor.stride()))
    return (tensor.dtype, tensor.device, sizes)
