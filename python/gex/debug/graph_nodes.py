"""What the aids of this package ask of nodes of FX graphs."""

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
    """The op's name without its namespace, fit for a file name: `add.Tensor`."""
    if node.op in ("placeholder", "get_attr"):
        return node.op
    name = getattr(node.target, "__name__", None) or str(node.target)
    return _WORD.sub("_", name)


def tensor_sources(node: Node) -> list[Node]:
    """The tensors that a node reads; those behind a tuple where it takes a part of one."""
    sources: list[Node] = []
    for source in node.all_input_nodes:
        sources += [source] if is_tensor(source) else tensor_sources(source)
    return list(dict.fromkeys(sources))


def insert_after(graph: Graph, node: Node, make: Callable[[], Any]) -> None:
    """Runs `make` where a call that reads `node` may stand: no call stands among the inputs."""
    place = node
    while place.next.op == "placeholder":
        place = place.next
    with graph.inserting_after(place):
        make()
