"""Helpers of this package for nodes of FX graphs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

_WORD = re.compile(r"[^A-Za-z0-9_.]+")


def is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def target_name(node: Node) -> str:
    """The op's name without its namespace, usable as a file name: `add.Tensor`."""
    if node.op in ("placeholder", "get_attr"):
        return node.op
    name = getattr(node.target, "__name__", None) or str(node.target)
    return _WORD.sub("_", name)


def tensor_sources(node: Node) -> list[Node]:
    """The tensors that a node reads; for a part of a tuple, those of the node that makes the
    tuple."""
    sources: list[Node] = []
    for source in node.all_input_nodes:
        sources += [source] if is_tensor(source) else tensor_sources(source)
    return list(dict.fromkeys(sources))


def insert_after(graph: Graph, node: Node, make: Callable[[], Any]) -> None:
    """Runs `make` at a position where a call that reads `node` is allowed: not among the inputs."""
    place = node
    while place.next.op == "placeholder":
        place = place.next
    with graph.inserting_after(place):
        make()
