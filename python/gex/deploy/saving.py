"""Model files of PyTorch programs."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from gex import _gex
from gex._gex import UserError
from gex.deploy.kernels import kernel_of
from gex.importer.graph_device import CPU
from gex.importer.graph_import import ImportedGraph


def save_imported(
    imported: ImportedGraph,
    path: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    levels: Sequence[str],
    name: str | None,
) -> None:
    if imported.device != CPU:
        raise UserError(f"model files are for the CPU; the program is on {imported.device}")
    if len(input_names) != imported.num_arguments:
        raise UserError(f"{imported.num_arguments} input names are needed, got {len(input_names)}")
    if len(output_names) != len(imported.outputs):
        raise UserError(f"{len(imported.outputs)} output names are needed, got {len(output_names)}")
    weights = [
        (graph_input, imported.constants[argument - imported.num_arguments].data_ptr())
        for graph_input, argument in enumerate(imported.tensors)
        if argument >= imported.num_arguments
    ]
    _gex.save_model(
        imported.graph,
        imported.signature(),
        weights,
        list(input_names),
        list(output_names),
        path,
        list(levels),
        name or pathlib.Path(path).stem,
        "PyTorch",
        _kernels(imported),
    )


def _kernels(imported: ImportedGraph) -> dict[int, tuple[str, str]]:
    """Calls of operators for which use_kernel named a kernel, with their parameters."""
    named = {}
    for number, callee in enumerate(imported.callees):
        recipe = getattr(callee, "recipe", None)
        if recipe is None or (kernel := kernel_of(recipe.target)) is None:
            continue
        if recipe.parameters is None:
            raise UserError(
                f"{recipe.name} at {recipe.location or 'an unknown line'}: kernel '{kernel}' can't "
                "get its arguments: those that are no tensors must be constants that JSON has"
            )
        named[number] = (kernel, recipe.parameters)
    return named
