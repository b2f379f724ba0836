"""torch.export in fewer steps than its public functions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export._trace import _export
from torch.export.exported_program import _decompose_exported_program

from gex.compat.fake_tensors import unset_fake_temporarily


def exported(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    """The result of `torch.export.export` and `without_composites`, traced once instead of
    twice."""
    with _quiet():
        return _export(module, args, kwargs, dynamic_shapes, strict=False, pre_dispatch=False)


def without_composites(program: ExportedProgram) -> ExportedProgram:
    """Decomposes composite ops (those defined only by other ops), as torch.compile does, and no
    others.

    Equivalent to `run_decompositions` with a table of them all, but without building that table,
    which takes most of its time.
    """
    with _quiet():
        return _decompose_exported_program(
            program,
            cia_to_decomp={},
            python_decomp_table={},
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses warnings as PyTorch's public functions do, and those about its internal use of
    pytrees."""
    with unset_fake_temporarily(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield
