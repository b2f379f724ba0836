"""Writes the texts of a graph at each stage, for the option `trace.enabled`."""

from __future__ import annotations

import os

from gex._gex import Graph
from gex.compat import dynamo


def folder_of(graph: Graph) -> str:
    """The folder for a graph's texts, inside PyTorch's debug folder; contains the imported
    graph."""
    folder = os.path.join(dynamo.debug_folder(), "gex", graph.name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "imported.gex"), "w", encoding="utf-8") as file:
        file.write(graph.text())
    return folder
