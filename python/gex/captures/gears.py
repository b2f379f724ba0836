"""The sizes of the option `gears` by symbol of a graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import torch
from torch.fx import Graph

from gex._gex import Dim
from gex.importer.symbols import NotADim, Symbols
from gex.options.gears import ALL, Gears

Ladder = tuple[list[Dim], list[list[int]]]


def plain_name(source: str) -> str:
    """The user's name of an input that Dynamo calls L['x'] or L['self'].weight."""
    return re.sub(r"^L\['([^']*)'\]", r"\1", source)


def ladders(gears: Gears, graph: Graph, names: Iterable[str]) -> list[Ladder]:
    """The sizes by symbol of this graph. Dims that are constant here need none."""
    values = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
    tensors = {
        plain_name(name): value
        for name, value in zip(names, values)
        if isinstance(value, torch.Tensor)
    }
    out: list[Ladder] = []
    for places, rows in gears.items():
        if places == ALL:
            out.append(([Dim(0)], [list(row) for row in rows]))
            continue
        kept = [(k, s) for k, p in enumerate(places) if (s := _symbol(tensors, *p)) is not None]
        if kept:
            narrowed = dict.fromkeys(tuple(row[k] for k, _ in kept) for row in rows)
            out.append(([symbol for _, symbol in kept], [list(row) for row in narrowed]))
    return out


def _symbol(tensors: Mapping[str, torch.Tensor], argument: str, dim: int) -> Dim | None:
    tensor = tensors.get(argument)
    if tensor is None or not -tensor.dim() <= dim < tensor.dim():
        return None
    size = tensor.shape[dim]
    if not isinstance(size, torch.SymInt):
        return None
    try:
        return Symbols(size.node.shape_env).dim(size)
    except NotADim:
        return None
