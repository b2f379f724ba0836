"""Hooks through which `gex bisect` sees each compiled graph and runs its stages again.

They cost nothing unless an inspector is set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torch.fx import GraphModule

from gex.options.table import Config

if TYPE_CHECKING:
    from gex.importer.graph_import import ImportedGraph

Compiled = Callable[[list[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Compilation:
    """One ATen graph as it was compiled."""

    graph: str  # as in reports: graph_<k>
    config: Config
    imported: ImportedGraph | None  # None: it runs through PyTorch


class Inspector(Protocol):
    def dynamo_graph(self, gm: GraphModule, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a replacement for the compiled function of a Dynamo graph."""

    def aten_graph(self, compilation: Compilation, compiled: Compiled) -> Compiled:
        """Returns a replacement for the compiled function of an ATen graph."""


_inspector: Inspector | None = None


def set_inspector(inspector: Inspector | None) -> None:
    global _inspector
    _inspector = inspector


def dynamo_graph(gm: GraphModule, compiled: Callable[..., Any]) -> Callable[..., Any]:
    return compiled if _inspector is None else _inspector.dynamo_graph(gm, compiled)


def aten_graph(
    compiled: Compiled, graph: str, config: Config, imported: ImportedGraph | None = None
) -> Compiled:
    if _inspector is None:
        return compiled
    return _inspector.aten_graph(Compilation(graph, config, imported), compiled)
