"""Texts of a graph on its way down, written with the option `trace.enabled`."""

from __future__ import annotations

import os

from torch._dynamo.utils import get_debug_dir

from gex._gex import Graph


def folder_of(graph: Graph) -> str:
    """The folder for a graph's texts, inside PyTorch's own debug folder; holds it as imported."""
    folder = os.path.join(get_debug_dir(), "gex", graph.name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "imported.gex"), "w", encoding="utf-8") as file:
        file.write(graph.text())
    return folder
