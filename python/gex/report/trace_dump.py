"""Texts of a graph on its way down, written with the option `trace.enabled`."""

from __future__ import annotations

import os

from gex._gex import Graph
from gex.compat import dynamo


def folder_of(graph: Graph) -> str:
    """The folder for a graph's texts, inside PyTorch's own debug folder; holds it as imported."""
    folder = os.path.join(dynamo.debug_folder(), "gex", graph.name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "imported.gex"), "w", encoding="utf-8") as file:
        file.write(graph.text())
    return folder
